//! The keys of the `pegboard` section.

use clap::ValueEnum;
use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, set},
    variables::expand,
};
use pegboard_discovery::DialectName;
use pegboard_gateway::{ClientProfile, Prefixes, Profile};
use pegboard_llm::Delivery;
use pegboard_process::supervise::ProcessNamespace;
use pegboard_upstream::config::{NewServers, Pinning, breaker, inherit};

use super::{
    super::{
        access::{SELECTION, TOKEN, read_tokens, selection_shape},
        connections, console, embeddings, limits,
        lint::LINT,
        offload,
        options::OPTIONS,
        proxy,
        state::StateFolder,
        telemetry, usage,
    },
    ConfigDraft, exposure,
};
use crate::rankers::RankerName;

const RANKERS: &[&str] = &RankerName::NAMES;

/// The names of all dialects, and `none`.
const PROFILES: &[&str] = &{
    let mut names = ["passthrough"; DialectName::NAMES.len() + 1];
    let mut at = 0;
    while at < DialectName::NAMES.len() {
        names[at] = DialectName::NAMES[at];
        at += 1;
    }
    names
};

const DELIVERIES: &[&str] = &["inject", "reference", "native", "client-native", "constant"];

const PREFIXES: &[&str] = &["auto", "always", "never"];

const TEXTS: Kind = Kind::List(&Kind::Text);

pub(super) const COUNT: Kind = Kind::Count { least: 0 };

const TIME: Kind = Kind::Duration { may_be_zero: true };

pub(in crate::config) const ADDRESS: Kind = Kind::Shaped {
    pattern: r"^(\S+:)?[0-9]{1,5}$",
    fits: "a host and a port, such as `127.0.0.1:8080`, or only a port",
};

const SEPARATOR: Kind =
    Kind::Shaped { pattern: "^[A-Za-z0-9_-]{1,8}$", fits: "one to eight letters, digits, `_` or `-`" };

pub(super) const KEYS: &[Key<ConfigDraft>] = &[
    Key::new(
        "catalogs",
        TEXTS,
        "Catalog files to search, relative to this file.",
        |node, draft: &mut ConfigDraft, scope| {
            let files = node.as_texts(scope.problems).unwrap_or_default();
            draft.config.catalogs = files.into_iter().map(Into::into).collect();
        },
    )
    .default("[]"),
    Key::new(
        "ranker",
        Kind::OneOf(RANKERS),
        "Ranker. Overrides `hybrid` on the command line and the default ranker of each dialect.",
        |node, draft, scope| {
            let name = node.as_one_of(RANKERS, scope.problems);
            draft.config.ranker = name.and_then(|name| RankerName::from_str(name, false).ok());
        },
    ),
    Key::new(
        "model",
        Kind::Text,
        "Model file for the `hybrid` ranker, relative to this file; the built-in model by default. A running gateway \
         reloads the file when it changes; `pegboard agent` reads it at its next start.",
        |node, draft, scope| draft.config.model = node.as_text(scope.problems).map(Into::into),
    ),
    Key::new(
        "limit",
        Kind::Count { least: 1 },
        "Maximum number of hits of a search on the command line; 10 by default.",
        |node, draft, scope| {
            draft.config.limit = node.as_count_from(1, scope.problems);
        },
    ),
    Key::new(
        "dialect",
        Kind::OneOf(PROFILES),
        "Set of meta-tools for clients, used in every conversation unless `exposure` is set; `passthrough` shows all \
         tools unchanged. Without it, clients get `bridge` if there are many tools, or `gateway` if there is a \
         `tool_search` step.",
        |node, draft, scope| draft.profile = read_profile(node, scope),
    ),
    Key::new(
        "exposure",
        exposure::KIND,
        "When to use tool search instead of showing all tools: `always`, `never`, or above limits. `auto` is \
         `{\"maxTools\": 30, \"maxTokens\": 10000}`.",
        |node, draft, scope| draft.exposure = Some(exposure::read(node, scope)),
    ),
    Key::new(
        "preDiscovered",
        Kind::List(&Kind::Text),
        "Tools that are visible from the start, in the gateway and the agent, in any spelling of their names.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.config.gateway.pre_discovered = read_texts(node, scope);
        },
    )
    .default("[]"),
    Key::new(
        "promptCategories",
        Kind::List(&Kind::Text),
        "Tool categories to list in the prompt, in the gateway and the agent, instead of those of the servers.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.config.gateway.prompt_categories = read_texts(node, scope);
        },
    )
    .default("[]"),
    Key::new(
        "delivery",
        Kind::OneOf(DELIVERIES),
        "How `pegboard agent` delivers found tools to the model; the best method that the model supports by default.",
        |node, draft, scope| {
            let name = node.as_one_of(DELIVERIES, scope.problems);
            draft.config.delivery = Delivery::ALL.into_iter().find(|delivery| Some(delivery.as_str()) == name);
        },
    ),
    Key::new(
        "selection",
        Kind::Object(selection_shape),
        "Servers and tools that clients can see.",
        |node, draft, scope| {
            SELECTION.read(node, &mut draft.config.gateway.selection, scope);
        },
    ),
    Key::new(
        "clients",
        Kind::Map(&Kind::OneOf(PROFILES)),
        "Dialects for specific clients, by the name that the client reports; `*` matches any text, and the first \
         matching entry applies.",
        |node, draft: &mut ConfigDraft, scope| {
            for entry in node.as_object(scope.problems).unwrap_or_default() {
                let Some(profile) = read_profile(&entry, scope) else { continue };
                draft.config.gateway.clients.push(ClientProfile { client: entry.key().to_owned(), profile });
            }
        },
    )
    .default("{}"),
    Key::new("settings", Kind::Object(|| OPTIONS.shape()), "Options of the dialects.", |node, draft, scope| {
        OPTIONS.read(node, &mut draft.config.gateway.discovery, scope);
    }),
    Key::new(
        "separator",
        SEPARATOR,
        "Separator between the server name and the tool name.",
        |node, draft: &mut ConfigDraft, scope| match node.as_text(scope.problems) {
            Some(text) if is_separator(text) => draft.config.gateway.names.separator = text.to_owned(),
            Some(_) => node.must_be(SEPARATOR, scope.problems),
            None => {}
        },
    )
    .default("\"___\""),
    Key::new(
        "prefix",
        Kind::OneOf(PREFIXES),
        "When tool names are prefixed with the server name; `auto` prefixes them if there is more than one server.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.config.gateway.prefixes = match node.as_one_of(PREFIXES, scope.problems) {
                Some("always") => Prefixes::Always,
                Some("never") => Prefixes::Never,
                _ => Prefixes::Auto,
            };
        },
    )
    .default("\"auto\""),
    Key::new("listen", ADDRESS, "Listen address of the gateway; 127.0.0.1:8080 by default.", |node, draft, scope| {
        match node.as_text(scope.problems) {
            Some(text) if is_address(text) => draft.config.listen.address = Some(text.to_owned()),
            Some(_) => node.must_be(ADDRESS, scope.problems),
            None => {}
        }
    }),
    Key::new(
        "allowedHosts",
        TEXTS,
        "Allowed values of the `Host` header. By default loopback names, or any name on a public listen address.",
        |node, draft: &mut ConfigDraft, scope| draft.config.listen.allowed_hosts = read_texts(node, scope),
    )
    .default("[]"),
    Key::new(
        "allowedOrigins",
        TEXTS,
        "Allowed web origins (`Origin` header), in addition to loopback origins.",
        |node, draft: &mut ConfigDraft, scope| draft.config.listen.allowed_origins = read_texts(node, scope),
    )
    .default("[]"),
    Key::new(
        "trustedProxies",
        connections::NETWORKS,
        "Reverse proxies in front of the gateway, as addresses or ranges such as `10.0.0.0/8`. Their \
         `X-Forwarded-For` header determines the client address; from other addresses it is ignored.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.config.listen.trusted_proxies = connections::read_proxies(node, scope);
        },
    )
    .default("[]"),
    Key::new(
        "connections",
        connections::KIND,
        "Limits on concurrent connections, requests and event streams.",
        |node, draft: &mut ConfigDraft, scope| connections::read(node, &mut draft.config, scope),
    ),
    Key::new(
        "allowPublic",
        Kind::Flag,
        "Allows a public listen address without tokens.",
        |node, draft: &mut ConfigDraft, scope| set(&mut draft.config.listen.allow_public, node.as_bool(scope.problems)),
    )
    .default("false"),
    Key::new(
        "tokens",
        Kind::List(&Kind::Object(|| TOKEN.shape())),
        "Tokens that grant access to the gateway; without any, everyone who can reach it has access.",
        |node, draft: &mut ConfigDraft, scope| read_tokens(node, &mut draft.config.gateway.tokens, scope),
    )
    .default("[]"),
    Key::new(
        "limits",
        limits::KIND,
        "Limits for each caller, unless its token has its own.",
        |node, draft: &mut ConfigDraft, scope| draft.config.gateway.limits = limits::read_limits(node, scope),
    ),
    Key::new(
        "validateArguments",
        Kind::Flag,
        "Validates the arguments of a call against the tool's schema. An invalid call is answered with the errors \
         and the schema, and the server is not called. Unsupported schema keywords are ignored. A server's own \
         `validateArguments` takes precedence.",
        |node, draft: &mut ConfigDraft, scope| draft.validation.is_on = node.as_bool(scope.problems),
    )
    .default("true"),
    Key::new(
        "stateFolder",
        Kind::Word,
        "Directory for cached tool lists, which answer clients before the servers run, and for approvals; `none` \
         saves nothing. A relative path is resolved against the folder of the configuration file. By default \
         `pegboard` in `XDG_STATE_HOME` or `~/.local/state`, on macOS in `~/Library/Application Support`, on Windows \
         in `LOCALAPPDATA`.",
        |node, draft: &mut ConfigDraft, scope| {
            let Some(text) = node.as_non_blank(scope.problems) else { return };
            draft.config.state = StateFolder::named(&expand(node, text, scope).text);
        },
    ),
    Key::new(
        "lazy",
        Kind::Flag,
        "Starts servers only when they are called. A server's own `lazy` takes precedence.",
        |node, draft: &mut ConfigDraft, scope| draft.servers.lazy = node.as_bool(scope.problems),
    )
    .default("false"),
    Key::new(
        "inheritEnv",
        inherit::KIND,
        "Variables of Pegboard's environment that every server inherits beyond the short list (`PATH`, `HOME`, locale, \
         proxies, certificates and the like; for package runners also their own settings): names, patterns such as \
         `GITHUB_*`, or `true` for all. A server's own `pegboard.inheritEnv` adds to it. Variables that supply \
         `tokens` are never inherited.",
        |node, draft: &mut ConfigDraft, scope| draft.servers.inherit_env = inherit::read_inherit_env(node, scope),
    )
    .default("[]"),
    Key::new(
        "allowPrivateIssuers",
        Kind::Flag,
        "Allows OAuth endpoints of remote servers at private, link-local or loopback addresses although the server \
         itself has a public address. Otherwise they must be public, or on the same kind of network as the server. A \
         server's own `pegboard.allowPrivateIssuers` takes precedence.",
        |node, draft: &mut ConfigDraft, scope| draft.servers.allow_private_issuers = node.as_bool(scope.problems),
    )
    .default("false"),
    Key::new(
        "circuitBreaker",
        breaker::KIND,
        "Circuit breaker for servers that do not answer. A server's own `circuitBreaker` takes precedence.",
        |node, draft: &mut ConfigDraft, scope| draft.servers.breaker = Some(breaker::read_breaker(node, scope)),
    ),
    Key::new(
        "pinning",
        Kind::OneOf(Pinning::NAMES),
        "How Pegboard treats tools whose definition is not approved: tools that changed, and new tools of a known \
         server. `warn` uses and reports them. `hold` neither shows nor calls them until they are approved with \
         `pegboard approve`; without a usable `stateFolder` it is an error. `off` does not compare. A server's own \
         `pinning` takes precedence.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.servers.pinning = node.as_one_of(Pinning::NAMES, scope.problems).and_then(Pinning::named);
        },
    )
    .default("\"warn\""),
    Key::new(
        "processNamespace",
        Kind::OneOf(ProcessNamespace::NAMES),
        "Runs each server that is a child process in its own process (PID) namespace on Linux, with its own `/proc`: \
         all processes that it started end with it, even if Pegboard and the server's supervisor are killed at the \
         same time. Such a server sees only its own processes, and its mounts are private. `on` creates a user \
         namespace if needed, and the server does not start if that fails; `auto` uses a namespace only with \
         `CAP_SYS_ADMIN`.",
        |node, draft: &mut ConfigDraft, scope| {
            let name = node.as_one_of(ProcessNamespace::NAMES, scope.problems);
            draft.servers.process_namespace = name.and_then(ProcessNamespace::named);
        },
    )
    .default("\"off\""),
    Key::new(
        "newServers",
        Kind::OneOf(NewServers::NAMES),
        "How Pegboard treats a server that it sees for the first time. `approve` approves the tools that it offers \
         then. `hold` holds them until they are approved with `pegboard approve`, whether `pinning` is `warn` or \
         `hold`; without a usable `stateFolder` it is an error. A server with another name and the same program and \
         arguments, or the same address, is not new: the approvals of the other name apply.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.servers.new_servers = node.as_one_of(NewServers::NAMES, scope.problems).and_then(NewServers::named);
        },
    )
    .default("\"approve\""),
    Key::new(
        "lint",
        Kind::Object(|| LINT.shape()),
        "Rules and limits of `pegboard lint`.",
        |node, draft: &mut ConfigDraft, scope| LINT.read(node, &mut draft.config.lint, scope),
    ),
    Key::new(
        "offload",
        offload::KIND,
        "Replace tool results that are too long for a context by references, which the client reads in parts with the \
         tool `read_result`. `true` uses the defaults.",
        |node, draft: &mut ConfigDraft, scope| draft.config.gateway.offload = offload::read(node, scope),
    )
    .default("false"),
    Key::new(
        "console",
        console::KIND,
        "The web console, and its stored data.",
        |node, draft: &mut ConfigDraft, scope| {
            let console = console::read(node, scope);
            draft.config.listen.has_console = console.is_served;
            draft.config.gateway.console = console.settings;
        },
    ),
    Key::new(
        "usageLearning",
        usage::KIND,
        "Learn from usage: a tool that was called after a search ranks higher for similar queries of the same caller. \
         Works with the rankers `hybrid` and `lexical`, and needs a `stateFolder`.",
        |node, draft: &mut ConfigDraft, scope| draft.config.usage = usage::read(node, scope),
    )
    .default("false"),
    Key::new(
        "telemetry",
        Kind::Object(telemetry::shape),
        "Export of traces and metrics.",
        |node, draft: &mut ConfigDraft, scope| telemetry::SECTION.read(node, &mut draft.config.telemetry, scope),
    ),
    Key::new(
        "embeddings",
        Kind::Object(embeddings::shape),
        "External embeddings endpoint for the `hybrid` ranker.",
        |node, draft: &mut ConfigDraft, scope| draft.config.embeddings = embeddings::read(node, scope),
    ),
    Key::new(
        "proxy",
        Kind::Object(proxy::shape),
        "The LLM API proxy (`pegboard proxy`).",
        |node, draft: &mut ConfigDraft, scope| proxy::SECTION.read(node, &mut draft.config.proxy, scope),
    ),
    Key::new(
        "maxConcurrentStarts",
        Kind::Count { least: 1 },
        "Maximum number of servers that start as child processes at the same time. The others wait for their turn; \
         `connectTimeout` counts from the start of each, and a server that a call waits for starts at once. The \
         default is two for each processor core. Applies when the gateway starts.",
        |node, draft: &mut ConfigDraft, scope| {
            draft.config.gateway.max_starts = node.as_count_from(1, scope.problems);
        },
    ),
    Key::new(
        "startupWait",
        TIME,
        "How long the first list request of a client waits for starting servers that have no cached lists.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.gateway.startup_wait, node.as_duration(true, scope.problems));
        },
    )
    .default("\"10s\""),
    Key::new(
        "shutdownDeadline",
        TIME,
        "How long the gateway waits for running requests when it is stopped.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.listen.shutdown_deadline, node.as_duration(true, scope.problems));
        },
    )
    .default("\"5s\""),
    Key::new(
        "maxSessions",
        Kind::Count { least: 1 },
        "Maximum number of sessions; the least recently used one is evicted.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.gateway.max_sessions, node.as_count_from(1, scope.problems));
        },
    )
    .default("1000"),
    Key::new(
        "sessionIdle",
        Kind::Duration { may_be_zero: false },
        "How long an unused session is kept in memory.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.gateway.session_idle, node.as_duration(false, scope.problems));
        },
    )
    .default("\"30m\""),
    Key::new(
        "sessionKeep",
        TIME,
        "How long a client can resume its session with the tools that it had loaded, also after a restart of the \
         gateway. Sessions are saved in the state folder; without one, they last for `sessionIdle`.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.gateway.session_keep, node.as_duration(true, scope.problems));
        },
    )
    .default("\"24h\""),
    Key::new(
        "pageSize",
        COUNT,
        "Maximum number of items per page of a list; 0 sends all items at once.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.gateway.page_size, node.as_count(scope.problems));
        },
    )
    .default("0"),
    Key::new(
        "maxBodyBytes",
        Kind::Count { least: 1 },
        "Maximum size of a request in bytes.",
        |node, draft: &mut ConfigDraft, scope| {
            set(&mut draft.config.listen.max_body_bytes, node.as_count_from(1, scope.problems));
        },
    )
    .default("4194304"),
];

fn read_profile(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<Profile> {
    let name = node.as_one_of(PROFILES, scope.problems)?;
    let dialect = DialectName::ALL.into_iter().find(|dialect| dialect.as_str() == name);
    Some(dialect.map_or(Profile::Passthrough, Profile::Dialect))
}

fn read_texts(node: &Node<'_>, scope: &mut Scope<'_>) -> Vec<String> {
    node.as_texts(scope.problems).unwrap_or_default().into_iter().map(str::to_owned).collect()
}

fn is_separator(text: &str) -> bool {
    (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Returns whether a text is a host, a colon and a port, or a port; whether the host exists is
/// checked later.
pub(in crate::config) fn is_address(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
    let has_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    has_port && !host.is_empty() && !host.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ranker_and_dialect_has_its_name() {
        let rankers: Vec<&str> = RANKERS.to_vec();
        let known: Vec<String> = RankerName::value_variants()
            .iter()
            .filter_map(|ranker| ranker.to_possible_value())
            .map(|value| value.get_name().to_owned())
            .collect();
        assert_eq!(rankers, known);
        let dialects: Vec<&str> = DialectName::ALL.iter().map(|dialect| dialect.as_str()).collect();
        assert_eq!(PROFILES.split_last(), Some((&"passthrough", &dialects[..])));
    }
}
