//! `proxy`: the LLM API proxy.

use std::collections::BTreeSet;

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape, set},
    web::{URL, read_url},
};
use pegboard_core::Secret;
use pegboard_proxy::{ClientToken, Mode, ModeRule, Route, Settings};

use super::{
    access::{SECRET, expand_secret},
    gateway::{ADDRESS, is_address},
};

/// The settings of `pegboard proxy`, and of the routes on the gateway's listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProxyConfig {
    /// Whether `pegboard serve` serves the routes too.
    pub(crate) on_gateway: bool,
    /// Host and port of `pegboard proxy`; a flag takes precedence.
    pub(crate) address: Option<String>,
    /// The settings of the proxy.
    pub(crate) settings: Settings,
}

const ROUTES: &[&str] = &Route::NAMES;
const MODES: &[&str] = &Mode::NAMES;
const COUNT: Kind = Kind::Count { least: 0 };

pub(super) fn shape() -> Shape {
    SECTION.shape()
}

pub(super) static SECTION: Section<ProxyConfig> = Section::new(
    "proxy",
    "The LLM API proxy: programs use it as the base URL of their provider, and their tools are deferred on the way.",
    &[
        Key::new(
            "onGateway",
            Kind::Flag,
            "Serves the routes of the proxy on the listener of `pegboard serve` too. Outside loopback, `tokens` are \
             required.",
            |node, proxy: &mut ProxyConfig, scope| {
                proxy.on_gateway = node.as_bool(scope.problems).unwrap_or_default();
            },
        )
        .default("false"),
        Key::new("listen", ADDRESS, "Listen address of `pegboard proxy`.", |node, proxy: &mut ProxyConfig, scope| {
            match node.as_text(scope.problems) {
                Some(text) if is_address(text) => proxy.address = Some(text.to_owned()),
                Some(_) => node.must_be(ADDRESS, scope.problems),
                None => {}
            }
        })
        .default("\"127.0.0.1:8090\""),
        Key::new(
            "upstreams",
            Kind::Object(|| UPSTREAMS.shape()),
            "Base URLs of the providers, in the form of their own base-URL variables.",
            |node, proxy: &mut ProxyConfig, scope| UPSTREAMS.read(node, &mut proxy.settings, scope),
        ),
        Key::new(
            "tokens",
            Kind::List(&Kind::Object(|| TOKEN.shape())),
            "Clients that may use the proxy. If any is configured, every request needs a token. Clients send it as \
             `x-pegboard-token`, or in the path: `/token/TOKEN/openai/v1`.",
            |node, proxy: &mut ProxyConfig, scope| read_tokens(node, &mut proxy.settings.access.tokens, scope),
        )
        .default("[]"),
        Key::new("mode", Kind::OneOf(MODES), MODE_HELP, |node, proxy: &mut ProxyConfig, scope| {
            set(&mut proxy.settings.modes.default, read_mode(node, scope));
        })
        .default("\"defer\""),
        Key::new(
            "rules",
            Kind::List(&Kind::Object(|| RULE.shape())),
            "Modes of certain requests; the first rule that matches decides.",
            |node, proxy: &mut ProxyConfig, scope| {
                for item in node.as_list(scope.problems).unwrap_or_default() {
                    let mut rule = ModeRule::default();
                    RULE.read(&item, &mut rule, scope);
                    proxy.settings.modes.rules.push(rule);
                }
            },
        )
        .default("[]"),
        Key::new(
            "maxTools",
            COUNT,
            "Requests with fewer tools pass through, unless they reach `maxTokens`.",
            |node, proxy: &mut ProxyConfig, scope| {
                set(&mut proxy.settings.modes.max_tools, node.as_count(scope.problems));
            },
        )
        .default("30"),
        Key::new(
            "maxTokens",
            COUNT,
            "Requests whose tool definitions have fewer tokens (estimated) pass through, unless they reach `maxTools`.",
            |node, proxy: &mut ProxyConfig, scope| {
                set(&mut proxy.settings.modes.max_tokens, node.as_count(scope.problems));
            },
        )
        .default("10000"),
        Key::new(
            "pinned",
            Kind::List(&Kind::Text),
            "Names of tools that are always declared.",
            |node, proxy: &mut ProxyConfig, scope| {
                let names = node.as_texts(scope.problems).unwrap_or_default();
                proxy.settings.modes.pinned = names.into_iter().map(str::to_owned).collect();
            },
        )
        .default("[]"),
        Key::new(
            "maxHiddenRounds",
            Kind::Count { least: 1 },
            "Rounds in which a model may search in one turn before it must answer.",
            |node, proxy: &mut ProxyConfig, scope| {
                set(&mut proxy.settings.max_hidden_rounds, node.as_count_from(1, scope.problems));
            },
        )
        .default("8"),
        Key::new(
            "maxBodyBytes",
            Kind::Count { least: 1 },
            "Maximum size of a request.",
            |node, proxy: &mut ProxyConfig, scope| {
                set(&mut proxy.settings.max_body_bytes, node.as_count_from(1, scope.problems));
            },
        )
        .default("33554432"),
        Key::new(
            "lifetime",
            Kind::Duration { may_be_zero: false },
            "How long the searches of a conversation are kept after its last request.",
            |node, proxy: &mut ProxyConfig, scope| {
                set(&mut proxy.settings.lifetime, node.as_duration(false, scope.problems));
            },
        )
        .default("\"7d\""),
    ],
);

const MODE_HELP: &str = "How tools are sent to the provider. `defer` gives the model a search, `prefetch` finds the \
                         likely tools before the model is asked, `pass` sends the request as it is; earlier searches of \
                         the conversation are restored.";

static UPSTREAMS: Section<Settings> = Section::new(
    "proxyUpstreams",
    "Base URLs of providers.",
    &[
        Key::new("anthropic", URL, "Like `ANTHROPIC_BASE_URL`, without `/v1`.", |node, settings, scope| {
            set_upstream(Route::Anthropic, node, settings, scope);
        })
        .default("\"https://api.anthropic.com\""),
        Key::new("openai", URL, "Like `OPENAI_BASE_URL`, with `/v1`.", |node, settings, scope| {
            set_upstream(Route::OpenAi, node, settings, scope);
        })
        .default("\"https://api.openai.com/v1\""),
        Key::new("gemini", URL, "Like `GOOGLE_GEMINI_BASE_URL`, without a version.", |node, settings, scope| {
            set_upstream(Route::Gemini, node, settings, scope);
        })
        .default("\"https://generativelanguage.googleapis.com\""),
    ],
);

fn set_upstream(route: Route, node: &Node<'_>, settings: &mut Settings, scope: &mut Scope<'_>) {
    if let Some(url) = read_url(node, scope) {
        settings.upstreams.set(route, &url.text);
    }
}

static RULE: Section<ModeRule> = Section {
    required: &["mode"],
    ..Section::new(
        "proxyRule",
        "The mode of requests that match all conditions.",
        &[
            Key::new("route", Kind::OneOf(ROUTES), "Route of the request.", |node, rule: &mut ModeRule, scope| {
                rule.route = node.as_one_of(ROUTES, scope.problems).and_then(Route::from_name);
            }),
            Key::new("model", Kind::Word, "Model; `*` stands for any text.", |node, rule, scope| {
                rule.model = node.as_non_blank(scope.problems).map(str::to_owned);
            }),
            Key::new(
                "client",
                Kind::Word,
                "Name of the client's token, or first word of its `User-Agent`; `*` stands for any text.",
                |node, rule, scope| rule.client = node.as_non_blank(scope.problems).map(str::to_owned),
            ),
            Key::new("mode", Kind::OneOf(MODES), MODE_HELP, |node, rule, scope| {
                set(&mut rule.mode, read_mode(node, scope));
            }),
        ],
    )
};

fn read_mode(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<Mode> {
    node.as_one_of(MODES, scope.problems).and_then(|name| name.parse().ok())
}

/// A token while it is read.
#[derive(Debug, Default)]
struct TokenDraft {
    name: String,
    token: String,
}

static TOKEN: Section<TokenDraft> = Section {
    required: &["name", "token"],
    ..Section::new(
        "proxyToken",
        "A client of the proxy.",
        &[
            Key::new("name", Kind::Word, "Name of the client in rules.", |node, token: &mut TokenDraft, scope| {
                token.name = node.as_non_blank(scope.problems).unwrap_or_default().to_owned();
            }),
            Key::new(
                "token",
                SECRET,
                "Token of the client. Prefer a variable, `${NAME}`, to the secret itself.",
                |node, token: &mut TokenDraft, scope| {
                    token.token = expand_secret(node, scope).unwrap_or_default();
                },
            ),
        ],
    )
};

fn read_tokens(node: &Node<'_>, tokens: &mut Vec<ClientToken>, scope: &mut Scope<'_>) {
    let mut seen = BTreeSet::new();
    for item in node.as_list(scope.problems).unwrap_or_default() {
        let mut draft = TokenDraft::default();
        TOKEN.read(&item, &mut draft, scope);
        if draft.token.is_empty() {
            continue;
        }
        if draft.token.contains(['/', '?', '#', '%']) {
            let problem = item.problem("has a token that cannot be part of a path");
            scope.problems.push(problem.hint("use letters and digits; `openssl rand -hex 32` makes one"));
        }
        if !seen.insert(draft.name.clone()) || !seen.insert(draft.token.clone()) {
            scope.problems.push(item.problem("has the same name or token as another entry"));
        }
        tokens.push(ClientToken { name: draft.name, token: Secret::new(draft.token) });
    }
}
