//! When search is enabled.

pub use pegboard_core::estimate_tokens;
use pegboard_core::{Catalog, Selection};

use crate::{host::HostTool, outcome::ToolDefinition};

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
