//! Output of `pegboard lint` for people and for programs.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use pegboard_engine::lint::{Finding, Report, Severity};
use serde_json::{Map, Value, json};

use super::{LintPage, MAX_TOOLS_BY_MEANING};
use crate::{
    clients::show::{printable, printable_line},
    output::{FAINT, STRONG, wrap},
};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
const TITLE: Style = Style::new().bold();

pub(super) fn json(page: &LintPage) -> Value {
    let report = &page.report;
    let rules: Map<String, Value> =
        report.by_rule().iter().map(|(rule, count)| (rule.as_str().to_owned(), json!(count))).collect();
    let mut value = json!({
        "tools": report.tools,
        "servers": servers(report),
        "findings": report.findings.iter().map(finding).collect::<Vec<Value>>(),
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "rules": rules,
        "ranker": page.ranker,
        "failed": page.is_over,
    });
    if let Some(known) = page.known {
        value["baseline"] = json!({"known": known.findings, "gone": known.gone});
    }
    value
}

fn finding(finding: &Finding) -> Value {
    let mut value = json!({
        "rule": finding.rule.as_str(),
        "severity": finding.severity.as_str(),
        "server": finding.server,
        "tool": finding.tools.first(),
    });
    if finding.tools.len() > 1 {
        value["others"] = json!(finding.tools[1..]);
    }
    if !finding.parameters.is_empty() {
        value["parameters"] = json!(finding.parameters);
    }
    value["message"] = json!(finding.message);
    value["suggestion"] = json!(finding.suggestion);
    value
}

/// Returns the number of servers; tools without a server are not counted.
fn servers(report: &Report) -> usize {
    report.servers.keys().flatten().count()
}

pub(super) fn text(page: &LintPage, width: usize) -> String {
    let mut text = String::new();
    // Findings are sorted by server and tool.
    let by_server = page.report.findings.chunk_by(|one, other| one.server == other.server);
    for findings in by_server {
        let server = &findings[0].server;
        let title = server.as_deref().map_or_else(|| "(no server)".to_owned(), printable);
        let tools = pluralize(page.report.servers.get(server).copied().unwrap_or_default(), "tool");
        let _ = writeln!(text, "{TITLE}{title}{TITLE:#}  {FAINT}{tools}{FAINT:#}");
        // Findings about several tools come before those about one.
        let (several, single): (Vec<&Finding>, Vec<&Finding>) =
            findings.iter().partition(|finding| finding.tools.len() > 1);
        several.iter().for_each(|finding| show(&mut text, finding, 2, width));
        for findings in single.chunk_by(|one, other| one.tools == other.tools) {
            let _ = writeln!(text, "  {STRONG}{}{STRONG:#}", printable(own_name(findings[0])));
            findings.iter().for_each(|finding| show(&mut text, finding, 4, width));
        }
        text.push('\n');
    }
    text.push_str(&summary(page));
    text
}

/// Returns the name of the first tool, without its server.
fn own_name(finding: &Finding) -> &str {
    let id = finding.tools.first().map_or("", String::as_str);
    let server = finding.server.as_deref().unwrap_or_default();
    id.strip_prefix(server).and_then(|rest| rest.strip_prefix('/')).unwrap_or(id)
}

/// Renders one finding, indented by `margin` spaces.
fn show(text: &mut String, finding: &Finding, margin: usize, width: usize) {
    let (style, sign) = match finding.severity {
        Severity::Error => (ERROR, "✗ error"),
        Severity::Warning => (WARNING, "! warning"),
        Severity::Note => (NOTE, "· note"),
    };
    let rule = format!("[{}]", finding.rule);
    let message = wrap(&printable_line(&format!("{sign}: {} {rule}", finding.message)), margin, margin + 2, width);
    // The first and the last word are not what is read first.
    let message = message.replacen(sign, &format!("{style}{sign}{style:#}"), 1);
    let message = message.strip_suffix(&rule).map_or(message.clone(), |rest| format!("{rest}{FAINT}{rule}{FAINT:#}"));
    let suggestion = wrap(&printable_line(&format!("→ {}", finding.suggestion)), margin + 2, margin + 4, width);
    let _ = writeln!(text, "{message}\n{suggestion}");
}

fn summary(page: &LintPage) -> String {
    let report = &page.report;
    let tools = pluralize(report.tools, "tool");
    let what = match servers(report) {
        0 => tools,
        servers => format!("{tools} of {}", pluralize(servers, "server")),
    };
    let severities = [Severity::Error, Severity::Warning, Severity::Note].map(|one| (report.count(one), one));
    let found: Vec<String> =
        severities.iter().filter(|(count, _)| *count > 0).map(|(count, one)| pluralize(*count, one.as_str())).collect();
    let mut text = match found.is_empty() {
        true => format!("{STRONG}✓{STRONG:#} {what}, no problems found\n"),
        false => format!("{what}: {}\n", found.join(", ")),
    };
    let longest = report.by_rule().values().max().map_or(0, |count| count.to_string().len());
    for (rule, count) in report.by_rule() {
        let _ = writeln!(text, "  {count:>longest$} {FAINT}{rule}{FAINT:#}");
    }
    if report.tools > MAX_TOOLS_BY_MEANING {
        let ranker = page.ranker;
        let _ = writeln!(
            text,
            "searched with the `{ranker}` ranker, as in all catalogs of over {MAX_TOOLS_BY_MEANING} tools"
        );
    }
    if let Some(known) = page.known {
        let _ = writeln!(text, "{} ignored by the baseline", pluralize(known.findings, "finding"));
        if known.gone > 0 {
            let (are, them) = if known.gone == 1 {
                ("entry of the baseline is", "it")
            } else {
                ("entries of the baseline are", "them")
            };
            let _ = writeln!(text, "{} {are} no longer needed; `--write-baseline` removes {them}", known.gone);
        }
    }
    text
}

/// Formats a count with its noun: `1 tool`, `2 tools`.
fn pluralize(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
