//! Output of `pegboard doctor` for people and for programs.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{
    Report,
    finding::{Finding, Severity, count},
    start::{CheckedServer, StartResult},
};
use crate::{
    clients::show::printable,
    output::{self, FAINT, STRONG, wrap},
};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
const TITLE: Style = Style::new().bold();

pub(super) fn json(report: &Report) -> Value {
    let server = |checked_server: &CheckedServer| {
        json!({
            "name": checked_server.name,
            "state": checked_server.result.as_str(),
            "tools": (checked_server.result == StartResult::Ready).then_some(checked_server.tools.len()),
            "start_ms": checked_server.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        })
    };
    json!({
        "config": report.config.to_string_lossy(),
        "servers": report.checked_servers.iter().map(server).collect::<Vec<Value>>(),
        "findings": report.findings,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
    })
}

pub(super) fn text(report: &Report) -> String {
    let mut page = String::new();
    let config = printable(&report.config.to_string_lossy());
    group(&mut page, &config, "", report.findings.iter().filter(|finding| finding.server.is_none()));
    for checked_server in &report.checked_servers {
        let own = report.findings.iter().filter(|finding| finding.server.as_ref() == Some(&checked_server.name));
        group(&mut page, &printable(&checked_server.name), &state(checked_server), own);
    }
    // A server whose entry is invalid is not in that list.
    let is_known = |name: &str| report.checked_servers.iter().any(|checked_server| checked_server.name == name);
    let mut others: Vec<&str> = report.findings.iter().filter_map(|finding| finding.server.as_deref()).collect();
    others.retain(|name| !is_known(name));
    others.dedup();
    for name in others {
        let own = report.findings.iter().filter(|finding| finding.server.as_deref() == Some(name));
        group(&mut page, &printable(name), "invalid", own);
    }
    page.push_str(&summary(report));
    page
}

/// Returns the start result of a server, for the line with its name.
fn state(checked_server: &CheckedServer) -> String {
    match checked_server.result {
        StartResult::Ready => {
            let took = checked_server.took.unwrap_or_default().as_secs_f32();
            format!("{}, ready in {took:.1} s", count(checked_server.tools.len(), "tool"))
        }
        StartResult::Failed => "failed to start".to_owned(),
        StartResult::Disabled => "disabled".to_owned(),
        StartResult::NotStarted => "not started".to_owned(),
    }
}

fn group<'a>(page: &mut String, title: &str, state: &str, findings: impl Iterator<Item = &'a Finding>) {
    let width = output::width();
    let gap = if state.is_empty() { "" } else { "  " };
    let _ = writeln!(page, "{TITLE}{title}{TITLE:#}{gap}{FAINT}{state}{FAINT:#}");
    let mut is_fine = true;
    for finding in findings {
        is_fine = false;
        show(page, finding, width);
    }
    if is_fine && !["disabled", "not started"].contains(&state) {
        let _ = writeln!(page, "  {STRONG}✓{STRONG:#} no problems found");
    }
    page.push('\n');
}

fn show(page: &mut String, finding: &Finding, width: usize) {
    let (style, sign) = match finding.severity {
        Severity::Error => (ERROR, "✗ error"),
        Severity::Warning => (WARNING, "! warning"),
        Severity::Note => (NOTE, "· note"),
    };
    let check = format!("[{}]", finding.check.name());
    let message = wrap(&format!("{sign}: {} {check}", finding.message), 2, 4, width);
    // The first and the last word are not what is read first.
    let message = message.replacen(sign, &format!("{style}{sign}{style:#}"), 1);
    let message = message.strip_suffix(&check).map_or(message.clone(), |rest| format!("{rest}{FAINT}{check}{FAINT:#}"));
    let _ = writeln!(page, "{message}");
    for line in &finding.details {
        let line = wrap(line, 0, 8, width.saturating_sub(8));
        let _ = writeln!(page, "      {FAINT}|{FAINT:#} {line}");
    }
    let _ = writeln!(page, "{}", wrap(&format!("→ {}", finding.hint), 4, 6, width));
}

fn summary(report: &Report) -> String {
    let parts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let parts = parts.map(|(severity, what)| (report.count(severity), what));
    let found: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| count(*number, what)).collect();
    let servers = count(report.checked_servers.len(), "server");
    match found.is_empty() {
        true => format!("{STRONG}✓{STRONG:#} {servers}, no problems found\n"),
        false => format!("{servers}: {}\n", found.join(", ")),
    }
}
