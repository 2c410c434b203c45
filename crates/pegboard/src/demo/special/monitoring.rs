//! Metrics, on-call duty and how reliable services were.

use serde_json::{Value, json};

use super::{Tools, cents};
use crate::demo::{
    clock::{self, DAY},
    verbs::{self, Call},
    world::{Outcome, Refusal, World, hash, known_as, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("alert.silence", silence),
    ("metric.query", query),
    ("oncall.who", on_call),
    ("uptime.check", check),
    ("slo.report", report),
];

const INCIDENTS: &str = "monitoring/incidents";

fn silence(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let wanted = call.arguments.value("match").clone();
    let minutes = call.arguments.int("minutes").unwrap_or(1).clamp(1, 525_600);
    let until = clock::show(world.now() + minutes * 60);
    let is_meant =
        |alert: &&Value| wanted.as_object().is_some_and(|it| it.iter().all(|(key, value)| alert[key] == *value));
    let alerts: Vec<Value> = world.all("monitoring/alerts").iter().filter(is_meant).cloned().collect();
    for mut alert in alerts.iter().cloned() {
        alert["silenced"] = true.into();
        alert["silenced_until"] = until.as_str().into();
        world.put("monitoring/alerts", alert)?;
    }
    call.arguments.set("until", until);
    call.arguments.set("alerts", alerts.iter().map(|alert| alert["id"].clone()).collect::<Vec<_>>());
    verbs::create(world, call)
}

/// The instant under `name`, or `otherwise`.
fn instant(call: &Call<'_>, name: &str, otherwise: i64) -> Result<i64, Refusal> {
    match call.arguments.text(name) {
        "" => Ok(otherwise),
        text => clock::parse(text).ok_or_else(|| format!("`{name}` is no date or time: `{text}`").into()),
    }
}

/// A made-up series that belongs to its expression: a daily wave with noise on it.
fn sample(expr: &str, at: i64) -> f64 {
    let base = (hash(expr) % 90 + 10) as f64;
    let wave = ((at % DAY) as f64 / DAY as f64 * std::f64::consts::TAU).sin();
    let noise = (hash(&format!("{expr}{at}")) % 100) as f64 / 100.0;
    cents(base * (1.0 + 0.3 * wave + 0.1 * noise))
}

fn query(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const MOST: i64 = 500;
    let (start, end) = (instant(call, "start", 0)?, instant(call, "end", world.now())?);
    let step = call.arguments.text("step");
    let unit = match step.chars().last() {
        Some('s') => 1,
        Some('h') => 3_600,
        Some('d') => DAY,
        _ => 60,
    };
    let count = step.trim_end_matches(char::is_alphabetic).parse::<i64>().unwrap_or(1).clamp(1, 1_000);
    let step = (unit * count).max((end - start) / MOST + 1);
    let expr = call.arguments.text("expr");
    let points: Vec<(i64, f64)> =
        (0..=MOST).map(|n| start + n * step).take_while(|at| *at <= end).map(|at| (at, sample(expr, at))).collect();
    if points.is_empty() {
        return Err("`end` is before `start`".into());
    }
    let mut values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    let sum: f64 = values.iter().sum();
    let how = call.arguments.text("aggregate");
    let value = match how {
        "sum" => sum,
        "min" => at(0.0),
        "max" => at(1.0),
        "p50" => at(0.5),
        "p95" => at(0.95),
        "p99" => at(0.99),
        _ => sum / values.len() as f64,
    };
    let how = if how.is_empty() { "avg" } else { how };
    let series: Vec<Value> = points.iter().map(|(at, value)| json!([clock::show(*at), value])).collect();
    Ok(
        json!({"message": format!("{how} of `{expr}` over {} made-up points", series.len()), "aggregate": how, "value": cents(value), "step_seconds": step, "series": series}),
    )
}

fn on_call(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let team = world.find("monitoring/teams", call.arguments.text("team"))?;
    let at = instant(call, "at", world.now())?;
    let members = team["members"].as_array().cloned().unwrap_or_default();
    // Duty changes on Mondays.
    let week = (at.div_euclid(DAY) + 3).div_euclid(7);
    let at_week = |week: i64| members.get(usize::try_from(week.rem_euclid(members.len().max(1) as i64)).unwrap_or(0));
    let who = at_week(week).map_or("nobody".to_owned(), text_of);
    Ok(
        json!({"message": format!("{who} is on call for {} at {}", text_of(&team["name"]), clock::show(at)), "on_call": who, "next": at_week(week + 1)}),
    )
}

fn check(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let host = |url: &str| url.split("://").last().unwrap_or(url).split('/').next().unwrap_or_default().to_owned();
    let target = host(call.arguments.text("target"));
    let services = world.all("monitoring/services");
    let Some(service) = services.iter().find(|service| host(&text_of(&service["url"])) == target) else {
        let known: Vec<String> = services.iter().map(|service| text_of(&service["url"])).collect();
        return Err(format!("the demo cannot reach `{target}`; {}", known_as(&known)).into());
    };
    let is_hit = |incident: &&Value| incident["is_open"] == true && incident["severity"] == "sev1";
    let mut hits = world.all(INCIDENTS).iter().filter(is_hit);
    let is_up = !hits.any(|incident| incident["services"].as_array().is_some_and(|it| it.contains(&service["name"])));
    let mut regions = call.arguments.texts("from_regions");
    if regions.is_empty() {
        regions = vec!["eu"];
    }
    let latency = |region: &str| 20 + hash(&format!("{target}{region}")) % 180;
    let result = |region: &&str| json!({"region": region, "up": is_up, "latency_ms": if is_up { Some(latency(region)) } else { None }});
    let results: Vec<Value> = regions.iter().map(result).collect();
    Ok(
        json!({"message": format!("{target} is {}", if is_up { "up" } else { "down: a sev1 incident is open" }), "service": service["name"], "results": results}),
    )
}

fn report(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let service = world.find("monitoring/services", call.arguments.text("service"))?;
    let days: i64 = call.arguments.text("window").trim_end_matches('d').parse().unwrap_or(30);
    let (now, window) = (world.now(), days * DAY / 60);
    let minutes = |incident: &Value| {
        let start = clock::parse(&text_of(&incident["created_at"])).unwrap_or(now);
        let lasted = incident["minutes"].as_i64().unwrap_or((now - start) / 60);
        let is_counted = matches!(incident["severity"].as_str(), Some("sev1" | "sev2")) && start >= now - days * DAY;
        let is_ours = incident["services"].as_array().is_some_and(|services| services.contains(&service["name"]));
        if is_counted && is_ours { lasted.min(window) } else { 0 }
    };
    let down: i64 = world.all(INCIDENTS).iter().map(minutes).sum::<i64>().min(window);
    let target = service["target"].as_f64().unwrap_or(99.9);
    let available = 100.0 * (1.0 - down as f64 / window as f64);
    let budget = window as f64 * (100.0 - target) / 100.0;
    Ok(json!({
        "message": format!("{}: {available:.3} % of {days} days, target {target} %", text_of(&service["name"])),
        "availability": (available * 1_000.0).round() / 1_000.0, "target": target, "down_minutes": down,
        "budget_minutes": cents(budget), "budget_left_minutes": cents(budget - down as f64),
    }))
}
