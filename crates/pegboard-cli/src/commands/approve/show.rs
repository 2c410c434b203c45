//! Output of `pegboard approve` for people.

use std::time::{SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use pegboard_core::text;
use pegboard_upstream::{PinKind, PinReport};

use crate::output::{FAINT, STRONG};

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// Renders all pending tools.
pub(super) fn waiting(reports: &[PinReport]) -> String {
    if reports.is_empty() {
        return "no tools are waiting for approval\n".to_owned();
    }
    let shown: Vec<String> = reports.iter().map(one).collect();
    format!("{}\n", shown.join("\n\n"))
}

/// Renders the approved tools.
pub(super) fn approved(reports: &[PinReport]) -> String {
    match reports.len() {
        0 => "nothing was approved\n".to_owned(),
        1 => "1 tool was approved\n".to_owned(),
        count => format!("{count} tools were approved\n"),
    }
}

/// Renders one tool, with its differences.
pub(super) fn one(report: &PinReport) -> String {
    let (server, tool) = (text::line(&report.server), text::line(&report.tool));
    let what = match (report.kind, report.is_held) {
        (PinKind::New, true) => "new, held",
        (PinKind::New, false) => "new",
        (PinKind::Removed, _) => "gone",
        (_, true) => "changed, held",
        (_, false) => "changed",
    };
    let place = if report.is_variant { ", on a client's connection" } else { "" };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let age = ago(u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(report.since) / 1000);
    let mut shown =
        format!("{STRONG}{server}{STRONG:#} {STRONG}{tool}{STRONG:#}  {what}{place} {FAINT}since {age}{FAINT:#}");
    for line in &report.diff {
        let style = match line.as_bytes().first() {
            Some(b'-') => OLD,
            Some(b'+') => NEW,
            _ => FAINT,
        };
        shown.push_str(&format!("\n  {style}{line}{style:#}"));
    }
    shown
}

/// Formats a time in the past, in the largest unit that fits.
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |seconds, expected: &str| assert_eq!(ago(seconds), expected);
        check(0, "just now");
        check(61, "1 min ago");
        check(7300, "2 h ago");
        check(200_000, "2 d ago");
    }
}
