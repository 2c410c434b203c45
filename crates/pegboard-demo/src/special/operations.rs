//! Clusters, costs, metrics and duty; scenes, energy and the garden.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Tools, cents, maps};
use crate::{
    clock::{self, DAY, WEEKDAYS},
    verbs::{self, Call},
    world::{Outcome, ToolError, World, hash, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("kubernetes.pods.list", pods),
    ("billing.costs.get", costs),
    ("alert.silence", silence),
    ("metric.query", query),
    ("oncall.who", on_call),
    ("slo.report", report),
    ("LockDoor", lock),
    ("RunScene", run_scene),
    ("EnergyReport", energy),
    ("GomiReminder", rubbish),
    ("RegarJardin", water),
];

const DEVICES: &str = "home/devices";

/// Returns the time under `name`, or `otherwise`.
fn instant(call: &Call<'_>, name: &str, otherwise: i64) -> Result<i64, ToolError> {
    match call.arguments.text(name) {
        "" => Ok(otherwise),
        text => clock::parse(text).ok_or_else(|| format!("`{name}` is not a date or time").into()),
    }
}

fn pods(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let app = call.arguments.text("selector").split_once('=').map(|(_, app)| app.trim_start_matches('='));
    let is_meant = |deployment: &&Value| {
        ["cluster", "namespace"].iter().all(|name| deployment[name] == *call.arguments.value(name))
            && app.is_none_or(|app| deployment["name"] == *app)
    };
    let mut pods = Vec::new();
    for deployment in world.all("cloud/deployments").iter().filter(is_meant) {
        for at in 0..deployment["replicas"].as_u64().unwrap_or(0).min(1_000) {
            let name =
                format!("{}-{:06x}", text_of(&deployment["name"]), hash(&format!("{}{at}", deployment["id"])) >> 40);
            pods.push(json!({"name": name, "image": deployment["image"], "status": "Running", "restarts": 0}));
        }
    }
    Ok(json!({"message": format!("{} pod(s) in {}", pods.len(), call.arguments.text("cluster")), "pods": pods}))
}

/// Returns the running resources, priced for the whole period.
fn costs(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let days = (instant(call, "end", 0)? - instant(call, "start", 0)?).max(0) / DAY;
    let by = call.arguments.text("groupBy");
    let mut groups: BTreeMap<String, f64> = BTreeMap::new();
    let mut per_day = 0.0;
    for machine in world.all("cloud/instances").iter().filter(|machine| machine["state"] == "running") {
        let price = world.find("cloud/prices", &text_of(&machine["machineType"]));
        let price = price.map_or(4.0, |price| price["per_day"].as_f64().unwrap_or(0.0));
        let group = match by {
            "region" => text_of(&machine["region"]),
            "tag" => text_of(&machine["tags"]),
            "project" => "demo".to_owned(),
            _ => format!("compute {}", text_of(&machine["machineType"])),
        };
        *groups.entry(group).or_default() += price * days as f64;
        per_day += price;
    }
    let forecast = call.arguments.is("forecast").then(|| cents(per_day * 30.0));
    let message = format!("{} USD for {days} days of machines, by {by}", cents(per_day * days as f64));
    Ok(json!({"message": message, "costs": groups, "forecast_for_30_days": forecast}))
}

fn silence(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let wanted = call.arguments.value("match").as_object().cloned().unwrap_or_default();
    let minutes = call.arguments.int("minutes").unwrap_or(1).clamp(1, 525_600);
    let until = clock::show(world.now() + minutes * 60);
    let mut silenced = Vec::new();
    for mut alert in world.all("monitoring/alerts").to_vec() {
        if wanted.iter().all(|(name, value)| alert[name] == *value) {
            alert["silenced"] = true.into();
            silenced.push(alert["id"].clone());
            world.put("monitoring/alerts", alert)?;
        }
    }
    call.arguments.set("until", until);
    call.arguments.set("alerts", silenced);
    verbs::create(world, call)
}

/// Returns a made-up value of a series that depends only on its expression: a daily wave with
/// noise.
fn sample(expr: &str, at: i64) -> f64 {
    let base = (hash(expr) % 90 + 10) as f64;
    let wave = ((at % DAY) as f64 / DAY as f64 * std::f64::consts::TAU).sin();
    let noise = (hash(&format!("{expr}{at}")) % 100) as f64 / 100.0;
    cents(base * (1.0 + 0.3 * wave + 0.1 * noise))
}

fn query(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const MOST: i64 = 200;
    let (start, end) = (instant(call, "start", 0)?, instant(call, "end", world.now())?);
    if start > end {
        return Err("`start` must not be later than `end`".into());
    }
    let step = call.arguments.text("step");
    let unit = [('s', 1), ('h', 3_600), ('d', DAY)].into_iter().find(|(unit, _)| step.ends_with(*unit));
    let count = step.trim_end_matches(char::is_alphabetic).parse::<i64>().unwrap_or(1).clamp(1, 1_000);
    let step = (count * unit.map_or(60, |(_, seconds)| seconds)).max((end - start) / MOST + 1);
    let expr = call.arguments.text("expr");
    let times = (0..=MOST).map(|n| start + n * step).take_while(|at| *at <= end);
    let series: Vec<(String, f64)> = times.map(|at| (clock::show(at), sample(expr, at))).collect();
    let mut values: Vec<f64> = series.iter().map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    let how = call.arguments.text("aggregate");
    let share = match how {
        "min" => 0.0,
        "p50" => 0.5,
        "p95" => 0.95,
        "p99" => 0.99,
        _ => 1.0,
    };
    let sum: f64 = values.iter().sum();
    let value = match how {
        "sum" => sum,
        "" | "avg" => sum / values.len() as f64,
        _ => *values.get((values.len().saturating_sub(1) as f64 * share).round() as usize).unwrap_or(&0.0),
    };
    let message = format!("{} made-up points of `{expr}` every {step} s", series.len());
    Ok(json!({"message": message, "value": cents(value), "series": series}))
}

fn on_call(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let at = instant(call, "at", world.now())?;
    let members = call.found["team"]["members"].as_array().cloned().unwrap_or_default();
    // Duty changes on Mondays.
    let week = (at.div_euclid(DAY) + 3).div_euclid(7).rem_euclid(members.len().max(1) as i64);
    let who = usize::try_from(week).ok().and_then(|week| members.get(week)).map_or("nobody".to_owned(), text_of);
    let message = format!("{who} is on call for {} at {}", call.arguments.text("team"), clock::show(at));
    Ok(json!({"message": message, "on_call": who, "rotation": members}))
}

fn report(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let service = &call.found["service"];
    let days: i64 = call.arguments.text("window").trim_end_matches('d').parse().unwrap_or(30);
    let (now, window) = (world.now(), days * DAY / 60);
    let minutes = |incident: &Value| {
        let start = clock::parse(&text_of(&incident["created_at"])).unwrap_or(now);
        let is_counted = matches!(incident["severity"].as_str(), Some("sev1" | "sev2")) && start >= now - days * DAY;
        let is_ours = incident["services"].as_array().is_some_and(|services| services.contains(&service["name"]));
        if is_counted && is_ours { incident["minutes"].as_i64().unwrap_or((now - start) / 60) } else { 0 }
    };
    let down = world.all("monitoring/incidents").iter().map(minutes).sum::<i64>().min(window);
    let target = service["target"].as_f64().unwrap_or(99.9);
    let (available, budget) = (100.0 * (1.0 - down as f64 / window as f64), window as f64 * (100.0 - target) / 100.0);
    Ok(json!({
        "message": format!("{}: {available:.3} % in {days} days, target {target} %", call.arguments.text("service")),
        "down_minutes": down, "budget_minutes": cents(budget), "budget_left_minutes": cents(budget - down as f64),
    }))
}

fn lock(world: &mut World, call: &mut Call<'_>) -> Outcome {
    // The code is not a secret: the server's instructions contain it.
    if call.arguments.take("pin") != "2580" && call.arguments.text("action") == "unlock" {
        return Err("unlocking needs the right `pin`".into());
    }
    verbs::change(world, call)
}

fn run_scene(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut changed = Vec::new();
    for mut device in world.all(DEVICES).to_vec() {
        let sets = &call.found["name"]["sets"][text_of(&device["kind"])];
        for (field, value) in sets.as_object().into_iter().flatten() {
            device[field] = value.clone();
        }
        if sets.is_object() {
            changed.push(device["id"].clone());
            world.put(DEVICES, device)?;
        }
    }
    let message = format!("{} runs {} s from now", call.arguments.text("name"), call.arguments.value("delay_s"));
    Ok(json!({"message": message, "devices": changed}))
}

fn energy(world: &mut World, call: &mut Call<'_>) -> Outcome {
    /// The price of one kilowatt-hour, in euros.
    const PRICE: f64 = 0.31;
    let period = call.arguments.text("period");
    let days = [("day", 1.0), ("week", 7.0), ("month", 30.0)].into_iter().find(|(name, _)| *name == period);
    let days = days.map_or(365.0, |(_, days)| days);
    let mut used: BTreeMap<String, f64> = BTreeMap::new();
    for device in world.all(DEVICES) {
        // A device that is off still draws a little.
        let share = if device["on"] == false { 0.05 } else { 1.0 };
        let kwh = device["kwh_per_day"].as_f64().unwrap_or(0.0) * share * days;
        used.insert(text_of(&device["id"]), cents(kwh));
    }
    let total: f64 = used.values().sum();
    let message = format!("{} kWh in a {period}, as the devices are set now", cents(total));
    let devices = call.arguments.is("by_device").then_some(used);
    Ok(json!({"message": message, "kwh": cents(total), "cost_eur": cents(total * PRICE), "devices": devices}))
}

fn rubbish(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let at = clock::time_of_day(call.arguments.text("notify_at")).ok_or("`notify_at` must be HH:MM")?;
    let (today, wanted) = (world.now() / DAY, call.arguments.texts("types"));
    let mut next = Vec::new();
    for (kind, days) in call.found["area"]["days"].as_object().into_iter().flatten() {
        let days = days.as_array().map_or(&[][..], Vec::as_slice);
        let day = (today + 1..=today + 7).find(|day| days.contains(&WEEKDAYS[clock::weekday(*day)].into()));
        if let Some(day) = day.filter(|_| wanted.is_empty() || wanted.contains(&kind.as_str())) {
            next.push(json!({"type": kind, "day": clock::show_date(day), "notify": clock::show((day - 1) * DAY + at)}));
        }
    }
    call.arguments.set("next", next);
    verbs::create(world, call)
}

fn water(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let rain = maps::rain_mm(40.4, -3.7, world.now() / DAY);
    if call.arguments.take("omitir_si_llueve") == true && rain > 0.0 {
        return Ok(json!({"message": format!("it rained {rain} mm today, so nothing is watered"), "lluvia_mm": rain}));
    }
    verbs::change(world, call)
}
