//! Tokens and money saved.

use std::collections::BTreeMap;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode},
    routing::get,
};
use serde::Serialize;

use super::{
    ControlState,
    caller::ControlCaller,
    query::pairs,
    responses::{answer, blocking, error_response},
};
use crate::{
    activity::Prices,
    savings::{Day, Sums},
};

/// How the savings are computed.
const FORMULA: &str = "For each list that a client gets: the estimated tokens of the definitions of all tools that it \
                       may see, minus those of the list, minus those of the answers of its searches. A list is counted \
                       once each time that a client asks for it, although a model reads it with every request.";

pub(super) fn routes() -> Router<ControlState> {
    Router::new().route("/control/savings", get(savings))
}

#[derive(Debug, Serialize)]
struct Part {
    key: String,
    #[serde(flatten)]
    sums: Sums,
    saved: i64,
    money: Option<f64>,
}

#[derive(Debug, Serialize)]
struct DayView {
    date: String,
    #[serde(flatten)]
    sums: Sums,
    saved: i64,
    money: Option<f64>,
    clients: Vec<Part>,
    servers: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Savings<'a> {
    since: Option<String>,
    days: Vec<DayView>,
    clients: Vec<Part>,
    servers: Vec<Part>,
    total: Part,
    prices: Option<&'a Prices>,
    formula: &'static str,
}

async fn savings(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    if !asking.has_full_access() {
        return error_response(StatusCode::FORBIDDEN, "this token is restricted; savings cover all clients");
    }
    let days = pairs(request.uri().query().unwrap_or_default()).find(|(key, _)| *key == "days");
    let days = days.and_then(|(_, value)| value.parse().ok()).unwrap_or(30_usize).clamp(1, 400);
    let ledger = std::sync::Arc::clone(&state.savings);
    let days = match blocking(move || ledger.days(days)).await {
        Ok(days) => days,
        Err(response) => return response,
    };
    let setup = state.control.setups.current();
    answer(&summary(&days, setup.console.prices.as_ref()))
}

fn summary<'a>(days: &[(String, Day)], prices: Option<&'a Prices>) -> Savings<'a> {
    let (mut clients, mut servers) = (BTreeMap::<String, Sums>::new(), BTreeMap::<String, Sums>::new());
    for (_, day) in days {
        day.clients.iter().for_each(|(name, sums)| clients.entry(name.clone()).or_default().add(sums));
        day.servers.iter().for_each(|(name, sums)| servers.entry(name.clone()).or_default().add(sums));
    }
    let mut total = Sums::default();
    clients.values().for_each(|sums| total.add(sums));
    let total = Part { key: "total".to_owned(), sums: total, saved: total.saved(), money: money(&clients, prices) };
    let day_view = |(date, day): &(String, Day)| {
        let sums = day.total();
        let (clients, servers) = (client_parts(&day.clients, prices), server_parts(&day.servers));
        let money = money(&day.clients, prices);
        DayView { date: date.clone(), sums, saved: sums.saved(), money, clients, servers }
    };
    Savings {
        since: days.first().map(|(date, _)| date.clone()),
        days: days.iter().map(day_view).collect(),
        clients: client_parts(&clients, prices),
        servers: server_parts(&servers),
        total,
        prices,
        formula: FORMULA,
    }
}

/// Returns the price of saved tokens, rounded to a millionth.
fn price(saved: i64, per_million: f64) -> f64 {
    (saved as f64 * per_million).round() / 1e6
}

fn money(clients: &BTreeMap<String, Sums>, prices: Option<&Prices>) -> Option<f64> {
    let prices = prices?;
    let total: f64 = clients.iter().map(|(name, sums)| sums.saved() as f64 * prices.of_client(name)).sum();
    Some(total.round() / 1e6)
}

fn client_parts(clients: &BTreeMap<String, Sums>, prices: Option<&Prices>) -> Vec<Part> {
    let part = |(name, sums): (&String, &Sums)| Part {
        key: name.clone(),
        sums: *sums,
        saved: sums.saved(),
        money: prices.map(|prices| price(sums.saved(), prices.of_client(name))),
    };
    sorted(clients.iter().map(part).collect())
}

/// Returns the parts of servers. The money of a server is not known: clients have different prices.
fn server_parts(servers: &BTreeMap<String, Sums>) -> Vec<Part> {
    let part =
        |(name, sums): (&String, &Sums)| Part { key: name.clone(), sums: *sums, saved: sums.saved(), money: None };
    sorted(servers.iter().map(part).collect())
}

fn sorted(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|one, other| (other.saved, &one.key).cmp(&(one.saved, &other.key)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::ClientPrice;

    #[test]
    fn money_follows_the_price_of_each_client() {
        let sums = |all, shown, replies| Sums {
            lists: 1,
            tokens_of_all: all,
            tokens_shown: shown,
            tokens_of_replies: replies,
            ..Sums::default()
        };
        let clients = [("a".to_owned(), sums(1_500_000, 400_000, 100_000)), ("b".to_owned(), sums(100, 300, 0))];
        let day = Day { clients: clients.into(), servers: [("s".to_owned(), sums(10, 0, 0))].into() };
        let prices = Prices {
            currency: "USD".to_owned(),
            per_million_tokens: 3.0,
            clients: vec![ClientPrice { client: "b".to_owned(), per_million_tokens: 10.0 }],
        };
        let days = [("2026-08-23".to_owned(), day)];
        let found = summary(&days, Some(&prices));
        assert_eq!((found.total.saved, found.total.money), (999_800, Some(2.998)));
        let clients: Vec<(&str, i64, Option<f64>)> =
            found.clients.iter().map(|part| (part.key.as_str(), part.saved, part.money)).collect();
        assert_eq!(clients, [("a", 1_000_000, Some(3.0)), ("b", -200, Some(-0.002))]);
        assert_eq!(summary(&days, None).total.money, None);
        assert_eq!((found.servers[0].saved, found.servers[0].money), (10, None));
    }
}
