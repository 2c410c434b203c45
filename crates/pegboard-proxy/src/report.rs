//! What the proxy says about its work: the response header, and the numbers of each route.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::{mode::Mode, route::Route};

/// The response header that tells what was done with a request.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-pegboard");

/// What was done with one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) mode: Mode,
    /// The number of tools of the client; `None` if they were not read.
    pub(crate) tools: Option<usize>,
    /// The number of definitions that were sent to the provider.
    pub(crate) sent: Option<usize>,
    /// The rounds that the client does not see; `None` while they are not known.
    pub(crate) rounds: Option<usize>,
    /// The reason why the request was passed through.
    pub(crate) reason: Option<&'static str>,
    /// Whether hidden turns of the conversation are not known any more.
    pub(crate) is_miss: bool,
}

impl Report {
    /// Returns the report of a request that passes through unread for this reason.
    pub(crate) fn pass(reason: &'static str) -> Self {
        Self { mode: Mode::Pass, reason: Some(reason), ..Self::default() }
    }

    /// Returns the report of a request that passes through with all its tools.
    pub(crate) fn pass_tools(reason: &'static str, tools: usize) -> Self {
        Self { tools: Some(tools), sent: Some(tools), ..Self::pass(reason) }
    }

    /// Adds the header to a response that passes through. Most errors do not tell whether a conversation is known, because
    /// the provider may not have accepted the credential. An error about the request itself does: lost turns may be its
    /// reason.
    pub(crate) fn mark_response<B>(&self, response: &mut Response<B>) {
        let status = response.status();
        let is_read = status.is_success() || [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND].contains(&status);
        let is_miss = self.is_miss && is_read;
        Self { is_miss, ..self.clone() }.mark(response.headers_mut());
    }

    /// Adds the header to a response.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        let mut text = format!("mode={}", self.mode.as_str());
        for (name, number) in [("tools", self.tools), ("sent", self.sent), ("hidden_rounds", self.rounds)] {
            if let Some(number) = number {
                text.push_str(&format!("; {name}={number}"));
            }
        }
        if self.is_miss {
            text.push_str("; history=incomplete");
        }
        if let Some(reason) = self.reason {
            text.push_str(&format!("; reason={reason}"));
        }
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(HEADER, value);
        }
    }
}

/// The numbers of one route since the proxy was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteNumbers {
    /// Requests that ask for an answer of a model or its tokens.
    pub requests: u64,
    /// Other requests, which pass through.
    pub other_requests: u64,
    /// Requests that were passed through, by reason.
    pub bypassed: BTreeMap<String, u64>,
    /// Tools in requests.
    pub tools_in: u64,
    /// Tools that were sent to the provider, for every request to it.
    pub tools_sent: u64,
    /// Tokens (estimated) of the definitions in requests.
    pub definition_tokens_in: u64,
    /// Tokens (estimated) of the definitions that were sent to the provider, for every request to it.
    pub definition_tokens_sent: u64,
    /// Tokens (estimated) of definitions that were not sent.
    pub tokens_saved: u64,
    /// Rounds that clients do not see.
    pub hidden_rounds: u64,
    /// Requests whose hidden turns were not known any more.
    pub misses: u64,
    /// Milliseconds before requests were sent to the provider, reading their bodies aside.
    pub added_ms: f64,
    /// Tokens that providers have read from their caches, as they report it.
    pub cache_read_tokens: u64,
    /// Requests that were sent to the provider again in another form, because it had refused them.
    pub retries: u64,
    /// Answers that ended with an error in a round that the client does not see.
    pub failed_rounds: u64,
}

/// A number of a route: its name, its description, and its value.
type Counter = (&'static str, &'static str, fn(&RouteNumbers) -> f64);

/// Returns numbers in the text format of Prometheus.
pub(crate) fn prometheus(numbers: &BTreeMap<Route, RouteNumbers>) -> String {
    let counters: [Counter; 10] = [
        ("requests_total", "Requests that ask for an answer of a model.", |it| it.requests as f64),
        ("tools_in_total", "Tools in requests.", |it| it.tools_in as f64),
        ("tools_sent_total", "Tools that were sent to providers.", |it| it.tools_sent as f64),
        ("definition_tokens_in_total", "Estimated tokens of definitions in requests.", |it| {
            it.definition_tokens_in as f64
        }),
        ("definition_tokens_sent_total", "Estimated tokens of definitions that were sent.", |it| {
            it.definition_tokens_sent as f64
        }),
        ("hidden_rounds_total", "Rounds that clients do not see.", |it| it.hidden_rounds as f64),
        ("history_misses_total", "Requests with unknown hidden turns.", |it| it.misses as f64),
        ("retries_total", "Requests that were sent again in another form.", |it| it.retries as f64),
        ("added_seconds_total", "Time before requests were sent on.", |it| it.added_ms / 1000.0),
        ("cache_read_tokens_total", "Tokens that providers have read from their caches.", |it| {
            it.cache_read_tokens as f64
        }),
    ];
    let mut text = String::new();
    for (name, help, value) in counters {
        text.push_str(&format!("# HELP pegboard_proxy_{name} {help}\n# TYPE pegboard_proxy_{name} counter\n"));
        for (route, numbers) in numbers {
            text.push_str(&format!("pegboard_proxy_{name}{{route=\"{route}\"}} {}\n", value(numbers)));
        }
    }
    text.push_str("# HELP pegboard_proxy_bypassed_total Requests that were passed through.\n");
    text.push_str("# TYPE pegboard_proxy_bypassed_total counter\n");
    for (route, numbers) in numbers {
        for (reason, count) in &numbers.bypassed {
            text.push_str(&format!("pegboard_proxy_bypassed_total{{route=\"{route}\",reason=\"{reason}\"}} {count}\n"));
        }
    }
    text
}

/// The numbers of all routes.
#[derive(Debug, Default)]
pub(crate) struct Counters([Mutex<RouteNumbers>; 3]);

impl Counters {
    /// Returns the numbers of a route, to change them.
    pub(crate) fn of(&self, route: Route) -> MutexGuard<'_, RouteNumbers> {
        // Every change is one addition, so that a poisoned lock protects valid numbers.
        self.0[route as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request with its report.
    pub(crate) fn count(&self, route: Route, report: &Report, took: Duration) {
        let mut numbers = self.of(route);
        numbers.requests += 1;
        let tools = report.tools.unwrap_or_default() as u64;
        numbers.tools_in += tools;
        numbers.misses += u64::from(report.is_miss);
        numbers.added_ms += took.as_secs_f64() * 1000.0;
        if let Some(reason) = report.reason {
            *numbers.bypassed.entry(reason.to_owned()).or_default() += 1;
            numbers.tools_sent += tools;
        }
    }

    /// Returns a copy of all numbers.
    pub(crate) fn snapshot(&self) -> BTreeMap<Route, RouteNumbers> {
        let numbers = |route| {
            let numbers = self.of(route).clone();
            let tokens_saved = numbers.definition_tokens_in.saturating_sub(numbers.definition_tokens_sent);
            (route, RouteNumbers { tokens_saved, ..numbers })
        };
        Route::ALL.into_iter().map(numbers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_routes() {
        let counters = Counters::default();
        counters.count(Route::OpenAi, &Report::pass_tools("few-tools", 5), Duration::from_millis(2));
        let mut numbers = counters.of(Route::OpenAi);
        (numbers.definition_tokens_in, numbers.definition_tokens_sent) = (100, 30);
        drop(numbers);
        let numbers = counters.snapshot();
        assert_eq!(numbers[&Route::OpenAi].tokens_saved, 70);
        let text = prometheus(&numbers);
        for line in [
            "pegboard_proxy_requests_total{route=\"openai\"} 1",
            "pegboard_proxy_requests_total{route=\"gemini\"} 0",
            "pegboard_proxy_tools_in_total{route=\"openai\"} 5",
            "pegboard_proxy_added_seconds_total{route=\"openai\"} 0.002",
            "pegboard_proxy_bypassed_total{route=\"openai\",reason=\"few-tools\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn headers() {
        let check = |report: Report, expected: &str| {
            let mut headers = HeaderMap::new();
            report.mark(&mut headers);
            assert_eq!(headers[HEADER], expected);
        };
        check(Report::pass("mode"), "mode=pass; reason=mode");
        check(Report::pass_tools("few-tools", 3), "mode=pass; tools=3; sent=3; reason=few-tools");
        let (tools, sent) = (Some(2529), Some(2));
        let report = Report { tools, sent, rounds: Some(1), is_miss: true, ..Report::default() };
        check(report, "mode=defer; tools=2529; sent=2; hidden_rounds=1; history=incomplete");
    }
}
