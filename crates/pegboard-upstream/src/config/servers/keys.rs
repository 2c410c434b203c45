//! The keys that a server can have.

use super::{
    super::{
        HttpKind, Pinning, ProcessNamespace, Secret,
        breaker::{self, read_breaker},
        document::{Missing, Node},
        env_file,
        inherit::{self, read_inherit_env},
        keys::{Key, Kind, Scope, Section, set},
        oauth,
        variables::{expand, from_workspace},
        web::{HEADERS, URL, is_header_value, read_header_map},
    },
    draft::{Draft, set_once},
};
use crate::era::Era;

/// What `type` can be.
const TYPES: &[&str] = &["stdio", "http", "streamable-http", "streamableHttp", "sse"];

pub(super) static SERVER: Section<Draft> = Section {
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
    Key::new(
        "env",
        Kind::Map(&Kind::Scalar),
        "Environment variables for it. Of Pegboard's own variables it inherits a short list (`PATH`, `HOME`, locale, \
         proxies, certificates and the like) and what `inheritEnv` names.",
        read_env,
    )
    .default("{}"),
    Key::new(
        "envFile",
        Kind::Word,
        "A file with `NAME=value` lines; `env` takes precedence. A relative path starts from the folder of \
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
        oauth::KIND,
        "Who Pegboard is to those who give logins for a remote server, for `pegboard login`. Only needed where \
         programs cannot register themselves.",
        |node, server: &mut Draft, scope| oauth::read(node, &mut server.oauth, scope),
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
        breaker::KIND,
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
    Key::new(
        "pegboard",
        Kind::Object(|| OWN.shape()),
        "Settings of Pegboard for this server.",
        |node, server: &mut Draft, scope| OWN.read(node, server, scope),
    )
    .default("{}"),
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
    // Read by the gateway's filters; declared here because they stand here.
    Key::new(
        "includeTools",
        Kind::List(&Kind::Text),
        "The only tools of the server that clients may see and call. An empty list allows none.",
        |_, _, _| {},
    ),
    Key::new(
        "excludeTools",
        Kind::List(&Kind::Text),
        "Tools of the server that clients may neither see nor call.",
        |_, _, _| {},
    ),
    Key::new("disabledTools", Kind::List(&Kind::Text), "The same as `excludeTools`.", |_, _, _| {}),
    Key::new(
        "tools",
        Kind::Any,
        "A list of names without `*` is the same as `includeTools`, as Copilot writes it. Anything else is ignored.",
        |_, _, _| {},
    ),
];

/// What fits under the name of a tool.
const TOOL: Kind = Kind::Object(|| TOOL_SETTINGS.shape());

/// Settings of one tool of a server.
static TOOL_SETTINGS: Section<Option<String>> = Section::new(
    "toolSettings",
    "Settings of Pegboard for one tool of a server.",
    &[Key::new(
        "promptInstructions",
        Kind::Text,
        "When to use the tool, for models that search; in place of the server's `promptInstructions`.",
        |node, text: &mut Option<String>, scope| *text = node.as_text(scope.problems).map(str::to_owned),
    )],
);

/// Settings that are Pegboard's own and that no other client has.
static OWN: Section<Draft> = Section::new(
    "serverSettings",
    "Settings of Pegboard for one server.",
    &[
        Key::new(
            "allowPrivateIssuers",
            Kind::Flag,
            "Whether endpoints that a remote server names for logins (OAuth) may be at private, link-local or loopback \
         addresses although the server itself is not, in place of `pegboard.allowPrivateIssuers`.",
            |node, server: &mut Draft, scope| server.oauth.allow_private_issuers = node.as_bool(scope.problems),
        ),
        Key::new(
            "inheritEnv",
            inherit::KIND,
            "Variables of Pegboard that the server inherits beyond the short list, added to `pegboard.inheritEnv`: names, \
         patterns such as `GITHUB_*`, or `true` for all. `false` and `[]` switch `pegboard.inheritEnv` off for it. \
         Variables that supply `pegboard.tokens` are never inherited.",
            |node, server: &mut Draft, scope| server.inherit_env = read_inherit_env(node, scope),
        ),
        Key::new(
            "promptInstructions",
            Kind::Text,
            "When to use the tools of this server, for models that search: shown with a tool where the dialect shows \
             such a text, and searched.",
            |node, server: &mut Draft, scope| {
                server.prompt_instructions.all = node.as_text(scope.problems).map(str::to_owned);
            },
        ),
        Key::new(
            "tools",
            Kind::Map(&TOOL),
            "Settings of single tools, by their names at the server.",
            |node, server: &mut Draft, scope| {
                for entry in node.as_object(scope.problems).unwrap_or_default() {
                    let mut text = None;
                    TOOL_SETTINGS.read(&entry, &mut text, scope);
                    let tool = entry.key().to_owned();
                    server.prompt_instructions.tools.extend(text.map(|text| (tool, text)));
                }
            },
        ),
        Key::new(
            "processNamespace",
            Kind::OneOf(ProcessNamespace::NAMES),
            "Whether the server runs in a process (PID) namespace, in place of `pegboard.processNamespace`.",
            |node, server: &mut Draft, scope| {
                let name = node.as_one_of(ProcessNamespace::NAMES, scope.problems);
                server.process_namespace = name.and_then(ProcessNamespace::named);
            },
        ),
    ],
);

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

fn read_token(node: &Node<'_>, server: &mut Draft, scope: &mut Scope<'_>) {
    let Some(text) = node.as_word(scope.problems) else { return };
    let token = server.expand(node, text, scope);
    if token.is_complete && (token.text.trim().is_empty() || !is_header_value(&token.text)) {
        let problem = node.problem("must be a token without line breaks");
        scope.problems.push(problem.hint("the variable may be empty"));
    }
    set_once(&mut server.token, Some(token.text), node, scope.problems);
}
