//! The `mcpServers` object that MCP clients have, as each of them writes it.

use std::{collections::BTreeSet, path::PathBuf};

use super::{
    HttpKind, Limits, OAuthConfig, Pinning, Secret, ServerConfig, Timeouts, TransportConfig,
    breaker::read_breaker,
    document::{Missing, Node, Problems},
    env_file,
    keys::{Key, Kind, Lookup, Scope, Section, Shape},
    variables::{Expanded, expand, from_workspace},
};
use crate::{breaker::BreakerSettings, era::Era};

/// The servers of a configuration, in the order of the file: those under `mcpServers`, under
/// `servers` (VS Code's `mcp.json`) and under `mcp.servers` (VS Code's `settings.json`).
///
/// `env` is asked for variables, and for [`workspaceFolder`](super::variables::WORKSPACE_FOLDER).
/// A server that cannot be understood is left out; `problems` says why.
pub fn read_servers(root: &Node<'_>, env: Lookup<'_>, problems: &mut Problems) -> Vec<ServerConfig> {
    let mut servers = Vec::new();
    let mut names = BTreeSet::new();
    for entry in entries(root, problems) {
        if !names.insert(entry.key()) {
            problems.push(entry.problem("is a second server of this name"));
            continue;
        }
        // Nobody needs the variables of a server that is switched off.
        let mut own = Problems::new();
        let server = read_server(&entry, &mut Scope { env, problems: &mut own });
        if server.as_ref().is_some_and(|server| !server.is_enabled) {
            own.forgive_outside();
        }
        own.name_server(entry.key());
        problems.append(own);
        servers.extend(server);
    }
    servers
}

/// The entries of all servers, for whoever has keys of their own there.
pub fn entries<'a>(root: &Node<'a>, problems: &mut Problems) -> Vec<Node<'a>> {
    let in_settings = root.get("mcp").and_then(|mcp| mcp.get("servers"));
    let places = [root.get("mcpServers"), root.get("servers"), in_settings];
    let mut entries = Vec::new();
    for place in places.into_iter().flatten() {
        entries.extend(place.as_object(problems).unwrap_or_default());
    }
    entries
}

/// The keys of a server, for the schema and the reference.
pub fn shape() -> Shape {
    SERVER.shape()
}

/// What `type` can be.
const TYPES: &[&str] = &["stdio", "http", "streamable-http", "streamableHttp", "sse"];

/// What fits as an address.
pub const URL: Kind = Kind::Shaped {
    pattern: r"^([Hh][Tt][Tt][Pp][Ss]?://\S|.*\$\{)",
    fits: "an address that begins with `http://` or `https://`",
};

/// What fits as headers.
pub const HEADERS: Kind = Kind::Map(&Kind::Text);

static SERVER: Section<Draft> = Section {
    // Settings of Claude Code, Cline, Copilot, Cursor, Gemini CLI, Roo Code, VS Code and
    // Windsurf that say how those programs treat the server's tools, or draw its icon.
    ignored: &[
        "alwaysAllow",
        "alwaysLoad",
        "auth",
        "authProviderType",
        "autoApprove",
        "autoStart",
        "dev",
        "disabledTools",
        "displayName",
        "excludeTools",
        "extension",
        "gallery",
        "icon",
        "icons",
        "iconPath",
        "id",
        "includeTools",
        "inputs",
        "metadata",
        "name",
        "note",
        "notes",
        "oauthScopes",
        "sandbox",
        "sandboxEnabled",
        "source",
        "tags",
        "targetAudience",
        "targetServiceAccount",
        "tools",
        "trust",
        "version",
        "watchPaths",
    ],
    needs_one_of: &["command", "url", "serverUrl", "httpUrl"],
    is_null_nothing: true,
    ..Section::new("server", "How to reach one MCP server, as other clients write it.", KEYS)
};

const KEYS: &[Key<Draft>] = &[
    Key::new(
        "command",
        Kind::Word,
        "The program to start. It speaks MCP on its standard input and output.",
        |node, server: &mut Draft, scope| {
            server.command = node.as_word(scope.problems).map(|text| server.expand(node, text, scope));
        },
    ),
    Key::new("args", Kind::List(&Kind::Text), "Its arguments.", read_args).default("[]"),
    Key::new("env", Kind::Map(&Kind::Scalar), "Environment variables for it, beside Pegboard's own.", read_env)
        .default("{}"),
    Key::new(
        "envFile",
        Kind::Word,
        "A file with `NAME=value` lines; what `env` says counts more. A relative path starts from the folder of \
         the configuration file.",
        read_env_file,
    ),
    Key::new(
        "cwd",
        Kind::Word,
        "The folder it runs in. A relative path starts from the folder of the configuration file.",
        |node, server: &mut Draft, scope| {
            let text = node.as_word(scope.problems).map(|text| server.expand(node, text, scope).text);
            server.cwd = text.map(|text| from_workspace(&text, scope.env));
        },
    ),
    Key::new("url", URL, "The address of a remote server.", |node, server: &mut Draft, scope| {
        server.address(node, HttpKind::Auto, scope);
    }),
    Key::new("serverUrl", URL, "The same as `url`, as Windsurf writes it.", |node, server: &mut Draft, scope| {
        server.address(node, HttpKind::Auto, scope);
    }),
    Key::new(
        "httpUrl",
        URL,
        "The address of a server that speaks Streamable HTTP, as Gemini CLI writes it.",
        |node, server: &mut Draft, scope| server.address(node, HttpKind::Streamable, scope),
    ),
    Key::new(
        "type",
        Kind::OneOf(TYPES),
        "The transport; it follows from `command` or `url` when it is not given. `http` is Streamable HTTP, or \
         HTTP+SSE where the server knows nothing newer; the longer names are Streamable HTTP only; `sse` is \
         HTTP+SSE only.",
        read_type,
    ),
    Key::new("transport", Kind::OneOf(TYPES), "The same as `type`.", read_type),
    Key::new("headers", HEADERS, "Headers that every request to a remote server carries.", read_headers).default("{}"),
    Key::new(
        "authorizationToken",
        Kind::Word,
        "Sent to a remote server as `Authorization: Bearer …`. A value that begins with `Bearer ` is sent as it is.",
        read_token,
    ),
    Key::new("bearerToken", Kind::Word, "The same as `authorizationToken`.", read_token),
    Key::new(
        "oauth",
        super::oauth::KIND,
        "Who Pegboard is to those who give logins for a remote server, for `pegboard login`. Only needed where \
         programs cannot register themselves.",
        |node, server: &mut Draft, scope| super::oauth::read(node, &mut server.oauth, scope),
    )
    .default("{}"),
    Key::new("disabled", Kind::Flag, "Leaves the server out.", |node, server: &mut Draft, scope| {
        let is_disabled = node.as_bool(scope.problems);
        set_once(&mut server.is_enabled, is_disabled.map(|it| !it), node, scope.problems);
    })
    .default("false"),
    Key::new("enabled", Kind::Flag, "Leaves the server out when it is false.", |node, server: &mut Draft, scope| {
        let is_enabled = node.as_bool(scope.problems);
        set_once(&mut server.is_enabled, is_enabled, node, scope.problems);
    })
    .default("true"),
    Key::new(
        "timeout",
        Kind::Timeout,
        "How long a call may take, counted anew from each sign of progress. A number below 1000 is seconds, from \
         1000 on milliseconds, since clients write both.",
        |node, server: &mut Draft, scope| set(&mut server.timeouts.call, node.as_timeout(scope.problems)),
    )
    .default("\"300s\""),
    Key::new(
        "connectTimeout",
        Kind::Duration { may_be_zero: false },
        "How long the server may take from its start until its lists are there.",
        |node, server: &mut Draft, scope| set(&mut server.timeouts.connect, node.as_duration(false, scope.problems)),
    )
    .default("\"60s\""),
    Key::new(
        "idleTimeout",
        Kind::Duration { may_be_zero: true },
        "After this long without a call the server is stopped, and started again when it is needed. 0 never \
         stops it, and holds unless the server is `lazy`: then it is `\"5m\"`.",
        |node, server: &mut Draft, scope| server.timeouts.idle = node.as_duration(true, scope.problems),
    ),
    Key::new(
        "lazy",
        Kind::Flag,
        "Whether the server starts only when something of it is called. What it offers is known from its last run; \
         the first time it is started once to find out. As `pegboard.lazy` says unless it is given.",
        |node, server: &mut Draft, scope| server.lazy = node.as_bool(scope.problems),
    ),
    Key::new(
        "circuitBreaker",
        super::breaker::KIND,
        "When calls of the server are refused because it does not answer, in place of `pegboard.circuitBreaker`.",
        |node, server: &mut Draft, scope| server.breaker = Some(read_breaker(node, scope)),
    ),
    Key::new(
        "maxConcurrent",
        Kind::Count { least: 0 },
        "Calls of the server at a time; 0 is as many as come. Others wait for their turn, each session's in their \
         order and sessions in turn, for as long as a call may take.",
        |node, server: &mut Draft, scope| set(&mut server.limits.concurrent, node.as_count(scope.problems)),
    )
    .default("128"),
    Key::new(
        "maxArgumentBytes",
        Kind::Count { least: 1 },
        "Bytes that the arguments of a call may have; a larger one is refused.",
        |node, server: &mut Draft, scope| {
            set(&mut server.limits.argument_bytes, node.as_count_from(1, scope.problems));
        },
    )
    .default("67108864"),
    Key::new(
        "maxResultBytes",
        Kind::Count { least: 1 },
        "Bytes that a result may have; instead of a larger one the client gets an error that says so.",
        |node, server: &mut Draft, scope| {
            set(&mut server.limits.result_bytes, node.as_count_from(1, scope.problems));
        },
    )
    .default("67108864"),
    Key::new(
        "pinning",
        Kind::OneOf(Pinning::NAMES),
        "What becomes of tools of the server that are not as they were approved, in place of `pegboard.pinning`.",
        |node, server: &mut Draft, scope| {
            server.pinning = node.as_one_of(Pinning::NAMES, scope.problems).and_then(Pinning::named);
        },
    ),
    Key::new(
        "protocol",
        Kind::OneOf(&["auto", "legacy", "modern"]),
        "The era of MCP that it speaks: `legacy` has `initialize` and sessions (up to 2025-11-25), `modern` does \
         without (2026-07-28), `auto` finds out.",
        |node, server: &mut Draft, scope| {
            server.era = match node.as_one_of(&["auto", "legacy", "modern"], scope.problems) {
                Some("legacy") => Some(Era::Legacy),
                Some("modern") => Some(Era::Modern),
                _ => None,
            };
        },
    )
    .default("\"auto\""),
    Key::new(
        "description",
        Kind::Text,
        "What the server is for. Searches look here too.",
        |node, server: &mut Draft, scope| server.description = node.as_text(scope.problems).map(str::to_owned),
    ),
    // Read by whoever checks; declared here because it stands here.
    Key::new(
        "validateArguments",
        Kind::Flag,
        "Whether the arguments of calls must fit the tools' schemas, in place of `pegboard.validateArguments`.",
        |_, _, _| {},
    ),
    // Read by whoever has middleware; declared here because it stands here.
    Key::new(
        "middleware",
        Kind::Elsewhere("serverMiddleware"),
        "What happens to the server's lists and calls, in place of the general `middleware`.",
        |_, _, _| {},
    ),
];

/// What is known of a server so far.
#[derive(Default)]
struct Draft {
    command: Option<Expanded>,
    args: Vec<String>,
    env: Vec<(String, Secret)>,
    env_file: Vec<(String, Secret)>,
    env_path: Option<PathBuf>,
    cwd: Option<PathBuf>,
    url: Option<(String, HttpKind)>,
    kind: Option<&'static str>,
    headers: Vec<(String, Secret)>,
    token: Option<String>,
    is_enabled: Option<bool>,
    timeouts: Timeouts,
    limits: Limits,
    era: Option<Era>,
    lazy: Option<bool>,
    breaker: Option<BreakerSettings>,
    pinning: Option<Pinning>,
    secrets: Vec<Secret>,
    description: Option<String>,
    oauth: OAuthConfig,
}

fn read_server(entry: &Node<'_>, scope: &mut Scope<'_>) -> Option<ServerConfig> {
    let mut draft = Draft::default();
    SERVER.read(entry, &mut draft, scope);
    if entry.key().trim().is_empty() {
        scope.problems.push(entry.problem("is a server without a name"));
        return None;
    }
    let transport = draft.transport(entry, scope.problems)?;
    let server = ServerConfig::new(entry.key(), transport);
    Some(ServerConfig {
        description: draft.description,
        env_file: draft.env_path,
        is_enabled: draft.is_enabled.unwrap_or(true),
        timeouts: draft.timeouts,
        limits: draft.limits,
        era: draft.era,
        lazy: draft.lazy,
        breaker: draft.breaker,
        pinning: draft.pinning,
        secrets: draft.secrets,
        oauth: draft.oauth,
        ..server
    })
}

impl Draft {
    /// [`expand`] that takes note of what was filled in.
    fn expand(&mut self, node: &Node<'_>, text: &str, scope: &mut Scope<'_>) -> Expanded {
        let mut expanded = expand(node, text, scope);
        self.secrets.extend(expanded.secrets.drain(..).map(Secret::new));
        expanded
    }

    fn address(&mut self, node: &Node<'_>, kind: HttpKind, scope: &mut Scope<'_>) {
        if let Some(url) = read_url(node, scope) {
            self.secrets.extend(url.secrets.into_iter().map(Secret::new));
            set_once(&mut self.url, Some((url.text, kind)), node, scope.problems);
        }
    }

    /// How to reach the server, if its keys agree on it.
    fn transport(&mut self, entry: &Node<'_>, problems: &mut Problems) -> Option<TransportConfig> {
        let is_local = self.kind.map(|kind| kind == "stdio");
        match (self.command.take(), self.url.take()) {
            (Some(_), Some(_)) => {
                let problem = entry.problem("has both a program and an address");
                problems.push(problem.hint("make two servers of it, or leave one out"));
                None
            }
            (Some(_), None) if is_local == Some(false) => {
                problems.push(entry.problem("has a program, but the type of a remote server"));
                None
            }
            (None, Some(_)) if is_local == Some(true) => {
                problems.push(entry.problem("has an address, but the type of a program"));
                None
            }
            (Some(command), None) => {
                self.refuse_remote_keys(entry, problems);
                Some(self.stdio(command.text))
            }
            (None, Some((url, kind))) => {
                let kind = match self.kind {
                    Some("sse") => HttpKind::Sse,
                    Some("streamable-http" | "streamableHttp") => HttpKind::Streamable,
                    _ => kind,
                };
                Some(TransportConfig::Http { url, headers: self.all_headers(entry, problems), kind })
            }
            // Said already, when the keys were read.
            (None, None) => None,
        }
    }

    /// Credentials that nobody would send are a misunderstanding worth telling.
    fn refuse_remote_keys(&self, entry: &Node<'_>, problems: &mut Problems) {
        for key in ["headers", "authorizationToken", "bearerToken"].iter().filter_map(|key| entry.get(key)) {
            let is_nothing = key.is_null() || key.is_object() && self.headers.is_empty();
            if !is_nothing {
                let problem = key.problem("is for remote servers; a program has no headers");
                problems.push(problem.hint("pass credentials in `env`"));
            }
        }
    }

    fn stdio(&mut self, command: String) -> TransportConfig {
        let mut env = std::mem::take(&mut self.env_file);
        env.retain(|(name, _)| !self.env.iter().any(|(other, _)| other == name));
        env.append(&mut self.env);
        TransportConfig::Stdio { command, args: std::mem::take(&mut self.args), env, cwd: self.cwd.take() }
    }

    fn all_headers(&mut self, entry: &Node<'_>, problems: &mut Problems) -> Vec<(String, Secret)> {
        let mut headers = std::mem::take(&mut self.headers);
        if let Some(token) = self.token.take() {
            if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                let problem = entry.problem("has a token, and an `Authorization` header as well");
                problems.push(problem.hint("keep one of them"));
            }
            headers.push(("Authorization".to_owned(), Secret::new(bearer(&token))));
        }
        headers
    }
}

/// `Bearer` in front of a token that does not have it yet.
fn bearer(token: &str) -> String {
    let token = token.trim();
    let has_scheme = token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    if has_scheme { token.to_owned() } else { format!("Bearer {token}") }
}

/// Changes `slot` if there is something to change it to.
fn set<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

/// Fills `slot`, which another key can fill as well; then both must say the same.
fn set_once<T: PartialEq>(slot: &mut Option<T>, value: Option<T>, node: &Node<'_>, problems: &mut Problems) {
    if slot.is_some() && value.is_some() && *slot != value {
        problems.push(node.problem("contradicts another key of the server").hint("keep one of them"));
    }
    *slot = value.or(slot.take());
}

fn read_args(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    if node.as_texts(scope.problems).is_none() {
        return;
    }
    let items = node.items();
    let texts = items.iter().filter_map(|item| item.text().map(|text| (item, text)));
    server.args = texts.map(|(item, text)| server.expand(item, text, scope).text).collect();
}

fn read_env(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    for entry in node.as_object(scope.problems).unwrap_or_default() {
        if entry.key().is_empty() || entry.key().contains(['=', '\0']) {
            scope.problems.push(entry.problem("cannot be the name of a variable"));
        }
        // VS Code writes `null` for a variable that is not wanted.
        if entry.is_null() {
            continue;
        }
        let Some(text) = entry.as_scalar(scope.problems) else { continue };
        let value = server.expand(&entry, text, scope).text;
        if value.contains('\0') {
            scope.problems.push(entry.problem("has a character in its value that no variable can have"));
        }
        server.env.push((entry.key().to_owned(), Secret::new(value)));
    }
}

fn read_env_file(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    let Some(text) = node.as_word(scope.problems) else { return };
    let path = expand(node, text, scope);
    if !path.is_complete {
        return;
    }
    let path = from_workspace(&path.text, scope.env);
    scope.problems.depends_on(path.clone());
    let variables = env_file::read(&path);
    server.env_path = Some(path);
    match variables {
        Ok(variables) => {
            server.env_file = variables.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        }
        Err(error) => scope.problems.push(node.problem(error.to_string()).outside(Missing::File)),
    }
}

fn read_type(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    let kind = node.as_one_of(TYPES, scope.problems);
    set_once(&mut server.kind, kind, node, scope.problems);
}

fn read_headers(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    let mut filled = Vec::new();
    server.headers = read_header_map(node, &mut filled, scope);
    server.secrets.extend(filled.into_iter().map(Secret::new));
}

/// Reads headers whose values may hold variables; what was filled in for these is added to
/// `filled`.
pub fn read_header_map(node: &Node<'_>, filled: &mut Vec<String>, scope: &mut Scope<'_>) -> Vec<(String, Secret)> {
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for entry in node.as_object(scope.problems).unwrap_or_default() {
        let Some(text) = entry.as_text(scope.problems) else { continue };
        let mut value = expand(&entry, text, scope);
        filled.append(&mut value.secrets);
        let value = value.text;
        if !is_header_name(entry.key()) {
            scope.problems.push(entry.problem("cannot be the name of a header"));
        } else if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(entry.key())) {
            scope.problems.push(entry.problem("is the same header once more"));
        } else if !is_header_value(&value) {
            scope.problems.push(entry.problem("has a character in its value that no header can have"));
        }
        headers.push((entry.key().to_owned(), Secret::new(value)));
    }
    headers
}

fn read_token(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    let Some(text) = node.as_word(scope.problems) else { return };
    let token = server.expand(node, text, scope);
    if token.is_complete && (token.text.trim().is_empty() || !is_header_value(&token.text)) {
        let problem = node.problem("must be a token without line breaks");
        scope.problems.push(problem.hint("the variable may be empty"));
    }
    set_once(&mut server.token, Some(token.text), node, scope.problems);
}

/// Reads an address, which may hold variables.
pub fn read_url(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<Expanded> {
    let Some(text) = node.text() else {
        node.must_be(URL, scope.problems);
        return None;
    };
    let url = expand(node, text, scope);
    if url.is_complete && !is_url(&url.text) {
        node.must_be(URL, scope.problems);
    }
    Some(url)
}

/// Whether a text is an address that can be asked over HTTP.
pub fn is_url(text: &str) -> bool {
    let is_scheme = |scheme: &&str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let scheme = ["http://", "https://"].iter().find(|scheme| is_scheme(scheme));
    let host = scheme.and_then(|scheme| text.get(scheme.len()..)).unwrap_or_default();
    !host.is_empty()
        && !host.starts_with(['/', '?', '#'])
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// The characters of a token in HTTP.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Line breaks would begin another header.
fn is_header_value(value: &str) -> bool {
    value.chars().all(|c| c == '\t' || !c.is_control())
}

#[cfg(test)]
mod tests;
