//! `httpServer`: the section of MCProxy with its listener and its middleware.

use std::time::Duration;

use pegboard_config::{
    document::{Node, Problem},
    keys::{Key, Kind, Scope, Section, Shape},
};

use super::{ListenConfig, middleware, misplaced_keys};

/// The values of the section.
#[derive(Debug, Default)]
struct HttpServer {
    host: Option<String>,
    port: Option<u16>,
    is_cors_off: bool,
    origins: Vec<String>,
    shutdown_deadline: Option<Duration>,
    notices: Vec<Problem>,
}

/// The default port of MCProxy, and of Pegboard.
const DEFAULT_PORT: u16 = 8080;

const EVERY_ORIGIN: &str = "*";

static SECTION: Section<HttpServer> = Section {
    advise: misplaced_keys::advice,
    ..Section::new(
        "httpServer",
        "Listener and middleware in the format of MCProxy. Keys of `pegboard` take precedence.",
        &[
            Key::new(
                "host",
                Kind::Word,
                "Host of the listen address, as in `pegboard.listen`; `localhost` by default.",
                |node, http: &mut HttpServer, scope| http.host = node.as_non_blank(scope.problems).map(str::to_owned),
            ),
            Key::new(
                "port",
                Kind::Port,
                "Port of the listen address; 8080 by default.",
                |node, http: &mut HttpServer, scope| {
                    let port = node.as_count(scope.problems).map(u16::try_from);
                    match port {
                        Some(Ok(port)) if port > 0 => http.port = Some(port),
                        Some(_) => node.must_be(Kind::Port, scope.problems),
                        None => {}
                    }
                },
            ),
            Key::new(
                "corsEnabled",
                Kind::Flag,
                "Applies `corsOrigins`. Loopback origins are always allowed.",
                read_cors,
            )
            .default("true"),
            Key::new(
                "corsOrigins",
                Kind::List(&Kind::Text),
                "Allowed web origins, as in `pegboard.allowedOrigins`. `*` is not applied, because every web page \
                 could then call tools; to allow that, list it in `pegboard.allowedOrigins`.",
                read_origins,
            ),
            Key::new(
                "shutdownTimeout",
                Kind::Duration { may_be_zero: true },
                "Same as `pegboard.shutdownDeadline`.",
                |node, http: &mut HttpServer, scope| {
                    http.shutdown_deadline = node.as_duration(true, scope.problems);
                },
            )
            .default("5"),
            // Read together with the lists of the servers.
            Key::new(
                "middleware",
                middleware::STAGES_KIND,
                "Middleware for lists and calls. Cannot be combined with the top-level `middleware`.",
                |_, _, _| {},
            ),
        ],
    )
};

/// Returns the shape of the section, for the schema and the reference.
pub(super) fn shape() -> Shape {
    SECTION.shape()
}

/// Reads the section, except its middleware, into `listen`; returns the settings that have no
/// effect.
pub(super) fn read(node: &Node<'_>, listen: &mut ListenConfig, scope: &mut Scope<'_>) -> Vec<Problem> {
    let mut http = HttpServer::default();
    SECTION.read(node, &mut http, scope);
    if http.host.is_some() || http.port.is_some() {
        let host = http.host.as_deref().unwrap_or("localhost");
        listen.address = Some(address(host, http.port.unwrap_or(DEFAULT_PORT)));
    }
    if !http.is_cors_off {
        listen.allowed_origins = http.origins;
    }
    if let Some(deadline) = http.shutdown_deadline {
        listen.shutdown_deadline = deadline;
    }
    http.notices
}

/// Returns the listen address. MCProxy takes `localhost` for the IPv4 loopback, and IPv6 addresses
/// without brackets.
fn address(host: &str, port: u16) -> String {
    match host {
        "localhost" => format!("127.0.0.1:{port}"),
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

fn read_cors(node: &Node<'_>, http: &mut HttpServer, scope: &mut Scope<'_>) {
    http.is_cors_off = node.as_bool(scope.problems) == Some(false);
    if http.is_cors_off {
        let notice = node.problem("does not block loopback origins, such as `http://localhost:3000`");
        http.notices.push(notice.hint("give every caller a token (`pegboard.tokens`)"));
    }
}

fn read_origins(node: &Node<'_>, http: &mut HttpServer, scope: &mut Scope<'_>) {
    let origins = node.as_texts(scope.problems).unwrap_or_default();
    if origins.contains(&EVERY_ORIGIN) {
        let notice = node.problem("has `*`, which is not applied: every web page could call tools");
        http.notices.push(notice.hint("list the web origins in `pegboard.allowedOrigins`, or `*` to allow all"));
    }
    http.origins = origins.into_iter().filter(|origin| *origin != EVERY_ORIGIN).map(str::to_owned).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts() {
        let check = |host: &str, expected: &str| assert_eq!(address(host, 1), expected);
        check("localhost", "127.0.0.1:1");
        check("0.0.0.0", "0.0.0.0:1");
        check("::1", "[::1]:1");
        check("[::1]", "[::1]:1");
        check("example.org", "example.org:1");
    }
}
