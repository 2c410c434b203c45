//! Estimates of the number of tokens of a text.

use pegboard_core::{Catalog, Selection};

use crate::{host::HostTool, outcome::ToolDefinition};

/// Roughly how many tokens a model of the current generation reads `text` as.
///
/// Words cost one token and one more for every few letters beyond the first ones, digits
/// one for three, signs one for a short run, and characters of other scripts most of one
/// each. Calibrated on real tool lists to within a tenth; an estimate, and to be called so.
///
/// ```
/// let tokens = pegboard_discovery::estimate_tokens(r#"{"name":"create_issue","description":"Open an issue"}"#);
/// assert!((9..=17).contains(&tokens));
/// ```
pub fn estimate_tokens(text: &str) -> usize {
    let mut tokens = 0.0_f64;
    let mut run = (Kind::Space, 0_usize);
    for c in text.chars() {
        let kind = Kind::of(c);
        if kind == run.0 {
            run.1 += 1;
        } else {
            tokens += run.0.cost(run.1);
            run = (kind, 1);
        }
    }
    tokens += run.0.cost(run.1);
    tokens.round() as usize
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Sign,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            ' ' => Self::Space,
            _ if c.is_ascii() => Self::Sign,
            _ => Self::Other,
        }
    }

    /// Returns the cost of a run of `length` such characters.
    fn cost(self, length: usize) -> f64 {
        let length = length as f64;
        match self {
            Self::Letter => 1.0 + ((length - 8.0).max(0.0)) * LETTERS,
            Self::Digit => (length / 3.0).ceil(),
            // A single space belongs to the word behind it.
            Self::Space => {
                if length > 1.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::Sign => (length / SIGNS).max(SIGN_ALONE),
            Self::Other => length * OTHER,
        }
    }
}

const LETTERS: f64 = 0.12;
const SIGNS: f64 = 3.0;
const SIGN_ALONE: f64 = 0.85;
const OTHER: f64 = 0.75;

/// When search is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// When there are more tools than this, or they cost more than this.
    Auto {
        /// Tools that a model can still be shown all at once.
        max_tools: usize,
        /// Tokens (estimated) that their definitions may cost.
        max_tokens: usize,
    },
    /// In every conversation.
    Always,
    /// In none.
    Never,
}

impl Default for Exposure {
    fn default() -> Self {
        Self::Auto { max_tools: 30, max_tokens: 10_000 }
    }
}

/// Whether search is enabled, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether tools are hidden behind a search.
    pub is_on: bool,
    /// The reason, for logs and for people.
    pub reason: String,
}

impl Exposure {
    /// Decides for the visible tools of `catalog`.
    pub fn decide(self, catalog: &Catalog, selection: &Selection) -> Decision {
        let (max_tools, max_tokens) = match self {
            Self::Always => return Decision { is_on: true, reason: "tool search is always on".to_owned() },
            Self::Never => return Decision { is_on: false, reason: "tool search is off".to_owned() },
            Self::Auto { max_tools, max_tokens } => (max_tools, max_tokens),
        };
        let visible = || catalog.iter().filter(|tool| selection.allows(tool) && !HostTool::is_host_tool(tool));
        let tools = visible().count();
        if tools > max_tools {
            return Decision { is_on: true, reason: format!("{tools} tools, over the limit of {max_tools}") };
        }
        let tokens: usize =
            visible().map(|tool| estimate_tokens(&ToolDefinition::of(tool, tool.name()).to_json().to_string())).sum();
        let is_on = tokens > max_tokens;
        let than = if is_on { "over" } else { "within" };
        Decision {
            is_on,
            reason: format!("{tools} tools with about {tokens} tokens, {than} the limit of {max_tokens}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::RawTool;

    use super::*;

    #[test]
    fn exposure_says_why() {
        let tool =
            |at: usize| RawTool { name: format!("t{at}"), description: "word ".repeat(40), ..RawTool::default() };
        let (catalog, _) = Catalog::from_tools((0..31).map(tool).collect());
        let decide = |exposure: Exposure| exposure.decide(&catalog, &Selection::everything());
        assert_eq!(decide(Exposure::default()).reason, "31 tools, over the limit of 30");
        assert!(!decide(Exposure::Never).is_on && decide(Exposure::Always).is_on);
        let by_tokens = decide(Exposure::Auto { max_tools: 40, max_tokens: 100 });
        assert!(by_tokens.is_on && by_tokens.reason.contains("about"), "{}", by_tokens.reason);
        assert!(!decide(Exposure::Auto { max_tools: 40, max_tokens: 100_000 }).is_on);
    }
}
