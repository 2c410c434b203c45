//! The types of middleware and the keys of their `config`.

use pegboard_config::{
    document::{Node, Problems},
    keys::{Key, Kind, Scope, Section},
};
use pegboard_discovery::{
    Settings,
    policy::{CallLevel, Middleware, NamePattern, SecurityRule},
};
use regex::RegexBuilder;

use super::options::set_option;

/// The `config` of a `tool_search`.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) settings: Settings,
    pub(super) is_logged: bool,
    pub(super) has_threshold: bool,
    /// Whether it is disabled in its own `config`.
    pub(super) is_off: bool,
}

pub(super) static TOOL_SEARCH: Section<Search> = Section::new(
    "tool_search",
    "Lists some of the tools and a search tool for the others: clients get the dialect `gateway` unless \
     `pegboard.dialect` is set. Only allowed in the general list.",
    &[
        Key::new("enabled", Kind::Flag, "Same as `enabled` of the step.", |node, search: &mut Search, scope| {
            search.is_off = node.as_bool(scope.problems) == Some(false);
        })
        .default("true"),
        Key::new(
            "maxToolsLimit",
            Kind::Count { least: 0 },
            "Number of listed tools. With 0, or with fewer tools than this, all tools are listed without a search.",
            set_search,
        )
        .default("50"),
        Key::new(
            "searchThreshold",
            Kind::Share,
            "Minimum score of a hit, as a share of the best hit's score.",
            |node, search: &mut Search, scope| {
                search.has_threshold = true;
                set_search(node, search, scope);
            },
        )
        .default("0.1"),
        Key::new(
            "toolSelectionOrder",
            Kind::List(&Kind::OneOf(&["server_priority", "alphabetical", "random"])),
            "Order that decides which tools are listed before the first search; the first entry is the primary order, \
             the others break ties.",
            set_search,
        )
        .default("[\"server_priority\", \"alphabetical\"]"),
        Key::new(
            "exposed",
            Kind::OneOf(&["replace", "accumulate"]),
            "Whether the hits of a search replace the tools listed before, or are added to them.",
            set_search,
        )
        .default("\"replace\""),
        Key::new("seed", Kind::Count { least: 0 }, "Seed of the order `random`.", set_search).default("0"),
        Key::new(
            "debug",
            Kind::Flag,
            "Logs every search with its query, sizes and duration.",
            |node, search: &mut Search, scope| {
                search.is_logged = node.as_bool(scope.problems).unwrap_or_default();
            },
        )
        .default("false"),
    ],
);

fn set_search(node: &Node<'_>, search: &mut Search, scope: &mut Scope<'_>) {
    set_option(node, &mut search.settings, scope);
}

/// The `config` of a `tool_filter`.
#[derive(Debug, Default)]
pub(super) struct Filter {
    allow: Vec<NamePattern>,
    deny: Vec<NamePattern>,
}

const PATTERNS: Kind = Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]);

const SOME_PATTERNS: Kind = Kind::Either(&[Kind::Text, Kind::Names]);

pub(super) static TOOL_FILTER: Section<Filter> = Section::new(
    "tool_filter",
    "Hides tools and rejects calls to them. A pattern is a regular expression, or a name in which `*` matches any \
     text and `?` any character.",
    &[
        Key::new(
            "allow",
            SOME_PATTERNS,
            "Show only tools that match one of these patterns.",
            |node, filter: &mut Filter, scope| {
                if node.is_list() && node.as_non_empty_texts(&mut Problems::new()).is_none() {
                    return node.must_be(SOME_PATTERNS, scope.problems);
                }
                read_patterns(node, &mut filter.allow, scope.problems);
            },
        ),
        Key::new(
            "deny",
            PATTERNS,
            "Hide tools that match one of these patterns.",
            |node, filter: &mut Filter, scope| {
                read_patterns(node, &mut filter.deny, scope.problems);
            },
        ),
        Key::new("disallow", PATTERNS, "Same as `deny`.", |node, filter: &mut Filter, scope| {
            read_patterns(node, &mut filter.deny, scope.problems);
        }),
    ],
);

fn read_patterns(node: &Node<'_>, patterns: &mut Vec<NamePattern>, problems: &mut Problems) {
    for (item, text) in node.as_text_or_texts(problems).unwrap_or_default() {
        match NamePattern::new(text) {
            Ok(pattern) => patterns.push(pattern),
            // Only the place is reported; a pattern can be as long as the file.
            Err(error) => problems.push(item.problem(error.to_string().replacen(&format!("`{text}` "), "", 1))),
        }
    }
}

/// The `config` of a `logging`.
#[derive(Debug, Default)]
pub(super) struct Logging {
    has_arguments: bool,
    level: CallLevel,
}

/// The names of [`CallLevel`].
const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error"];

pub(super) static LOGGING: Section<Logging> = Section::new(
    "logging",
    "Logs every call.",
    &[
        Key::new(
            "arguments",
            Kind::Flag,
            "Also logs arguments, which may contain secrets.",
            |node, logging: &mut Logging, scope| {
                logging.has_arguments = node.as_bool(scope.problems).unwrap_or_default();
            },
        )
        .default("false"),
        Key::new(
            "level",
            Kind::OneOf(LEVELS),
            "Log level of successful calls. Failed calls are logged at `warn` or above.",
            |node, logging: &mut Logging, scope| {
                logging.level = match node.as_one_of(LEVELS, scope.problems) {
                    Some("trace") => CallLevel::Trace,
                    Some("debug") => CallLevel::Debug,
                    Some("warn") => CallLevel::Warn,
                    Some("error") => CallLevel::Error,
                    _ => CallLevel::Info,
                };
            },
        )
        .default("\"info\""),
    ],
);

/// The `config` of a `security`.
#[derive(Debug)]
pub(super) struct Security {
    rules: Vec<SecurityRule>,
    is_logged: bool,
}

impl Default for Security {
    fn default() -> Self {
        Self { rules: Vec::new(), is_logged: true }
    }
}

pub(super) static SECURITY: Section<Security> = Section {
    required: &["rules"],
    ..Section::new(
        "security",
        "Rejects calls that match a rule.",
        &[
            Key::new(
                "rules",
                Kind::List(&Kind::Object(|| RULE.shape())),
                "Rules in the order of evaluation; the first match rejects the call.",
                |node, security: &mut Security, scope| {
                    let rules = node.as_list(scope.problems).unwrap_or_default();
                    security.rules =
                        rules.iter().enumerate().filter_map(|(at, rule)| read_rule(at, rule, scope)).collect();
                },
            ),
            Key::new(
                "log_blocked",
                Kind::Flag,
                "Logs rejected calls, with the rule but without the arguments.",
                |node, security: &mut Security, scope| {
                    security.is_logged = node.as_bool(scope.problems).unwrap_or(true);
                },
            )
            .default("true"),
        ],
    )
};

/// Maximum compiled size of a pattern.
const MAX_PATTERN: usize = 1 << 20;

/// A rule of a `security`.
#[derive(Debug, Default)]
struct Rule {
    name: Option<String>,
    pattern: Option<regex::Regex>,
    message: Option<String>,
    is_off: bool,
}

static RULE: Section<Rule> = Section {
    required: &["pattern"],
    ..Section::new(
        "rule",
        "A pattern of calls to reject.",
        &[
            Key::new("name", Kind::Word, "Name of the rule in logs.", |node, rule: &mut Rule, scope| {
                rule.name = node.as_non_blank(scope.problems).map(str::to_owned);
            }),
            Key::new(
                "pattern",
                Kind::Word,
                "Regular expression, matched against `tool_name:NAME args:JSON`.",
                read_pattern,
            ),
            Key::new("message", Kind::Text, "Error message for the caller.", read_message),
            Key::new("block_message", Kind::Text, "Same as `message`.", read_message),
            Key::new("enabled", Kind::Flag, "Whether the rule applies.", |node, rule: &mut Rule, scope| {
                rule.is_off = node.as_bool(scope.problems) == Some(false);
            })
            .default("true"),
            Key::new("description", Kind::Text, "Comment; not used by Pegboard.", |node, _, scope| {
                node.as_text(scope.problems);
            }),
        ],
    )
};

fn read_rule(at: usize, node: &Node<'_>, scope: &mut Scope<'_>) -> Option<SecurityRule> {
    let mut rule = Rule::default();
    RULE.read(node, &mut rule, scope);
    let name = rule.name.unwrap_or_else(|| format!("rule {}", at + 1));
    let message = rule.message.unwrap_or_else(|| format!("this call is not allowed ({name})"));
    let pattern = rule.pattern.filter(|_| !rule.is_off)?;
    Some(SecurityRule { pattern, name, message })
}

fn read_pattern(node: &Node<'_>, rule: &mut Rule, scope: &mut Scope<'_>) {
    let Some(text) = node.as_non_blank(scope.problems) else { return };
    match RegexBuilder::new(text).size_limit(MAX_PATTERN).build() {
        Ok(pattern) => rule.pattern = Some(pattern),
        Err(error) => {
            // The last line says what is wrong; those before quote the pattern.
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            scope.problems.push(node.problem(format!("is not a regular expression: {reason}")));
        }
    }
}

fn read_message(node: &Node<'_>, rule: &mut Rule, scope: &mut Scope<'_>) {
    rule.message = node.as_text(scope.problems).map(str::to_owned);
}

/// The `config` of a `description_enricher`.
#[derive(Debug, Default)]
pub(super) struct Enricher {
    prefix: Option<String>,
    suffix: Option<String>,
}

pub(super) static DESCRIPTION_ENRICHER: Section<Enricher> = Section::new(
    "description_enricher",
    "Adds text to the descriptions of tools; without any key, appends ` (via pegboard)`.",
    &[
        Key::new("prefix", Kind::Text, "Text before the description.", |node, enricher: &mut Enricher, scope| {
            enricher.prefix = node.as_text(scope.problems).map(str::to_owned);
        }),
        Key::new("suffix", Kind::Text, "Text after the description.", |node, enricher: &mut Enricher, scope| {
            enricher.suffix = node.as_text(scope.problems).map(str::to_owned);
        }),
    ],
);

impl From<Filter> for Middleware {
    fn from(Filter { allow, deny }: Filter) -> Self {
        Self::ToolFilter { allow, deny }
    }
}

impl From<Logging> for Middleware {
    fn from(Logging { has_arguments, level }: Logging) -> Self {
        Self::Logging { has_arguments, level }
    }
}

impl From<Security> for Middleware {
    fn from(Security { rules, is_logged }: Security) -> Self {
        Self::Security { rules, is_logged }
    }
}

impl From<Enricher> for Middleware {
    fn from(Enricher { prefix, suffix }: Enricher) -> Self {
        let (prefix, suffix) = match (prefix, suffix) {
            (None, None) => (String::new(), " (via pegboard)".to_owned()),
            (prefix, suffix) => (prefix.unwrap_or_default(), suffix.unwrap_or_default()),
        };
        Self::DescriptionEnricher { prefix, suffix }
    }
}
