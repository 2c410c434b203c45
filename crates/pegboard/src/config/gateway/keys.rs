//! The keys of the `pegboard` section.

use clap::ValueEnum;
use pegboard_discovery::DialectName;
use pegboard_gateway::{ClientProfile, Prefixes, Profile};
use pegboard_llm::Delivery;
use pegboard_upstream::config::{
    NewServers, Pinning, ProcessNamespace, breaker,
    document::Node,
    inherit,
    keys::{Key, Kind, Scope, set},
    variables::expand,
};

use super::{
    super::{
        access::{SELECTION, TOKEN, read_tokens, selection_shape},
        connections, embeddings, limits,
        lint::LINT,
        options::OPTIONS,
        state::StateFolder,
        telemetry, usage,
    },
    Draft, exposure,
};
use crate::rankers::RankerName;

const RANKERS: &[&str] = &["hybrid", "regex", "bm25", "keyword", "sequence", "hinted", "lexical"];

const PROFILES: &[&str] = &["explicit", "gateway", "select", "ranked", "schema", "bridge", "passthrough"];

const DELIVERIES: &[&str] = &["inject", "reference", "native", "client-native", "constant"];

const PREFIXES: &[&str] = &["auto", "always", "never"];

const TEXTS: Kind = Kind::List(&Kind::Text);

pub(super) const COUNT: Kind = Kind::Count { least: 0 };

const TIME: Kind = Kind::Duration { may_be_zero: true };

const ADDRESS: Kind = Kind::Shaped {
    pattern: r"^(\S+:)?[0-9]{1,5}$",
    fits: "a host and a port, such as `127.0.0.1:8080`, or a port alone",
};

const SEPARATOR: Kind =
    Kind::Shaped { pattern: "^[A-Za-z0-9_-]{1,8}$", fits: "one to eight letters, digits, `_` or `-`" };

pub(super) const KEYS: &[Key<Draft>] = &[
    Key::new(
        "catalogs",
        TEXTS,
        "Catalog files whose tools are searched, relative to this file.",
        |node, draft: &mut Draft, scope| {
            let files = node.as_texts(scope.problems).unwrap_or_default();
            draft.config.catalogs = files.into_iter().map(Into::into).collect();
        },
    )
    .default("[]"),
    Key::new(
        "ranker",
        Kind::OneOf(RANKERS),
        "How to rank, in place of `hybrid` on the command line and of each dialect's own way.",
        |node, draft, scope| {
            let name = node.as_one_of(RANKERS, scope.problems);
            draft.config.ranker = name.and_then(|name| RankerName::from_str(name, false).ok());
        },
    ),
    Key::new(
        "model",
        Kind::Text,
        "A model file that `hybrid` ranks with instead of the model that is built in, relative to this file. A running \
         gateway takes over another one at the same place; `pegboard agent` with its next start.",
        |node, draft, scope| draft.config.model = node.as_text(scope.problems).map(Into::into),
    ),
    Key::new(
        "limit",
        Kind::Count { least: 1 },
        "Hits of a search on the command line; 10 unless something else is said.",
        |node, draft, scope| {
            draft.config.limit = node.as_count_from(1, scope.problems);
        },
    ),
    Key::new(
        "dialect",
        Kind::OneOf(PROFILES),
        "The family of meta-tools that clients get, in every conversation unless `exposure` says otherwise; \
         `passthrough` shows all tools as they are. Without it clients get `bridge` once there are many tools, or \
         `gateway` if there is a `tool_search`.",
        |node, draft, scope| draft.profile = read_profile(node, scope),
    ),
    Key::new(
        "exposure",
        exposure::KIND,
        "When tools are hidden behind a search: `always`, `never`, or by number and size. `auto` is \
         `{\"maxTools\": 30, \"maxTokens\": 10000}`.",
        |node, draft, scope| draft.exposure = Some(exposure::read(node, scope)),
    ),
    Key::new(
        "preDiscovered",
        Kind::List(&Kind::Text),
        "Tools that are visible from the start, in gateway and agent, by any spelling of their names.",
        |node, draft: &mut Draft, scope| {
            draft.config.gateway.pre_discovered = read_texts(node, scope);
        },
    )
    .default("[]"),
    Key::new(
        "promptCategories",
        Kind::List(&Kind::Text),
        "What the prompt says there is to search for, in gateway and agent, instead of what the servers tell.",
        |node, draft: &mut Draft, scope| {
            draft.config.gateway.prompt_categories = read_texts(node, scope);
        },
    )
    .default("[]"),
    Key::new(
        "delivery",
        Kind::OneOf(DELIVERIES),
        "How `pegboard agent` tells the model of tools that were found, in place of the best way that the model knows.",
        |node, draft, scope| {
            let name = node.as_one_of(DELIVERIES, scope.problems);
            draft.config.delivery = Delivery::ALL.into_iter().find(|delivery| Some(delivery.as_str()) == name);
        },
    ),
    Key::new(
        "selection",
        Kind::Object(selection_shape),
        "Which servers and tools exist at all.",
        |node, draft, scope| {
            SELECTION.read(node, &mut draft.config.gateway.selection, scope);
        },
    ),
    Key::new(
        "clients",
        Kind::Map(&Kind::OneOf(PROFILES)),
        "What certain clients get, by the name they give themselves; `*` stands for any text, and the first entry \
         that fits counts.",
        |node, draft: &mut Draft, scope| {
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
        "What stands between a server's name and a tool's.",
        |node, draft: &mut Draft, scope| match node.as_text(scope.problems) {
            Some(text) if is_separator(text) => draft.config.gateway.names.separator = text.to_owned(),
            Some(_) => node.must_be(SEPARATOR, scope.problems),
            None => {}
        },
    )
    .default("\"___\""),
    Key::new(
        "prefix",
        Kind::OneOf(PREFIXES),
        "When names carry their server in front; `auto` means with more than one server.",
        |node, draft: &mut Draft, scope| {
            draft.config.gateway.prefixes = match node.as_one_of(PREFIXES, scope.problems) {
                Some("always") => Prefixes::Always,
                Some("never") => Prefixes::Never,
                _ => Prefixes::Auto,
            };
        },
    )
    .default("\"auto\""),
    Key::new(
        "listen",
        ADDRESS,
        "Where the gateway listens; 127.0.0.1:8080 unless something else is said.",
        |node, draft, scope| match node.as_text(scope.problems) {
            Some(text) if is_address(text) => draft.config.listen.address = Some(text.to_owned()),
            Some(_) => node.must_be(ADDRESS, scope.problems),
            None => {}
        },
    ),
    Key::new(
        "allowedHosts",
        TEXTS,
        "Names under which the gateway may be addressed (`Host`). Without it those of the loopback, or any on a \
         public address.",
        |node, draft: &mut Draft, scope| draft.config.listen.allowed_hosts = read_texts(node, scope),
    )
    .default("[]"),
    Key::new(
        "allowedOrigins",
        TEXTS,
        "Web pages that may talk to the gateway (`Origin`), beside those of the loopback.",
        |node, draft: &mut Draft, scope| draft.config.listen.allowed_origins = read_texts(node, scope),
    )
    .default("[]"),
    Key::new(
        "trustedProxies",
        connections::NETWORKS,
        "Reverse proxies in front of the gateway, as addresses or ranges such as `10.0.0.0/8`. Their \
         `X-Forwarded-For` header decides which address a client counts as; from anyone else it is ignored.",
        |node, draft: &mut Draft, scope| {
            draft.config.listen.trusted_proxies = connections::read_proxies(node, scope);
        },
    )
    .default("[]"),
    Key::new(
        "connections",
        connections::KIND,
        "How many connections, requests and event streams there may be at a time.",
        |node, draft: &mut Draft, scope| connections::read(node, &mut draft.config, scope),
    ),
    Key::new(
        "allowPublic",
        Kind::Flag,
        "Whether an address that other machines can reach is fine without tokens.",
        |node, draft: &mut Draft, scope| set(&mut draft.config.listen.allow_public, node.as_bool(scope.problems)),
    )
    .default("false"),
    Key::new(
        "tokens",
        Kind::List(&Kind::Object(|| TOKEN.shape())),
        "Who may use the gateway; everybody who can reach it if there are none.",
        |node, draft: &mut Draft, scope| read_tokens(node, &mut draft.config.gateway.tokens, scope),
    )
    .default("[]"),
    Key::new(
        "limits",
        limits::KIND,
        "What each caller may ask of servers, so that one cannot take it all, unless a token says otherwise.",
        |node, draft: &mut Draft, scope| draft.config.gateway.limits = limits::read_limits(node, scope),
    ),
    Key::new(
        "validateArguments",
        Kind::Flag,
        "Whether the arguments of a call must fit the tool's schema. One that does not is answered with what is \
         wrong and with the schema, and its server is not called. What a schema says that is not understood here \
         forbids nothing. A server's own `validateArguments` counts more.",
        |node, draft: &mut Draft, scope| draft.validation.is_on = node.as_bool(scope.problems),
    )
    .default("true"),
    Key::new(
        "stateFolder",
        Kind::Word,
        "Where it is kept what servers offer, so that clients are answered before they run, and which tools were \
         approved; `none` keeps nothing. \
         A relative path starts from the folder of the configuration file. Without it, `pegboard` in \
         `XDG_STATE_HOME` or `~/.local/state`, on macOS in `~/Library/Application Support`, on Windows in \
         `LOCALAPPDATA`.",
        |node, draft: &mut Draft, scope| {
            let Some(text) = node.as_word(scope.problems) else { return };
            draft.config.state = StateFolder::named(&expand(node, text, scope).text);
        },
    ),
    Key::new(
        "lazy",
        Kind::Flag,
        "Whether servers start only when something of them is called, unless their own `lazy` says otherwise.",
        |node, draft: &mut Draft, scope| draft.servers.lazy = node.as_bool(scope.problems),
    )
    .default("false"),
    Key::new(
        "inheritEnv",
        inherit::KIND,
        "Variables of Pegboard that every server inherits beyond the short list (`PATH`, `HOME`, locale, proxies, \
         certificates and the like; for package runners also their own settings): names, patterns such as `GITHUB_*`, \
         or `true` for all. A server's own `pegboard.inheritEnv` adds to it. Variables that supply `tokens` are never \
         inherited.",
        |node, draft: &mut Draft, scope| draft.servers.inherit_env = inherit::read_inherit_env(node, scope),
    )
    .default("[]"),
    Key::new(
        "allowPrivateIssuers",
        Kind::Flag,
        "Whether endpoints that remote servers name for logins (OAuth) may be at private, link-local or loopback \
         addresses although the server itself is not. Without it they must be public, or on the same kind of network \
         as the server. A server's own `pegboard.allowPrivateIssuers` takes precedence.",
        |node, draft: &mut Draft, scope| draft.servers.allow_private_issuers = node.as_bool(scope.problems),
    )
    .default("false"),
    Key::new(
        "circuitBreaker",
        breaker::KIND,
        "When calls of a server are refused because it does not answer, unless its own `circuitBreaker` says \
         otherwise.",
        |node, draft: &mut Draft, scope| draft.servers.breaker = Some(breaker::read_breaker(node, scope)),
    ),
    Key::new(
        "pinning",
        Kind::OneOf(Pinning::NAMES),
        "How Pegboard treats tools whose definition is not approved: tools that changed, and new tools of a known \
         server. `warn` uses and reports them. `hold` neither shows nor calls them until they are approved with \
         `pegboard approve`; without a usable `stateFolder` it is an error. `off` does not compare. A server's own \
         `pinning` takes precedence.",
        |node, draft: &mut Draft, scope| {
            draft.servers.pinning = node.as_one_of(Pinning::NAMES, scope.problems).and_then(Pinning::named);
        },
    )
    .default("\"warn\""),
    Key::new(
        "processNamespace",
        Kind::OneOf(ProcessNamespace::NAMES),
        "Whether each server that is a child process runs in a process (PID) namespace on Linux, with a `/proc` of \
         its own: then everything it has started ends with it, even when Pegboard and the server's supervisor are \
         killed at once. Such a server sees its own processes only, and mounts that it makes stay its own. `on` \
         makes a user namespace where that is needed, and the server does not start where that fails; `auto` does \
         so only with `CAP_SYS_ADMIN`, and otherwise does without.",
        |node, draft: &mut Draft, scope| {
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
        |node, draft: &mut Draft, scope| {
            draft.servers.new_servers = node.as_one_of(NewServers::NAMES, scope.problems).and_then(NewServers::named);
        },
    )
    .default("\"approve\""),
    Key::new(
        "lint",
        Kind::Object(|| LINT.shape()),
        "What `pegboard lint` looks for, and how much it lets pass.",
        |node, draft: &mut Draft, scope| LINT.read(node, &mut draft.config.lint, scope),
    ),
    Key::new(
        "usageLearning",
        usage::KIND,
        "Whether it is learned from use: what was called after a search ranks higher for like queries of the same \
         caller, by rankers with scores of their own kind (`hybrid` and `lexical`). Needs a `stateFolder`.",
        |node, draft: &mut Draft, scope| draft.config.usage = usage::read(node, scope),
    )
    .default("false"),
    Key::new(
        "telemetry",
        Kind::Object(telemetry::shape),
        "Where traces and numbers go.",
        |node, draft: &mut Draft, scope| telemetry::SECTION.read(node, &mut draft.config.telemetry, scope),
    ),
    Key::new(
        "embeddings",
        Kind::Object(embeddings::shape),
        "Somebody else's model, whose vectors of tools and queries join the ranking of `hybrid`.",
        |node, draft: &mut Draft, scope| draft.config.embeddings = embeddings::read(node, scope),
    ),
    Key::new(
        "startupWait",
        TIME,
        "How long the first list of a client waits for servers that are starting and are not known from before.",
        |node, draft: &mut Draft, scope| {
            set(&mut draft.config.gateway.startup_wait, node.as_duration(true, scope.problems));
        },
    )
    .default("\"10s\""),
    Key::new(
        "shutdownDeadline",
        TIME,
        "How long requests may take to finish when the gateway is stopped.",
        |node, draft: &mut Draft, scope| {
            set(&mut draft.config.listen.shutdown_deadline, node.as_duration(true, scope.problems));
        },
    )
    .default("\"5s\""),
    Key::new(
        "maxSessions",
        Kind::Count { least: 1 },
        "Sessions at a time; the one that was used longest ago makes room.",
        |node, draft: &mut Draft, scope| {
            set(&mut draft.config.gateway.max_sessions, node.as_count_from(1, scope.problems));
        },
    )
    .default("1000"),
    Key::new(
        "sessionIdle",
        Kind::Duration { may_be_zero: false },
        "How long an unused session is kept in memory.",
        |node, draft: &mut Draft, scope| {
            set(&mut draft.config.gateway.session_idle, node.as_duration(false, scope.problems));
        },
    )
    .default("\"30m\""),
    Key::new(
        "sessionKeep",
        TIME,
        "How long a client that comes back with the name of its session finds what it had loaded, also after a \
         restart of the gateway. It is kept in the state folder; without one, for `sessionIdle`.",
        |node, draft: &mut Draft, scope| {
            set(&mut draft.config.gateway.session_keep, node.as_duration(true, scope.problems));
        },
    )
    .default("\"24h\""),
    Key::new(
        "pageSize",
        COUNT,
        "Items of a list that are sent at once; 0 sends everything.",
        |node, draft: &mut Draft, scope| {
            set(&mut draft.config.gateway.page_size, node.as_count(scope.problems));
        },
    )
    .default("0"),
    Key::new(
        "maxBodyBytes",
        Kind::Count { least: 1 },
        "Bytes that a request may have.",
        |node, draft: &mut Draft, scope| {
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

/// A host, a colon and a port, or a port; whether the host exists is found out later.
fn is_address(text: &str) -> bool {
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
