//! Policies for the tool lists and calls of a server, the same at every endpoint.

mod patterns;

pub use self::patterns::{NamePattern, PatternError};

use regex::Regex;
use serde_json::Value;

/// One policy step.
#[derive(Clone, Debug)]
pub enum Middleware {
    /// Hides tools, and refuses their calls.
    ToolFilter {
        /// Only these, if there are any.
        allow: Vec<NamePattern>,
        /// Never these.
        deny: Vec<NamePattern>,
    },
    /// Logs every call.
    Logging {
        /// Whether arguments are logged too.
        has_arguments: bool,
        /// The level of calls that succeed.
        level: CallLevel,
    },
    /// Refuses calls whose arguments look dangerous.
    Security {
        /// Tried in order; the first that fits refuses.
        rules: Vec<SecurityRule>,
        /// Whether refused calls are logged.
        is_logged: bool,
    },
    /// Adds to descriptions.
    DescriptionEnricher {
        /// Put in front.
        prefix: String,
        /// Put behind.
        suffix: String,
    },
}

/// The policy steps of all servers.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// Those of every server without a list of its own.
    pub general: Vec<Middleware>,
    /// Lists of single servers, in place of the general one.
    pub by_server: Vec<(String, Vec<Middleware>)>,
}

impl Policies {
    /// Returns the steps of a server.
    pub fn of(&self, server: &str) -> &[Middleware] {
        let own = self.by_server.iter().find(|(name, _)| name == server);
        own.map_or(&self.general, |(_, list)| list)
    }

    /// Returns whether a server's tool may be seen and called.
    pub fn shows(&self, server: &str, tool: &str) -> bool {
        self.of(server).iter().all(|step| step.shows(tool))
    }

    /// Returns the rule that forbids a call of a server's tool, if there is one.
    pub fn forbids(&self, server: &str, tool: &str, arguments: &Value) -> Option<Blocked<'_>> {
        self.of(server).iter().find_map(|step| step.forbids(tool, arguments))
    }

    /// Returns the enriched description of a server's tool; `None` if it is unchanged.
    pub fn enriched(&self, server: &str, description: &str) -> Option<String> {
        let steps = self.of(server);
        let is_enriched = steps.iter().any(|step| matches!(step, Middleware::DescriptionEnricher { .. }));
        is_enriched.then(|| steps.iter().fold(description.to_owned(), |text, step| step.enrich(text)))
    }
}

/// The level at which a call is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallLevel {
    /// `trace`.
    Trace,
    /// `debug`.
    Debug,
    /// `info`.
    #[default]
    Info,
    /// `warn`.
    Warn,
    /// `error`.
    Error,
}

/// A call that a rule rejects.
#[derive(Clone, Copy, Debug)]
pub struct Blocked<'a> {
    /// The rule.
    pub rule: &'a SecurityRule,
    /// Whether the refusal is logged.
    pub is_logged: bool,
}

/// A rule that rejects calls.
#[derive(Clone, Debug)]
pub struct SecurityRule {
    /// What logs call it.
    pub name: String,
    /// Matched against `tool_name:NAME args:JSON`.
    pub pattern: Regex,
    /// The message for the caller.
    pub message: String,
}

impl Middleware {
    /// Returns whether clients may see and call the tool with this name.
    pub fn shows(&self, tool: &str) -> bool {
        match self {
            Self::ToolFilter { allow, deny } => {
                let is_any = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(tool));
                (allow.is_empty() || is_any(allow)) && !is_any(deny)
            }
            _ => true,
        }
    }

    /// Returns the description for clients.
    fn enrich(&self, description: String) -> String {
        match self {
            Self::DescriptionEnricher { prefix, suffix } => format!("{prefix}{description}{suffix}"),
            _ => description,
        }
    }

    /// Returns the rule that forbids a call, if there is one.
    pub fn forbids(&self, tool: &str, arguments: &Value) -> Option<Blocked<'_>> {
        let Self::Security { rules, is_logged } = self else { return None };
        let text = format!("tool_name:{tool} args:{arguments}");
        let rule = rules.iter().find(|rule| rule.pattern.is_match(&text))?;
        Some(Blocked { rule, is_logged: *is_logged })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_apply_both_lists() {
        let pattern = |text: &str| NamePattern::new(text).expect("a pattern");
        let filter = Middleware::ToolFilter { allow: vec![pattern("*_file")], deny: vec![pattern("^delete_")] };
        assert!(filter.shows("read_file"));
        assert!(!filter.shows("delete_file"));
        assert!(!filter.shows("list"));
    }

    #[test]
    fn rules_see_name_and_arguments() {
        let rule = |name: &str, pattern: &str| SecurityRule {
            name: name.to_owned(),
            pattern: Regex::new(pattern).expect("a pattern"),
            message: "no".to_owned(),
        };
        let rules = vec![rule("a", "rm -rf"), rule("b", "tool_name:shell ")];
        let security = Middleware::Security { rules, is_logged: true };
        let forbidden = |tool, arguments| security.forbids(tool, &arguments).map(|blocked| blocked.rule.name.clone());
        assert_eq!(forbidden("run", json!({"command": "rm -rf /"})).as_deref(), Some("a"));
        assert_eq!(forbidden("shell", json!({})).as_deref(), Some("b"));
        assert_eq!(forbidden("run", json!({"command": "ls"})), None);
    }

    #[test]
    fn without_an_allow_list_only_denied_tools_are_hidden() {
        let pattern = |text: &str| NamePattern::new(text).expect("a pattern");
        let filter = Middleware::ToolFilter { allow: Vec::new(), deny: vec![pattern("^delete_")] };
        assert!(filter.shows("read_file"));
        assert!(!filter.shows("delete_file"));
        let filter = Middleware::ToolFilter { allow: vec![pattern("a"), pattern("b")], deny: Vec::new() };
        assert!(filter.shows("b"), "any of them");
        assert!(!filter.shows("c"));
    }

    #[test]
    fn a_servers_own_list_takes_the_place_of_the_general_one() {
        let hide = |name: &str| Middleware::ToolFilter {
            allow: Vec::new(),
            deny: vec![NamePattern::new(name).expect("a pattern")],
        };
        let enrich = Middleware::DescriptionEnricher { prefix: "<".to_owned(), suffix: ">".to_owned() };
        let forbid = Middleware::Security {
            rules: vec![SecurityRule {
                name: "rm".to_owned(),
                pattern: Regex::new("rm -rf").expect("a pattern"),
                message: "no".to_owned(),
            }],
            is_logged: false,
        };
        let policies = Policies {
            general: vec![hide("^a$"), forbid],
            by_server: vec![("own".to_owned(), vec![hide("^b$"), enrich.clone(), enrich]), ("none".to_owned(), vec![])],
        };
        let seen =
            |server: &str| ["a", "b"].into_iter().filter(|tool| policies.shows(server, tool)).collect::<String>();
        assert_eq!([seen("other"), seen("own"), seen("none")], ["b", "a", "ab"]);
        let enriched = |server: &str| policies.enriched(server, "text");
        assert_eq!([enriched("other"), enriched("own"), enriched("none")], [None, Some("<<text>>".to_owned()), None]);
        let forbids = |server: &str| policies.forbids(server, "run", &json!({"command": "rm -rf /"})).is_some();
        assert_eq!([forbids("other"), forbids("own"), forbids("none")], [true, false, false]);
    }

    #[test]
    fn each_step_does_its_own_work_alone() {
        let enricher = Middleware::DescriptionEnricher { prefix: "<".to_owned(), suffix: ">".to_owned() };
        let security = Middleware::Security {
            rules: vec![SecurityRule {
                name: "all".to_owned(),
                pattern: Regex::new("").expect("a pattern"),
                message: "no".to_owned(),
            }],
            is_logged: true,
        };
        let filter = Middleware::ToolFilter { allow: Vec::new(), deny: vec![NamePattern::new("").expect("a pattern")] };
        let logging = Middleware::Logging { has_arguments: true, level: CallLevel::Info };
        for (step, shows, enriched, forbids) in [
            (enricher, true, "<text>", false),
            (security, true, "text", true),
            (filter, false, "text", false),
            (logging, true, "text", false),
        ] {
            assert_eq!(step.shows("tool"), shows, "{step:?}");
            assert_eq!(step.enrich("text".to_owned()), enriched, "{step:?}");
            assert_eq!(step.forbids("tool", &json!({})).is_some(), forbids, "{step:?}");
        }
    }
}
