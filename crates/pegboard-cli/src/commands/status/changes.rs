//! Changes from one status to the next, one line each.

use pegboard_gateway::control::{ServerStatus, Status};

use super::units::{format_count, format_long};
use crate::terminal_text::one_line;

/// Maximum width of a line.
const WIDTH: usize = 400;

/// Returns the differences from `before`; everything without an earlier status.
pub(super) fn changes(before: Option<&Status>, now: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    let process = |status: &Status| (status.gateway.pid, status.gateway.since / 60_000);
    let is_other = before.is_none_or(|before| process(before) != process(now));
    if is_other {
        let place = now.gateway.endpoint.as_deref().unwrap_or("stdio");
        lines.push(format!("gateway {}: {place}, up {}", now.gateway.version, format_long(now.gateway.uptime_ms)));
    }
    let refused = |status: &Status| status.configuration.as_ref().and_then(|file| file.refused.clone());
    let (was, is) = (before.and_then(refused), refused(now));
    match &is {
        Some(reason) if was != is => lines.push(format!("configuration: file rejected, previous one in use: {reason}")),
        None if was.is_some() => lines.push("configuration: file accepted".to_owned()),
        _ => {}
    }
    let servers = before.map_or(&[][..], |before| &before.servers);
    let named = |servers: &'_ [ServerStatus], name: &str| servers.iter().position(|one| one.report.name == name);
    for server in &now.servers {
        let old = named(servers, &server.report.name).map(|at| &servers[at]);
        if old.map(reported_fields) != Some(reported_fields(server)) {
            lines.push(line(server));
        }
    }
    for gone in servers.iter().filter(|old| named(&now.servers, &old.report.name).is_none()) {
        lines.push(format!("{}: removed", gone.report.name));
    }
    lines.into_iter().map(|line| one_line(&line, WIDTH)).collect()
}

/// Returns the fields of a server whose changes are printed.
fn reported_fields(server: &ServerStatus) -> (&str, &Option<String>, usize, &str) {
    let report = &server.report;
    (&report.state, &report.reason, report.tools, &report.breaker.state)
}

fn line(server: &ServerStatus) -> String {
    let report = &server.report;
    let mut line = format!("{}: {}, {}", report.name, report.state, format_count(report.tools as u64, "tool", "tools"));
    if let Some(reason) = &report.reason {
        line.push_str(&format!("; {reason}"));
    }
    if let Some(next) = report.retry_in_ms {
        line.push_str(&format!("; retry in {}", format_long(next)));
    }
    match report.breaker.state.as_str() {
        "open" => line.push_str("; circuit breaker open"),
        "half-open" => line.push_str("; circuit breaker half-open"),
        _ => {}
    }
    line
}
