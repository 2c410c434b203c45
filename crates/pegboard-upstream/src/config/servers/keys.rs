//! The keys of a server.

use pegboard_config::{
    document::{Missing, Node},
    env_file,
    keys::{Key, Kind, Scope, Section, set},
    variables::{expand, resolve_in_workspace},
    web::{HEADERS, URL, is_header_value, read_header_map},
};
use pegboard_core::Secret;
use pegboard_mcp::era::Era;
use pegboard_process::supervise::ProcessNamespace;

use super::{
    super::{
        ConnectionMode, HttpKind, Pinning, ToolOverride,
        breaker::{self, read_breaker},
        inherit::{self, read_inherit_env},
        oauth, tools,
    },
    draft::{ServerDraft, set_once},
};

/// The values of `type`.
const TYPES: &[&str] = &["stdio", "http", "streamable-http", "streamableHttp", "sse"];

pub(super) static SERVER: Section<ServerDraft> = Section {
    // Settings of Claude Code, Cline, Copilot, Cursor, Gemini CLI, Roo Code, VS Code and
    // Windsurf that configure how those programs treat the server's tools, or its icon.
    ignored: &[
        "alwaysAllow",
        "alwaysLoad",
        "auth",
        "authProviderType",
        "autoApprove",
        "autoStart",
        "dev",
        "displayName",
        "extension",
        "gallery",
        "icon",
        "icons",
        "iconPath",
        "id",
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
        "trust",
        "version",
        "watchPaths",
    ],
    required_one_of: &["command", "url", "serverUrl", "httpUrl"],
    is_null_missing: true,
    ..Section::new("server", "One MCP server, in the format of other MCP clients.", KEYS)
};

const KEYS: &[Key<ServerDraft>] = &[
    Key::new(
        "command",
        Kind::Word,
        "Program to start. It must speak MCP over standard input and output.",
        |node, server: &mut ServerDraft, scope| {
            server.command = node.as_non_blank(scope.problems).map(|text| server.expand(node, text, scope));
        },
    ),
    Key::new("args", Kind::List(&Kind::Text), "Arguments of the program.", read_args).default("[]"),
    Key::new(
        "env",
        Kind::Map(&Kind::Scalar),
        "Environment variables for the program. From Pegboard's environment it inherits only a short list (`PATH`, \
         `HOME`, locale, proxies, certificates and the like) and the variables of `inheritEnv`.",
        read_env,
    )
    .default("{}"),
    Key::new(
        "envFile",
        Kind::Word,
        "File with `NAME=value` lines; `env` takes precedence. A relative path is resolved against the folder of \
         the configuration file.",
        read_env_file,
    ),
    Key::new(
        "cwd",
        Kind::Word,
        "Working directory of the program. A relative path is resolved against the folder of the configuration file.",
        |node, server: &mut ServerDraft, scope| {
            let text = node.as_non_blank(scope.problems).map(|text| server.expand(node, text, scope).text);
            server.cwd = text.map(|text| resolve_in_workspace(&text, scope.env));
        },
    ),
    Key::new("url", URL, "URL of a remote server.", |node, server: &mut ServerDraft, scope| {
        server.set_url(node, HttpKind::Auto, scope);
    }),
    Key::new("serverUrl", URL, "Same as `url`, in the format of Windsurf.", |node, server: &mut ServerDraft, scope| {
        server.set_url(node, HttpKind::Auto, scope);
    }),
    Key::new(
        "httpUrl",
        URL,
        "URL of a server that speaks Streamable HTTP, in the format of Gemini CLI.",
        |node, server: &mut ServerDraft, scope| server.set_url(node, HttpKind::Streamable, scope),
    ),
    Key::new(
        "type",
        Kind::OneOf(TYPES),
        "Transport; derived from `command` or `url` if omitted. `http` is Streamable HTTP with a fallback to HTTP+SSE \
         for older servers; `streamable-http` and `streamableHttp` are Streamable HTTP only; `sse` is HTTP+SSE only.",
        read_type,
    ),
    Key::new("transport", Kind::OneOf(TYPES), "Same as `type`.", read_type),
    Key::new("headers", HEADERS, "Headers to send with every request to a remote server.", read_headers).default("{}"),
    Key::new(
        "authorizationToken",
        Kind::Word,
        "Token sent to a remote server as `Authorization: Bearer …`. A value that begins with `Bearer ` is sent \
         unchanged.",
        read_token,
    ),
    Key::new("bearerToken", Kind::Word, "Same as `authorizationToken`.", read_token),
    Key::new(
        "oauth",
        oauth::KIND,
        "OAuth client for `pegboard login` to a remote server. Only needed if the authorization server does not \
         support dynamic client registration.",
        |node, server: &mut ServerDraft, scope| oauth::read_oauth(node, &mut server.oauth, scope),
    )
    .default("{}"),
    Key::new("disabled", Kind::Flag, "Disables the server.", |node, server: &mut ServerDraft, scope| {
        let is_disabled = node.as_bool(scope.problems);
        set_once(&mut server.is_enabled, is_disabled.map(|it| !it), node, scope.problems);
    })
    .default("false"),
    Key::new("enabled", Kind::Flag, "Disables the server if false.", |node, server: &mut ServerDraft, scope| {
        let is_enabled = node.as_bool(scope.problems);
        set_once(&mut server.is_enabled, is_enabled, node, scope.problems);
    })
    .default("true"),
    Key::new(
        "timeout",
        Kind::Timeout,
        "Timeout of a call; each progress notification restarts it. A number below 1000 is in seconds, a number of \
         1000 or more in milliseconds, because MCP clients use both.",
        |node, server: &mut ServerDraft, scope| set(&mut server.timeouts.call, node.as_timeout(scope.problems)),
    )
    .default("\"300s\""),
    Key::new(
        "connectTimeout",
        Kind::Duration { may_be_zero: false },
        "Timeout for starting the server and fetching its lists.",
        |node, server: &mut ServerDraft, scope| {
            set(&mut server.timeouts.connect, node.as_duration(false, scope.problems));
        },
    )
    .default("\"60s\""),
    Key::new(
        "idleTimeout",
        Kind::Duration { may_be_zero: true },
        "Stops the server after this time without a call; it is started again when needed. 0 never stops it. The \
         default is 0, or `\"5m\"` for a `lazy` server.",
        |node, server: &mut ServerDraft, scope| server.timeouts.idle = node.as_duration(true, scope.problems),
    ),
    Key::new(
        "lazy",
        Kind::Flag,
        "Starts the server only when it is called. Its tool lists are cached from the last run; the first time it is \
         started once to fetch them. Overrides `pegboard.lazy`.",
        |node, server: &mut ServerDraft, scope| server.lazy = node.as_bool(scope.problems),
    ),
    Key::new(
        "circuitBreaker",
        breaker::KIND,
        "Circuit breaker of the server. Overrides `pegboard.circuitBreaker`.",
        |node, server: &mut ServerDraft, scope| server.breaker = Some(read_breaker(node, scope)),
    ),
    Key::new(
        "maxConcurrent",
        Kind::Count { least: 0 },
        "Maximum number of concurrent calls to the server; 0 is unlimited. Further calls wait, in order within a \
         session and round-robin between sessions, up to the timeout of a call.",
        |node, server: &mut ServerDraft, scope| set(&mut server.limits.concurrent, node.as_count(scope.problems)),
    )
    .default("128"),
    Key::new(
        "maxArgumentBytes",
        Kind::Count { least: 1 },
        "Maximum size of the arguments of a call in bytes; a larger call is rejected.",
        |node, server: &mut ServerDraft, scope| {
            set(&mut server.limits.argument_bytes, node.as_count_from(1, scope.problems));
        },
    )
    .default("67108864"),
    Key::new(
        "maxResultBytes",
        Kind::Count { least: 1 },
        "Maximum size of a result in bytes; a larger result is replaced by an error.",
        |node, server: &mut ServerDraft, scope| {
            set(&mut server.limits.result_bytes, node.as_count_from(1, scope.problems));
        },
    )
    .default("67108864"),
    Key::new(
        "pinning",
        Kind::OneOf(Pinning::NAMES),
        "How Pegboard treats tools of the server whose definition is not approved. Overrides `pegboard.pinning`.",
        |node, server: &mut ServerDraft, scope| {
            server.pinning = node.as_one_of(Pinning::NAMES, scope.problems).and_then(Pinning::named);
        },
    ),
    Key::new(
        "protocol",
        Kind::OneOf(&["auto", "legacy", "modern"]),
        "Generation of the MCP protocol: `legacy` has `initialize` and sessions (up to 2025-11-25), `modern` has \
         neither (2026-07-28), `auto` detects it.",
        |node, server: &mut ServerDraft, scope| {
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
        "Purpose of the server. It is included in the search.",
        |node, server: &mut ServerDraft, scope| server.description = node.as_text(scope.problems).map(str::to_owned),
    ),
    Key::new(
        "pegboard",
        Kind::Object(|| OWN.shape()),
        "Pegboard's settings for this server.",
        |node, server: &mut ServerDraft, scope| OWN.read(node, server, scope),
    )
    .default("{}"),
    // Read by the gateway's argument check; declared here because it is a key of a server.
    Key::new(
        "validateArguments",
        Kind::Flag,
        "Validates the arguments of calls against the tools' schemas. Overrides `pegboard.validateArguments`.",
        |_, _, _| {},
    ),
    // Read with the middleware; declared here because it is a key of a server.
    Key::new(
        "middleware",
        Kind::Reference("serverMiddleware"),
        "Middleware for the server's lists and calls. Replaces the top-level `middleware`.",
        |_, _, _| {},
    ),
    // Read by the gateway's filters; declared here because they are keys of a server.
    Key::new(
        "includeTools",
        Kind::List(&Kind::Text),
        "Allow list of the server's tools: clients can see and call only these. An empty list allows none.",
        |_, _, _| {},
    ),
    Key::new(
        "excludeTools",
        Kind::List(&Kind::Text),
        "Deny list of the server's tools: clients can neither see nor call these.",
        |_, _, _| {},
    ),
    Key::new("disabledTools", Kind::List(&Kind::Text), "Same as `excludeTools`.", |_, _, _| {}),
    Key::new(
        "tools",
        Kind::Any,
        "A list of names without `*` is the same as `includeTools` (the format of Copilot). Other values are ignored.",
        |_, _, _| {},
    ),
];

/// Settings that are Pegboard's own and that no other client has.
static OWN: Section<ServerDraft> = Section::new(
    "serverSettings",
    "Pegboard's settings for one server.",
    &[
        Key::new(
            "allowPrivateIssuers",
            Kind::Flag,
            "Allows OAuth endpoints at private, link-local or loopback addresses although the server itself has a \
             public address. Overrides `pegboard.allowPrivateIssuers`.",
            |node, server: &mut ServerDraft, scope| server.oauth.allow_private_issuers = node.as_bool(scope.problems),
        ),
        Key::new(
            "connections",
            Kind::OneOf(ConnectionMode::NAMES),
            "Connections that the calls of clients use. `shared`: one for all clients of a protocol generation. \
             `own`: one for each client, declared with that client's capabilities; for a program, a process of its \
             own. `auto`: `shared` until the server asks a client something (sampling, elicitation, roots), `own` \
             from then on.",
            |node, server: &mut ServerDraft, scope| {
                let name = node.as_one_of(ConnectionMode::NAMES, scope.problems);
                set(&mut server.connections.mode, name.and_then(ConnectionMode::named));
            },
        )
        .default("\"auto\""),
        Key::new(
            "maxConnections",
            Kind::Count { least: 1 },
            "Maximum number of connections that belong to single clients; a call that needs one more is rejected.",
            |node, server: &mut ServerDraft, scope| {
                set(&mut server.connections.max, node.as_count_from(1, scope.problems));
            },
        )
        .default("32"),
        Key::new(
            "connectionIdleTimeout",
            Kind::Duration { may_be_zero: true },
            "Closes a connection of a client, and the second shared one, after this time without a call, or after \
             `idleTimeout` if that is shorter; it is opened again when needed. 0 never closes it.",
            |node, server: &mut ServerDraft, scope| {
                set(&mut server.connections.idle, node.as_duration(true, scope.problems));
            },
        )
        .default("\"10m\""),
        Key::new(
            "inheritEnv",
            inherit::KIND,
            "Variables of Pegboard's environment that the server inherits beyond the short list, in addition to \
             `pegboard.inheritEnv`: names, patterns such as `GITHUB_*`, or `true` for all. `false` and `[]` disable \
             `pegboard.inheritEnv` for the server. Variables that supply `pegboard.tokens` are never inherited.",
            |node, server: &mut ServerDraft, scope| server.inherit_env = read_inherit_env(node, scope),
        ),
        Key::new(
            "promptInstructions",
            Kind::Text,
            "Instructions for the model on when to use the tools of this server: shown with a tool if the dialect \
             supports it, and included in the search.",
            |node, server: &mut ServerDraft, scope| {
                server.prompt_instructions.all = node.as_text(scope.problems).map(str::to_owned);
            },
        ),
        Key::new(
            "tools",
            Kind::Map(&tools::KIND),
            "Settings of individual tools, by their names on the server. They apply wherever the tool is listed, \
             searched, described and called; approvals compare the server's own definitions.",
            |node, server: &mut ServerDraft, scope| {
                for (tool, settings) in tools::read(node, scope) {
                    let text = settings.prompt_instructions.map(|text| (tool.clone(), text));
                    server.prompt_instructions.tools.extend(text);
                    server.overrides.insert(tool, settings.changes);
                }
                server.overrides.retain(|_, changes| *changes != ToolOverride::default());
            },
        ),
        Key::new(
            "summary",
            tools::SUMMARY,
            "Purpose of the server in a few words. Models read it in the instructions of the gateway and in the \
             description of `search_tools`, in place of words from the server's description and its tool names.",
            |node, server: &mut ServerDraft, scope| server.summary = tools::read_summary(node, scope.problems),
        ),
        Key::new(
            "trustAlwaysLoad",
            Kind::Flag,
            "Lists tools that the server marks with `_meta[\"anthropic/alwaysLoad\"]` without a search, within \
             `alwaysLoadTokens`. Without it, only `tools.NAME.alwaysShow` keeps a tool listed.",
            |node, server: &mut ServerDraft, scope| {
                set(&mut server.always_load.is_trusted, node.as_bool(scope.problems));
            },
        )
        .default("false"),
        Key::new(
            "alwaysLoadTokens",
            Kind::Count { least: 0 },
            "Maximum number of tokens (estimated) of the tools that `trustAlwaysLoad` keeps listed. Further tools of \
             the server are found by search.",
            |node, server: &mut ServerDraft, scope| {
                set(&mut server.always_load.max_tokens, node.as_count(scope.problems));
            },
        )
        .default("2000"),
        Key::new(
            "processNamespace",
            Kind::OneOf(ProcessNamespace::NAMES),
            "Runs the server in a process (PID) namespace. Overrides `pegboard.processNamespace`.",
            |node, server: &mut ServerDraft, scope| {
                let name = node.as_one_of(ProcessNamespace::NAMES, scope.problems);
                server.process_namespace = name.and_then(ProcessNamespace::named);
            },
        ),
    ],
);

fn read_args(node: &Node<'_>, server: &mut ServerDraft, scope: &mut Scope<'_>) {
    if node.as_texts(scope.problems).is_none() {
        return;
    }
    let items = node.items();
    let texts = items.iter().filter_map(|item| item.text().map(|text| (item, text)));
    server.args = texts.map(|(item, text)| server.expand(item, text, scope).text).collect();
}

fn read_env(node: &Node<'_>, server: &mut ServerDraft, scope: &mut Scope<'_>) {
    for entry in node.as_object(scope.problems).unwrap_or_default() {
        if entry.key().is_empty() || entry.key().contains(['=', '\0']) {
            scope.problems.push(entry.problem("is not a valid variable name"));
        }
        // VS Code writes `null` to unset a variable.
        if entry.is_null() {
            continue;
        }
        let Some(text) = entry.as_scalar(scope.problems) else { continue };
        let value = server.expand(&entry, text, scope).text;
        if value.contains('\0') {
            scope.problems.push(entry.problem("has a character that is not allowed in a variable"));
        }
        server.env.push((entry.key().to_owned(), Secret::new(value)));
    }
}

fn read_env_file(node: &Node<'_>, server: &mut ServerDraft, scope: &mut Scope<'_>) {
    let Some(text) = node.as_non_blank(scope.problems) else { return };
    let path = expand(node, text, scope);
    if !path.is_complete {
        return;
    }
    let path = resolve_in_workspace(&path.text, scope.env);
    scope.problems.add_file(path.clone());
    let variables = env_file::read(&path);
    server.env_path = Some(path);
    match variables {
        Ok(variables) => {
            server.env_file = variables.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        }
        Err(error) => scope.problems.push(node.problem(error.to_string()).with_missing(Missing::File)),
    }
}

fn read_type(node: &Node<'_>, server: &mut ServerDraft, scope: &mut Scope<'_>) {
    let kind = node.as_one_of(TYPES, scope.problems);
    set_once(&mut server.kind, kind, node, scope.problems);
}

fn read_headers(node: &Node<'_>, server: &mut ServerDraft, scope: &mut Scope<'_>) {
    let mut filled = Vec::new();
    server.headers = read_header_map(node, &mut filled, scope);
    server.secrets.extend(filled.into_iter().map(Secret::new));
}

fn read_token(node: &Node<'_>, server: &mut ServerDraft, scope: &mut Scope<'_>) {
    let Some(text) = node.as_non_blank(scope.problems) else { return };
    let token = server.expand(node, text, scope);
    if token.is_complete && (token.text.trim().is_empty() || !is_header_value(&token.text)) {
        let problem = node.problem("must be a token without line breaks");
        scope.problems.push(problem.hint("the variable may be empty"));
    }
    set_once(&mut server.token, Some(token.text), node, scope.problems);
}
