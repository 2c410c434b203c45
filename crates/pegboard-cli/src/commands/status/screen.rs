//! The status screen.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, stdout},
};

use anstyle::{AnsiColor, Style};
use pegboard_gateway::{
    ToolName,
    control::{LlmProxyStatus, ProxyRouteStatus, ServerStatus, Status},
};

use super::units::{format_count, format_long, format_short};
use crate::{
    output::{FAINT, STRONG, count},
    platform::output_size,
    terminal_text::{clean, columns_of, cut},
};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WAITING: Style = AnsiColor::Yellow.on_default();
const TITLE: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// The width without a terminal, or if it does not report one.
const USUAL_WIDTH: usize = 100;

/// Minimum width; a smaller reported width is an error of the terminal.
const LEAST_WIDTH: usize = 20;

/// Minimum width of a remark next to its server; otherwise it is printed below.
const LEAST_NOTE: usize = 40;

/// Maximum number of lines of a remark below its server.
const MAX_NOTE_LINES: usize = 3;

/// Maximum number of listed clients; the rest is counted.
const MAX_CLIENTS: usize = 5;

/// Maximum number of tools that wait for approval, and of lines of each difference.
const MAX_PINS: usize = 5;
const MAX_DIFF_LINES: usize = 6;

/// Returns the width of the screen.
pub(super) fn width() -> usize {
    let columns = if stdout().is_terminal() { output_size().map(|(columns, _)| columns) } else { None };
    columns.filter(|columns| *columns >= LEAST_WIDTH).unwrap_or(USUAL_WIDTH)
}

/// Renders the whole status for a terminal of this width.
pub(super) fn screen(status: &Status, width: usize) -> String {
    let mut text = Text { text: String::new(), width };
    head(status, &mut text);
    if !status.servers.is_empty() {
        text.line(PLAIN, "");
        Table::new(&status.servers, width).draw(&status.servers, &mut text);
        text.line(PLAIN, "");
    }
    servers(status, &mut text);
    sessions(status, &mut text);
    totals(status, &mut text);
    embeddings(status, &mut text);
    pins(status, &mut text);
    if let Some(routes) = &status.llm_proxy {
        text.line(PLAIN, "");
        text.line(TITLE, "LLM API proxy");
        proxy_routes(routes, &mut text);
    }
    text.text
}

/// Renders the LLM API proxies that run beside gateways.
pub(super) fn proxies(proxies: &[LlmProxyStatus], width: usize) -> String {
    let mut text = Text { text: String::new(), width };
    for proxy in proxies {
        text.line(PLAIN, "");
        text.line(TITLE, &format!("LLM API proxy  {}  process {}", proxy.endpoint, proxy.pid));
        proxy_routes(&proxy.routes, &mut text);
    }
    text.text
}

/// The columns of a proxy's table: title, width, and the value of a route.
type ProxyColumn = (&'static str, usize, fn(&ProxyRouteStatus) -> String);

/// The most important first, because the last ones are left out on a narrow terminal.
const PROXY_COLUMNS: [ProxyColumn; 7] = [
    ("REQUESTS", 8, |route| count(route.requests)),
    ("TOOLS IN", 8, |route| count(route.tools_in)),
    ("SENT", 6, |route| count(route.tools_sent)),
    ("TOKENS SAVED", 12, |route| count(route.tokens_saved)),
    ("SEARCH ROUNDS", 13, |route| count(route.hidden_rounds)),
    ("ADDED", 7, |route| match route.requests {
        0 => String::new(),
        requests => format_short((route.added_ms * 1000.0 / requests as f64) as u64),
    }),
    ("CACHE READS", 11, |route| count(route.cache_read_tokens)),
];

/// Adds a line for each route of a proxy that was used.
fn proxy_routes(routes: &BTreeMap<String, ProxyRouteStatus>, text: &mut Text) {
    let used: Vec<_> = routes.iter().filter(|(_, route)| route.requests > 0).collect();
    if used.is_empty() {
        return text.line(FAINT, "no requests yet");
    }
    let name = routes.keys().map(String::len).max().unwrap_or_default();
    let mut rest = text.width.saturating_sub(name);
    let columns = PROXY_COLUMNS.iter().take_while(|(_, width, _)| {
        let fits = rest >= width + 2;
        rest = rest.saturating_sub(width + 2);
        fits
    });
    let columns: Vec<&ProxyColumn> = columns.collect();
    let mut title = format!("{:name$}", "ROUTE");
    columns.iter().for_each(|(head, width, _)| title.push_str(&format!("  {head:>width$}")));
    text.line(TITLE, &title);
    for (route, numbers) in used {
        let mut line = format!("{route:name$}");
        columns.iter().for_each(|(_, width, value)| line.push_str(&format!("  {:>width$}", value(numbers))));
        text.line(PLAIN, &line);
        let passed = numbers.bypassed.iter().map(|(reason, number)| format!("{} ({reason})", count(*number)));
        let passed: Vec<String> = passed.collect();
        if !passed.is_empty() {
            text.push_wrapped(FAINT, 2, &format!("unchanged: {}", passed.join(", ")), MAX_NOTE_LINES);
        }
        for (number, one, more) in [
            (
                numbers.misses,
                "request with lost searches (`history=incomplete`)",
                "requests with lost searches (`history=incomplete`)",
            ),
            (numbers.retries, "request sent again in another form", "requests sent again in another form"),
        ] {
            if number > 0 {
                text.push_wrapped(FAINT, 2, &format_count(number, one, more), MAX_NOTE_LINES);
            }
        }
        if numbers.failed_rounds > 0 {
            let rounds = format_count(numbers.failed_rounds, "search round failed", "search rounds failed");
            text.push_wrapped(BAD, 2, &rounds, MAX_NOTE_LINES);
        }
    }
}

/// Renders one of several gateways in short.
pub(super) fn summary(name: &str, status: &Status, width: usize) -> String {
    let failed = status.servers.iter().filter(|server| server.report.state == "failed").count();
    let (style, failed) = if failed > 0 { (BAD, format!(", {failed} failed")) } else { (PLAIN, String::new()) };
    let mut text = Text { text: String::new(), width };
    let servers = format_count(status.servers.len() as u64, "server", "servers");
    let name = clean(name);
    let rest = format!("up {}, {servers}{failed}", format_long(status.gateway.uptime_ms));
    if columns_of(&name) + rest.len() + 2 <= width {
        text.text.push_str(&format!("{TITLE}{name}{TITLE:#}  {style}{rest}{style:#}\n"));
    } else {
        text.line(TITLE, &name);
        text.line(style, &format!("  {rest}"));
    }
    text.line(FAINT, &format!("  {}", file(status)));
    text.text
}

/// Lines of at most the width.
struct Text {
    text: String,
    width: usize,
}

impl Text {
    /// Adds a line in one style, cut to the width. Text of servers and clients is sanitized here.
    fn line(&mut self, style: Style, line: &str) {
        self.push(style, &cut(&clean(line), self.width));
    }

    /// Adds lines in one style, wrapped between words.
    fn push_wrapped(&mut self, style: Style, indent: usize, words: &str, most: usize) {
        for line in wrap(&clean(words), self.width.saturating_sub(indent).max(1), most) {
            self.push(style, &format!("{:indent$}{line}", ""));
        }
    }

    fn push(&mut self, style: Style, line: &str) {
        self.text.push_str(&format!("{style}{line}{style:#}\n"));
    }
}

fn head(status: &Status, text: &mut Text) {
    let about = &status.gateway;
    let place = about.endpoint.as_deref().unwrap_or("stdio");
    let whole =
        format!("Pegboard {}  {place}  up {}  process {}", about.version, format_long(about.uptime_ms), about.pid);
    if columns_of(&whole) <= text.width {
        text.line(STRONG, &whole);
    } else {
        text.line(STRONG, &format!("Pegboard {}  {place}", about.version));
        text.line(PLAIN, &format!("up {}  process {}", format_long(about.uptime_ms), about.pid));
    }
    let Some(configuration) = &status.configuration else { return };
    text.line(FAINT, &file(status));
    if let Some(reason) = &configuration.refused {
        let reason = one_line(reason);
        text.push_wrapped(BAD, 0, &format!("file rejected, previous one in use: {reason}"), MAX_NOTE_LINES);
    }
}

fn file(status: &Status) -> String {
    match status.configuration.as_ref().map(|configuration| &configuration.file) {
        Some(Some(file)) => file.display().to_string(),
        Some(None) => "the demo".to_owned(),
        None => "restricted view".to_owned(),
    }
}

/// Adds the number of servers in each state.
fn servers(status: &Status, text: &mut Text) {
    const STATES: [&str; 7] = ["ready", "starting", "lazy", "idle", "failed", "disabled", "stopped"];
    let of = |state: &str| status.servers.iter().filter(|server| server.report.state == state).count();
    let states = STATES.iter().map(|state| (of(state), state)).filter(|(number, _)| *number > 0);
    let states: Vec<String> = states.map(|(number, state)| format!("{number} {state}")).collect();
    let servers = format_count(status.servers.len() as u64, "server", "servers");
    let states = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
    let tools = format_count(status.tools as u64, "tool", "tools");
    text.push_wrapped(PLAIN, 0, &format!("{servers}{states}, {tools} for clients"), MAX_NOTE_LINES);
}

fn sessions(status: &Status, text: &mut Text) {
    let sessions = &status.sessions;
    let whole = format_count(sessions.count as u64, "session", "sessions");
    let named = sessions.clients.iter().take(MAX_CLIENTS).map(|client| {
        let name = if client.client.is_empty() { "unnamed client" } else { &client.client };
        let name = one_line(name);
        let number = if client.sessions > 1 { format!(" ×{}", client.sessions) } else { String::new() };
        format!("{name} ({}){number}, idle for {}", client.profile, format_long(client.idle_ms))
    });
    let mut clients: Vec<String> = named.collect();
    let rest = sessions.clients.len().saturating_sub(MAX_CLIENTS);
    if rest > 0 {
        clients.push(format!("{} more", format_count(rest as u64, "client", "clients")));
    }
    let clients = if clients.is_empty() { String::new() } else { format!(": {}", clients.join("; ")) };
    text.push_wrapped(PLAIN, 0, &format!("{whole}{clients}"), MAX_NOTE_LINES);
}

fn totals(status: &Status, text: &mut Text) {
    let Some(totals) = &status.totals else { return };
    let mut searches = format_count(totals.hits + totals.misses, "search", "searches");
    if totals.misses > 0 {
        searches.push_str(&format!(", {} without hits", count(totals.misses)));
    }
    if let (Some(p50), Some(p99)) = (totals.search_latency.p50_us, totals.search_latency.p99_us) {
        searches.push_str(&format!("; p50 {}, p99 {}", format_short(p50), format_short(p99)));
    }
    text.push_wrapped(PLAIN, 0, &searches, MAX_NOTE_LINES);
    let lists = format_count(totals.lists, "list", "lists");
    text.push_wrapped(
        PLAIN,
        0,
        &format!("about {} tokens saved in {lists}", count(totals.tokens_saved)),
        MAX_NOTE_LINES,
    );
    if totals.suspended_calls > 0 {
        let calls = format_count(totals.suspended_calls as u64, "call waits", "calls wait");
        text.push_wrapped(WAITING, 0, &format!("{calls} for client input"), MAX_NOTE_LINES);
    }
}

/// Adds the state of the external embedding model.
fn embeddings(status: &Status, text: &mut Text) {
    let Some(one) = &status.embeddings else { return };
    let (embedded, tools) = (count(one.embedded as u64), format_count(one.tools as u64, "tool", "tools"));
    let refused = if one.refused > 0 { format!(" ({} rejected)", count(one.refused as u64)) } else { String::new() };
    let asked = format_count(one.fetched + one.known + one.without, "query", "queries");
    let without =
        if one.without > 0 { format!(", {} without an embedding", count(one.without)) } else { String::new() };
    let words = format!("embeddings of {}: {embedded} of {tools}{refused}; {asked}{without}", one_line(&one.model));
    text.push_wrapped(PLAIN, 0, &words, MAX_NOTE_LINES);
    if let Some(problem) = &one.problem {
        let words = format!("searching without {}: {}", one.endpoint, one_line(problem));
        text.push_wrapped(BAD, 0, &words, MAX_NOTE_LINES);
    }
}

/// Adds tools that differ from the approved version, and tools with similar names.
fn pins(status: &Status, text: &mut Text) {
    let held = status.pins.iter().filter(|pin| pin.is_held).count();
    let others = status.pins.len() - held;
    if held > 0 {
        let words = format!("{} for approval", format_count(held as u64, "tool waits", "tools wait"));
        text.push_wrapped(WAITING, 0, &format!("{words}; review with `pegboard approve`"), MAX_NOTE_LINES);
    }
    if others > 0 {
        let words = format!("{} not as approved, but not held", format_count(others as u64, "tool is", "tools are"));
        text.push_wrapped(WAITING, 0, &format!("{words}; review with `pegboard approve`"), MAX_NOTE_LINES);
    }
    for pin in status.pins.iter().take(MAX_PINS) {
        let held = if pin.is_held { ", held" } else { "" };
        let (server, tool) = (one_line(&pin.server), one_line(&pin.tool));
        text.line(PLAIN, &format!("  {server} {tool}  {}{held}", pin.kind.as_str()));
        for line in pin.diff.iter().take(MAX_DIFF_LINES) {
            text.line(FAINT, &format!("    {line}"));
        }
    }
    let alike = status.lookalikes.iter().filter(|pair| pair.is_suspicious).collect::<Vec<_>>();
    for pair in alike.iter().take(MAX_PINS) {
        let name = |name: &ToolName| format!("{} of {}", one_line(&name.tool), one_line(&name.server));
        let words = format!("{} looks like {} ({})", name(&pair.second), name(&pair.first), pair.likeness);
        text.push_wrapped(WAITING, 0, &words, MAX_NOTE_LINES);
    }
    // An older gateway sends no counts.
    let total = status.lookalike_counts.suspicious.max(alike.len());
    let more = total - alike.len().min(MAX_PINS);
    if more > 0 {
        let words = format!("{} of confusable tool names", format_count(more as u64, "further pair", "further pairs"));
        text.push_wrapped(WAITING, 0, &words, MAX_NOTE_LINES);
    }
}

/// The columns of the server table that fit.
struct Table {
    name: usize,
    /// Titles and widths of the columns after the state.
    columns: Vec<(&'static str, usize)>,
    /// Where remarks begin, if they are next to the server.
    note: Option<usize>,
}

const STATE: usize = 8;

impl Table {
    fn new(servers: &[ServerStatus], width: usize) -> Self {
        let longest = servers.iter().map(|server| columns_of(&one_line(&server.report.name))).max().unwrap_or(0);
        let name = longest.clamp("SERVER".len(), (width / 3).max("SERVER".len()));
        let mut columns = vec![("TOOLS", 5), ("CALLS", 7), ("ERRORS", 6), ("P50", 7), ("P99", 7)];
        let used =
            |columns: &[(&str, usize)]| name + 2 + STATE + columns.iter().map(|(_, width)| width + 2).sum::<usize>();
        while used(&columns) > width && columns.pop().is_some() {}
        let start = used(&columns) + 2;
        Self { name, columns, note: (start + LEAST_NOTE <= width).then_some(start) }
    }

    fn draw(&self, servers: &[ServerStatus], text: &mut Text) {
        let mut title = format!("{:width$}  {:STATE$}", "SERVER", "STATE", width = self.name);
        self.columns.iter().for_each(|(name, width)| title.push_str(&format!("  {name:>width$}")));
        text.line(TITLE, &title);
        servers.iter().for_each(|server| self.row(server, text));
    }

    fn row(&self, server: &ServerStatus, text: &mut Text) {
        let report = &server.report;
        let name = cut(&one_line(&report.name), self.name);
        let name = format!("{name}{:width$}", "", width = self.name.saturating_sub(columns_of(&name)));
        let style = match report.state.as_str() {
            "ready" => GOOD,
            "failed" => BAD,
            "starting" => WAITING,
            _ => FAINT,
        };
        let state = cut(&one_line(&report.state), STATE);
        let padding = STATE.saturating_sub(columns_of(&state));
        let mut line = format!("{name}  {style}{state}{style:#}{:padding$}", "");
        for (column, width) in &self.columns {
            line.push_str(&format!("  {:>width$}", cell(column, server)));
        }
        let (style, note) = note(server);
        let room = self.note.map_or(0, |start| text.width - start);
        if note.is_empty() {
            text.text.push_str(&format!("{}\n", line.trim_end()));
        } else if columns_of(&note) <= room {
            text.text.push_str(&format!("{line}  {style}{note}{style:#}\n"));
        } else {
            text.text.push_str(&format!("{}\n", line.trim_end()));
            text.push_wrapped(style, 2, &note, MAX_NOTE_LINES);
        }
    }
}

fn cell(column: &str, server: &ServerStatus) -> String {
    let report = &server.report;
    match column {
        "TOOLS" => count(report.tools as u64),
        "CALLS" => count(report.calls.total),
        "ERRORS" => count(report.calls.failed + server.tool_errors),
        "P50" => server.latency.p50_us.map(format_short).unwrap_or_default(),
        _ => server.latency.p99_us.map(format_short).unwrap_or_default(),
    }
}

/// Returns the remarks about a server.
fn note(server: &ServerStatus) -> (Style, String) {
    let report = &server.report;
    let mut notes = Vec::new();
    // First, since long reasons are cut.
    if let Some(next) = report.retry_in_ms {
        let next = if next < 1000 { "now".to_owned() } else { format!("in {}", format_long(next)) };
        notes.push(format!("retry {next}"));
    }
    if let Some(reason) = &report.reason {
        notes.push(one_line(reason));
    }
    match report.breaker.state.as_str() {
        "open" => {
            let pause =
                report.breaker.retry_in_ms.map_or_else(String::new, |left| format!(" for {}", format_long(left)));
            let failures = format_count(report.breaker.failures.into(), "failure", "failures");
            notes.push(format!("circuit breaker open{pause} after {failures} in a row"));
        }
        "half-open" => notes.push("circuit breaker half-open, waiting for a test call".to_owned()),
        _ => {}
    }
    let is_bad = !notes.is_empty();
    if report.calls.running > 0 {
        notes.push(format!("{} running", format_count(report.calls.running, "call", "calls")));
    }
    if report.is_from_manifest {
        notes.push("cached tool list".to_owned());
    }
    if let Some(error) = report.last_error.as_ref().filter(|error| report.reason.as_ref() != Some(error)) {
        notes.push(format!("last error: {}", one_line(error)));
    }
    (if is_bad { WAITING } else { FAINT }, notes.join("; "))
}

/// Returns an untrusted text on one line, sanitized.
fn one_line(text: &str) -> String {
    /// Maximum width of a text of a server or client.
    const MOST: usize = 500;
    crate::terminal_text::one_line(text, MOST)
}

/// Wraps a text to lines of at most `width` columns; text after the last line is cut off.
fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let used = if line.is_empty() { 0 } else { columns_of(&line) + 1 };
        if used > 0 && used + columns_of(word) > width {
            if lines.len() + 1 == most {
                let rest: Vec<&str> = words.collect();
                lines.push(cut(&format!("{line} {}", rest.join(" ")), width));
                return lines;
            }
            lines.push(std::mem::take(&mut line));
            continue;
        }
        if used > 0 {
            line.push(' ');
        }
        line.push_str(&cut(word, width));
        words.next();
    }
    lines.push(line);
    lines
}
