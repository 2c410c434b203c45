//! The official conformance suite in front of servers, with and without the gateway in between.
//!
//! A server's own result is what the gateway is measured by. Every scenario that turns out
//! differently is listed in [`known`] with its reason; a difference that is not listed fails, and so
//! does a listed one that no longer occurs.

mod known;
mod servers;
mod suite;
mod tasks;

use std::collections::BTreeMap;

use serde_json::json;

use self::{
    known::Run,
    servers::{SERVERS, Server},
    suite::{Report, Scenario},
};
use crate::{gateway, peers, say};

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The part of `cargo xtask test`: the fixture, and the Python server with search on.
    Short,
    /// All servers, both revisions, search on and off.
    All,
}

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Runs the suite in every pairing; the binaries must have been built.
pub(crate) fn run(scope: Scope) -> Result<(), String> {
    peers::install()?;
    if scope == Scope::All {
        peers::install_conformance()?;
    }
    let mut problems = Vec::new();
    for server in SERVERS.iter().filter(|server| scope == Scope::All || server.is_short) {
        let searches: &[bool] = if scope == Scope::Short { server.short_searches } else { &[false, true] };
        for revision in REVISIONS {
            let checked = expected(server, revision).and_then(|expected| {
                let runs = searches.iter().map(|search| Run { server: server.name, revision, search: *search });
                runs.map(|run| compare(server, &run, expected.as_ref())).collect::<Result<Vec<_>, _>>()
            });
            match checked {
                Ok(found) => problems.extend(found.into_iter().flatten()),
                Err(problem) => problems.push(problem),
            }
        }
    }
    if let Err(problem) = tasks::run() {
        problems.push(problem);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The server's own result. A server without HTTP is expected to pass what is scored.
fn expected(server: &Server, revision: &str) -> Result<Option<Report>, String> {
    let Some(direct) = server.start_http()? else { return Ok(None) };
    suite::run(&direct.url, revision).map(Some)
}

/// Runs the suite through the gateway, reports, and returns what is not explained.
fn compare(server: &Server, run: &Run, expected: Option<&Report>) -> Result<Vec<String>, String> {
    let config = json!({
        "mcpServers": {"fixture": server.entry()?},
        "pegboard": {"exposure": if run.search { "always" } else { "never" }},
    });
    let gateway = gateway::RunningGateway::start("debug", "conformance", &config)?;
    gateway.wait_until_started()?;
    let found = suite::run(&gateway.url, run.revision)?;
    let own =
        expected.map_or_else(|| "must pass what is scored".to_owned(), |report| format!("alone {}", report.totals()));
    say(&format!("{run}: {own}; through the gateway {}", found.totals()));
    for warning in &found.warnings {
        say(&format!("  warning: {warning}"));
    }
    Ok(match expected {
        Some(expected) => judge(run, expected, &found),
        None => {
            let found = found.only_scored();
            judge(run, &found.with_everything_passed(), &found)
        }
    })
}

/// Lists all differences, and returns those that the table of known ones does not explain.
fn judge(run: &Run, expected: &Report, found: &Report) -> Vec<String> {
    let differences = differences(expected, found);
    let mut problems = Vec::new();
    for (scenario, difference) in &differences {
        let note = if found.is_scored(scenario) { "" } else { " (not scored)" };
        match known::reason(run, scenario) {
            Some(reason) => say(&format!("  {scenario}{note}: {reason}")),
            None => problems.push(format!("{run}: {scenario}{note} differs without a known reason: {difference}")),
        }
    }
    let stale = known::scenarios(run).filter(|scenario| !differences.contains_key(scenario));
    problems.extend(stale.map(|scenario| format!("{run}: {scenario} no longer differs: remove its row from known.rs")));
    problems
}

/// What differs in each scenario, as `check: own result -> result through the gateway`.
fn differences<'a>(expected: &'a Report, found: &'a Report) -> BTreeMap<&'a str, String> {
    let nothing = Scenario::default();
    let names = expected.scenarios.keys().chain(found.scenarios.keys());
    let mut differences = BTreeMap::new();
    for name in names {
        let of = |report: &'a Report| report.scenarios.get(name);
        let (own, through) = (of(expected).unwrap_or(&nothing), of(found).unwrap_or(&nothing));
        let checks = own.keys().chain(through.keys().filter(|check| !own.contains_key(*check)));
        let word = |statuses: Option<&Vec<&str>>| statuses.map_or("not run".to_owned(), |all| all.join("+"));
        let changed: Vec<String> = checks
            .filter(|check| own.get(*check) != through.get(*check))
            .map(|check| format!("{check}: {} -> {}", word(own.get(check)), word(through.get(check))))
            .collect();
        if !changed.is_empty() {
            differences.insert(name.as_str(), changed.join(", "));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: &[(&str, &str, &str)]) -> Report {
        let mut report = Report::default();
        for (scenario, check, status) in checks {
            report.add(scenario, check, status);
        }
        report
    }

    #[test]
    fn what_differs_is_named_by_check() {
        let own =
            report(&[("ping", "answers", "SUCCESS"), ("tools-list", "order", "SUCCESS"), ("ping", "log", "INFO")]);
        let through = report(&[("ping", "answers", "FAILURE"), ("tools-list", "order", "SUCCESS")]);
        let differences = differences(&own, &through);
        assert_eq!(differences.into_iter().collect::<Vec<_>>(), [("ping", "answers: SUCCESS -> FAILURE".to_owned())]);
    }

    #[test]
    fn unknown_and_outdated_differences_are_problems() {
        let run = Run { server: "fixture", revision: "2025-11-25", search: false };
        let (own, through) = (report(&[("ping", "answers", "SUCCESS")]), report(&[("ping", "answers", "FAILURE")]));
        let problems = judge(&run, &own, &through);
        assert!(problems.len() == 1 && problems[0].contains("ping differs without a known reason"), "{problems:?}");

        let run = Run { server: "python", revision: "2025-11-25", search: false };
        let problems = judge(&run, &own, &own);
        assert!(
            problems.iter().any(|problem| problem.contains("server-sse-polling no longer differs")),
            "{problems:?}"
        );
    }
}
