//! Explanations for remote servers that fail.

use std::time::Duration;

use pegboard_upstream::{
    CallError, ConnectError, Fleet, NetworkFault,
    config::{HttpKind, ServerConfig, TransportConfig},
};

use super::finding::{Check, Finding};
use crate::commands::serve::supervisor;

/// Timeout of a request to an address that is not configured.
const PROBE: Duration = Duration::from_secs(10);

/// Explains why a remote server failed.
pub(super) async fn explain_failure(config: &ServerConfig, error: &CallError) -> Finding {
    let name = &config.name;
    let TransportConfig::Http { url, headers, .. } = &config.transport else {
        let message = format!("the server rejected the connection: {}", pegboard_upstream::with_causes(error));
        return Finding::error(Check::StartFailed, message, "try another version of the server, or set `protocol`");
    };
    let shown = place(url);
    if let Some(fault) = error.network_fault() {
        return unreachable(&shown, fault, error);
    }
    match error {
        CallError::Status { status: status @ (401 | 403) } => {
            let has_some = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            let message = match has_some {
                true => format!("`{shown}` rejects the configured credentials (HTTP status {status})"),
                false => format!("`{shown}` requires a login (HTTP status {status})"),
            };
            let hint = match has_some {
                true => format!("renew them in `headers`, or remove them and run `pegboard login {name}`"),
                false => format!("run `pegboard login {name}`, or set an `Authorization` header in `headers`"),
            };
            Finding::error(Check::Login, message, hint)
        }
        CallError::Status { status: status @ (400 | 404 | 405 | 406 | 410 | 415) } => {
            let message = format!("`{shown}` is not an MCP server (HTTP status {status})");
            let hint = match working_sibling(config, url).await {
                Some(other) => format!("use `{other}` as `url`: there is an MCP server"),
                None => "correct the path; most servers are at `/mcp`, older ones at `/sse`".to_owned(),
            };
            Finding::error(Check::WrongPath, message, hint)
        }
        CallError::Status { status } => {
            let message = format!("`{shown}` answers with HTTP status {status}");
            let hint = if *status >= 500 { "try again later, or report it to its operator" } else { "correct the URL" };
            Finding::error(Check::HttpStatus, message, hint)
        }
        error => {
            let message = format!("`{shown}` does not answer with MCP: {}", pegboard_upstream::with_causes(error));
            let hint = "correct the path; most servers are at `/mcp`, older ones at `/sse`";
            Finding::error(Check::WrongPath, message, hint)
        }
    }
}

fn unreachable(shown: &str, fault: NetworkFault, error: &CallError) -> Finding {
    let (check, message, hint) = match fault {
        NetworkFault::UnknownHost => (
            Check::UnknownHost,
            "has a host that cannot be resolved",
            "correct the host, or check your network connection",
        ),
        NetworkFault::Refused => (
            Check::Unreachable,
            "refuses connections: nothing listens on its port",
            "start the server, or correct the port",
        ),
        NetworkFault::Tls => (
            Check::Tls,
            "has an invalid TLS certificate, or does not support TLS",
            "use `http://` if it does not support TLS; otherwise add its certificate authority to the system, or \
             correct the host",
        ),
        NetworkFault::Silent => (Check::Unreachable, "does not answer", "check whether a proxy or firewall blocks it"),
        _ => (Check::Unreachable, "cannot be reached", "correct the URL, and check that the server is running"),
    };
    let mut finding = Finding::error(check, format!("`{shown}` {message}"), hint);
    if fault == NetworkFault::Tls || fault == NetworkFault::Other {
        finding = finding.details([pegboard_upstream::with_causes(error)]);
    }
    finding
}

/// Returns an address next to the configured one that has a server.
async fn working_sibling(config: &ServerConfig, url: &str) -> Option<String> {
    for other in siblings(url) {
        let mut config = config.clone();
        config.timeouts.connect = config.timeouts.connect.min(PROBE);
        if let TransportConfig::Http { url, kind, .. } = &mut config.transport {
            url.clone_from(&other);
            *kind = HttpKind::Auto;
        }
        let (fleet, _notices) = Fleet::start(vec![config], supervisor());
        fleet.settled(PROBE).await;
        let is_one = fleet.servers().first().is_some_and(|server| match server.failed_start() {
            Some(failed) => {
                matches!(failed.error, ConnectError::Refused(CallError::Status { status: 401 | 403 }))
            }
            None => server.hello().is_some(),
        });
        fleet.stop().await;
        if is_one {
            return Some(place(&other));
        }
    }
    None
}

/// Returns addresses of the same host at which servers usually are.
fn siblings(url: &str) -> Vec<String> {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    let query = url[path..].find(['?', '#']).map_or(url.len(), |at| path + at);
    let (origin, own, rest) = (&url[..path], url[path..query].trim_end_matches('/'), &url[query..]);
    let base = ["/mcp", "/sse"].iter().find_map(|end| own.strip_suffix(end)).unwrap_or(own);
    let mut found: Vec<String> = Vec::new();
    for path in [format!("{base}/mcp"), format!("{base}/sse"), "/mcp".to_owned(), "/sse".to_owned()] {
        let other = format!("{origin}{path}{rest}");
        if path != own && !found.contains(&other) {
            found.push(other);
        }
    }
    found
}

/// Returns an address without parts that may be secret.
fn place(url: &str) -> String {
    let short = url.split(['?', '#']).next().unwrap_or_default();
    match short.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or_default())
        }
        None => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_try() {
        let check = |url: &str, expected: &[&str]| assert_eq!(siblings(url), expected, "{url}");
        check("https://a", &["https://a/mcp", "https://a/sse"]);
        check("https://a/sse", &["https://a/mcp"]);
        check("https://a/x/mcp/?k=v", &["https://a/x/sse?k=v", "https://a/mcp?k=v", "https://a/sse?k=v"]);
        check("a", &["a/mcp", "a/sse"]);
    }

    #[test]
    fn addresses_are_shown_without_secrets() {
        let check = |url: &str, expected: &str| assert_eq!(place(url), expected, "{url}");
        check("https://u:p@a.example/mcp?key=s3cret#x", "https://a.example/mcp");
        check("https://a.example", "https://a.example");
        check("nonsense", "nonsense");
    }
}
