//! What happens to the lists and calls of a server on their way through.

mod patterns;

pub use self::patterns::{NamePattern, PatternError};

use regex::Regex;
use serde_json::Value;

/// One step on the way.
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

/// A call that a rule refuses.
#[derive(Clone, Copy, Debug)]
pub struct Blocked<'a> {
    /// The rule.
    pub rule: &'a SecurityRule,
    /// Whether the refusal is logged.
    pub is_logged: bool,
}

/// What a call must not look like.
#[derive(Clone, Debug)]
pub struct SecurityRule {
    /// What logs call it.
    pub name: String,
    /// Matched against `tool_name:NAME args:JSON`.
    pub pattern: Regex,
    /// What the caller is told.
    pub message: String,
}

impl Middleware {
    /// Whether clients may see and call the tool with this name.
    pub fn shows(&self, tool: &str) -> bool {
        match self {
            Self::ToolFilter { allow, deny } => {
                let is_any = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(tool));
                (allow.is_empty() || is_any(allow)) && !is_any(deny)
            }
            _ => true,
        }
    }

    /// A description as clients get to read it.
    pub fn enrich(&self, description: String) -> String {
        match self {
            Self::DescriptionEnricher { prefix, suffix } => format!("{prefix}{description}{suffix}"),
            _ => description,
        }
    }

    /// The rule that forbids a call, if one does.
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
