//! Usage: the tools that were called after a search.
//!
//! A [`Session`](crate::Session) keeps a trail of its searches, and its endpoint reports to a
//! [`Learner`] which tool was a hit of a search, was called soon after it, and succeeded. Without a
//! search, nothing is learned.

use std::{collections::VecDeque, fmt, sync::Arc};

use pegboard_core::{Ranker, Tool};

use crate::{CallAnswer, Searched, Target};

/// Maximum number of remembered searches of a conversation.
const MAX_SEARCHES: usize = 8;

/// Number of calls after which a search is no longer related to a call.
const MAX_CALLS: u32 = 12;

/// Maximum number of remembered hits of a search, best first.
const MAX_HITS: usize = 200;

/// Maximum number of tools that are learned from one search.
const MAX_TOOLS: usize = 3;

/// The caller that usage is learned for. Usage is never shared between holders.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder<'a> {
    /// The user who started this program.
    Local,
    /// All callers without a token, who cannot be distinguished.
    Anybody,
    /// The holder of a token.
    Token {
        /// The name of the token in logs.
        name: &'a str,
        /// The token.
        secret: &'a str,
    },
}

impl fmt::Debug for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'a> Holder<'a> {
    /// Returns the name for users.
    pub fn name(self) -> &'a str {
        match self {
            Self::Local => "local",
            Self::Anybody => "anybody",
            Self::Token { name, .. } => name,
        }
    }
}

/// Learns from usage, and ranks accordingly.
///
/// The first two methods are called while a client waits: implementations must not write to disk
/// there.
pub trait Learner: fmt::Debug + Send + Sync {
    /// Returns `ranker` with the usage of `holder`; the ranker itself if it does not learn.
    fn ranker(&self, holder: Holder<'_>, ranker: Arc<dyn Ranker>) -> Arc<dyn Ranker>;

    /// Learns that `holder` called a tool after a search. Secrets have been removed from the query.
    fn learn(&self, holder: Holder<'_>, step: &UsageStep);

    /// Writes what was learned to disk, if it is persistent. Blocks.
    fn finish(&self);
}

/// A successful call that a search led to.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageStep {
    /// The query of the search.
    pub query: String,
    /// The called tool, by [`Tool::upstream_id`].
    pub tool: String,
    /// The weight, 0 to 1: the first tool after a search weighs most.
    pub share: f64,
}

/// A call that a search may have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchLead {
    search: u64,
    tool: String,
}

/// The last searches of a conversation, and the calls after them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchTrail {
    searches: VecDeque<Remembered>,
    next: u64,
    /// Where the last call may have come from.
    lead: Option<SearchLead>,
}

#[derive(Clone, Debug)]
struct Remembered {
    number: u64,
    query: String,
    hits: Vec<Arc<Tool>>,
    /// Number of calls since the search.
    calls: u32,
    /// The tools that the search has led to.
    led_to: Vec<String>,
}

impl SearchTrail {
    /// Records the answer to a call. The call has a lead if its tool was a hit; the newest such
    /// search counts.
    pub(crate) fn record(&mut self, answer: &CallAnswer) {
        answer.searched.iter().for_each(|searched| self.remember(searched));
        self.lead = answer.target.as_ref().and_then(|target| self.find_lead(target));
    }

    /// Returns the search that may have led to the last call.
    pub(crate) fn lead(&self) -> Option<&SearchLead> {
        self.lead.as_ref()
    }

    fn remember(&mut self, searched: &Searched) {
        if searched.hits.is_empty() {
            return;
        }
        self.next += 1;
        if self.searches.len() == MAX_SEARCHES {
            self.searches.pop_front();
        }
        self.searches.push_back(Remembered {
            number: self.next,
            query: searched.query.clone(),
            hits: searched.hits.iter().take(MAX_HITS).cloned().collect(),
            calls: 0,
            led_to: Vec::new(),
        });
    }

    fn find_lead(&mut self, target: &Target) -> Option<SearchLead> {
        // What the host does itself was not searched for.
        let id = target.id.as_deref()?;
        self.searches.iter_mut().for_each(|search| search.calls += 1);
        self.searches.retain(|search| search.calls <= MAX_CALLS);
        let of_search = |search: &Remembered| {
            let tool = search.hits.iter().find(|tool| tool.id() == id)?;
            Some(SearchLead { search: search.number, tool: tool.upstream_id() })
        };
        self.searches.iter().rev().find_map(of_search)
    }

    /// Records that the call of a lead has succeeded; returns what can be learned from it, if
    /// anything.
    pub(crate) fn confirm(&mut self, lead: &SearchLead) -> Option<UsageStep> {
        // Its number alone may be one of another trail, which has taken the place of this one.
        let is_it = |search: &&mut Remembered| {
            search.number == lead.search && search.hits.iter().any(|tool| tool.is_upstream_id(&lead.tool))
        };
        let search = self.searches.iter_mut().find(is_it)?;
        if search.led_to.len() == MAX_TOOLS || search.led_to.contains(&lead.tool) {
            return None;
        }
        let share = 0.5_f64.powi(search.led_to.len() as i32);
        search.led_to.push(lead.tool.clone());
        Some(UsageStep { query: search.query.clone(), tool: lead.tool.clone(), share })
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::{Catalog, LoadLimits, Selection, load};
    use pegboard_engine::Hybrid;
    use serde_json::json;

    use super::*;
    use crate::{DialectName, Session, Settings};

    fn session() -> Session {
        let file = br#"[
            {"name": "send_mail", "description": "Send a mail", "server": "post"},
            {"name": "read_mail", "description": "Read a mail", "server": "post"},
            {"name": "sort_mail", "description": "Sort mail", "server": "post"},
            {"name": "drop_mail", "description": "Drop a mail", "server": "post"},
            {"name": "get_weather", "description": "Current weather", "server": "sky"}
        ]"#;
        let tools = load::parse("tools.json", file, &LoadLimits::default()).expect("tools").tools;
        let (catalog, ranker) = (Catalog::from_tools(tools).0, Arc::new(Hybrid::default()));
        Session::new(DialectName::Bridge, Settings::default(), catalog, Selection::everything(), ranker)
            .expect("a session")
    }

    /// Searches (`?`) and calls; what was learned.
    #[track_caller]
    fn check(steps: &[&str], expected: &[(&str, &str, f64)]) {
        let mut session = session();
        let mut learned = Vec::new();
        for step in steps {
            let answer = match step.strip_prefix('?') {
                Some(query) => session.call("search_tools", &json!({"query": query})),
                None => session.call("call_tool", &json!({"name": step.trim_end_matches('!'), "arguments": {}})),
            };
            assert!(!answer.is_error, "{step}");
            let lead = session.lead().filter(|_| !step.ends_with('!')).cloned();
            learned.extend(lead.and_then(|lead| session.confirm_lead(&lead)));
        }
        let learned: Vec<(&str, &str, f64)> =
            learned.iter().map(|step| (step.query.as_str(), step.tool.as_str(), step.share)).collect();
        assert_eq!(learned, expected, "{steps:?}");
    }

    #[test]
    fn what_is_learned() {
        check(&["?send mail", "send_mail"], &[("send mail", "post/send_mail", 1.0)]);
        check(&["send_mail"], &[]);
        check(&["?weather", "send_mail"], &[]);
        check(&["?send mail", "send_mail!", "send_mail"], &[("send mail", "post/send_mail", 1.0)]);
        check(&["?send mail", "send_mail", "send_mail"], &[("send mail", "post/send_mail", 1.0)]);
        check(&["?read mail", "?send mail", "read_mail"], &[("send mail", "post/read_mail", 1.0)]);
        check(
            &["?mail", "send_mail", "read_mail", "sort_mail", "drop_mail"],
            &[("mail", "post/send_mail", 1.0), ("mail", "post/read_mail", 0.5), ("mail", "post/sort_mail", 0.25)],
        );
        check(&["?send mail", "?weather", "send_mail"], &[("send mail", "post/send_mail", 1.0)]);
        check(&["?nothing of the kind", "send_mail"], &[]);
    }

    #[test]
    fn a_trail_is_short() {
        let mut steps = vec!["?send mail"];
        steps.extend(["get_weather"; 12]);
        steps.push("send_mail");
        check(&steps, &[]);
        let mut steps = vec!["?send mail"];
        steps.extend(["?weather"; 8]);
        steps.push("send_mail");
        check(&steps, &[]);
    }

    #[test]
    fn a_holder_shows_no_secret() {
        let holder = Holder::Token { name: "ada", secret: "s3cret" };
        assert_eq!(format!("{holder:?}"), "ada");
    }
}
