//! The dialects: families of meta-tools.

mod bridge;
mod call_tool;
mod code;
mod explicit;
mod gateway;
mod ranked;
mod schema;
mod select;

use std::sync::Arc;

use pegboard_core::{
    Catalog, Hit, Origin, Query, QueryError, Ranker, Ranking, Selection, Tool, Vectors, selection::is_always_on,
};
use serde_json::Value;

use crate::{
    names::Names,
    outcome::{Outcome, Searched, ToolDefinition},
    settings::Settings,
};

/// The name of the search of `gateway`, which endpoints without sessions answer in any dialect.
pub const GATEWAY_SEARCH: &str = gateway::SEARCH;

/// The sentence in the description of the search of `bridge` that says how found tools are called.
pub const BRIDGE_SEARCH_RESULT: &str = bridge::SEARCH_RESULT;

/// Read-only access to a session for a dialect that answers a call.
pub struct DialectView<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) selection: &'a Selection,
    pub(crate) ranker: &'a dyn Ranker,
    /// The vectors of an external model for the ranked texts, if it was asked.
    pub(crate) vectors: &'a Vectors,
    pub(crate) names: &'a Names,
    pub(crate) settings: &'a Settings,
    /// Whether the session shows a tool under this name, beside the meta-tools.
    pub(crate) is_shown: &'a dyn Fn(&str) -> bool,
    /// The name under which the session shows this very tool.
    pub(crate) shown_name: &'a dyn Fn(&Tool) -> Option<String>,
    /// Whether the tool of this name can be put away again.
    pub(crate) is_removable: &'a dyn Fn(&str) -> bool,
    /// Tools that are shown without having been loaded.
    pub(crate) is_static: &'a dyn Fn(&Tool) -> bool,
    /// How many tools one call can load.
    pub(crate) room: usize,
}

/// Tools with the names to show them under.
pub(crate) type NamedTools = Vec<(Arc<Tool>, String)>;

impl DialectView<'_> {
    /// Returns the tools that the selection shows, in catalog order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.catalog.iter().filter(|tool| self.selection.allows(tool))
    }

    /// Returns the tools that are hidden until searched for.
    pub(crate) fn deferred(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools().filter(|tool| !(self.is_static)(tool) && !is_always_on(tool))
    }

    /// Ranks the visible tools. Dialects with prescribed texts cannot express doubt, and ask for
    /// all hits; the model judges what fits.
    pub(crate) fn rank(&self, query: &Query<'_>) -> Result<Ranking, QueryError> {
        let query = query.vectors(Some(query.vectors.unwrap_or(self.vectors)));
        self.ranker.rank(&query, self.catalog, self.selection)
    }

    /// Splits `tools` into those that one call can load, from the first on, and the rest. Tools
    /// that were loaded before are evicted for them.
    pub(crate) fn split_loadable(&self, tools: NamedTools) -> (NamedTools, NamedTools) {
        let mut left = self.room;
        tools.into_iter().partition(|(tool, _)| {
            let takes = usize::from(!(self.is_static)(tool));
            let fits = left >= takes;
            left -= if fits { takes } else { 0 };
            fits
        })
    }

    /// Returns the record of a search for `query` that shows these hits.
    pub(crate) fn searched<'t>(
        &self,
        query: &str,
        matches: usize,
        hits: impl IntoIterator<Item = &'t Arc<Tool>>,
    ) -> Searched {
        let hits: Vec<Arc<Tool>> = hits.into_iter().cloned().collect();
        Searched { query: query.to_owned(), tools: self.names.count(), matches, passing: hits.len(), hits }
    }

    /// Ranks the deferred tools. `+word` makes a word required on every ranker, and a query without
    /// hits finds the tool that it names.
    pub(crate) fn rank_deferred(&self, text: &str, limit: usize) -> Result<Vec<Hit>, QueryError> {
        let knows_required = self.ranker.reads_required_words();
        let plain = if knows_required { text.to_owned() } else { without_required_marks(text) };
        let required: Vec<String> = if knows_required { Vec::new() } else { required_words(text) };
        let ranking = self.rank(&Query::new(&plain).limit(usize::MAX).least_confidence(0.0))?;
        let mut hits: Vec<Hit> = ranking
            .hits
            .into_iter()
            .filter(|hit| !(self.is_static)(&hit.tool) && has_words(&hit.tool, &required))
            .take(limit)
            .collect();
        if hits.is_empty() && required_words(text).is_empty() {
            let named = self.names.find(text.trim()).filter(|tool| !(self.is_static)(tool));
            hits.extend(named.map(|tool| Hit { tool, score: 0.0, why: Vec::new() }));
        }
        Ok(hits)
    }
}

fn without_required_marks(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.strip_prefix('+').unwrap_or(word));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn required_words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix('+'));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn has_words(tool: &Tool, words: &[String]) -> bool {
    let text = format!("{} {} {}", tool.name(), tool.description(), tool.search_hint().unwrap_or_default());
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word))
}

/// One family of meta-tools: names, schemas, replies, limits and errors.
///
/// Pure: the same view and arguments give the same outcome. Changes are returned as effects, which
/// the session applies.
pub trait Dialect: std::fmt::Debug + Send + Sync {
    /// Returns the name under which users choose the dialect.
    fn name(&self) -> &'static str;

    /// Returns the ranker that the document of the dialect describes.
    fn default_ranker(&self) -> &'static str;

    /// Returns whether a session needs tools to search for, because the dialect has no answer for
    /// a catalog without any.
    fn needs_tools(&self) -> bool {
        false
    }

    /// Returns whether a search loads tools, so that its result can hold their definitions.
    fn loads_by_search(&self) -> bool {
        false
    }

    /// Returns whether the visible list never changes.
    fn has_fixed_list(&self) -> bool {
        false
    }

    /// Returns whether the dialect can serve clients without sessions: in one of its forms, the visible
    /// list does not depend on earlier calls.
    fn has_constant_form(&self) -> bool {
        self.has_fixed_list()
    }

    /// Returns the meta-tools that the model sees now.
    fn meta_tools(&self, view: &DialectView<'_>) -> Vec<ToolDefinition>;

    /// Returns whether the meta-tools come after the other tools.
    fn lists_last(&self) -> bool {
        false
    }

    /// Returns whether tools of the catalog can be visible, in addition to those that steer a
    /// conversation.
    fn lists_catalog(&self) -> bool {
        true
    }

    /// Returns whether a tool that does not declare it is hidden until searched for.
    fn defers(&self, tool: &Tool) -> bool {
        let _ = tool;
        true
    }

    /// Returns the tools that are shown before any search, in addition to those that are always
    /// shown.
    fn exposed_at_first(&self, view: &DialectView<'_>) -> Vec<Arc<Tool>> {
        let _ = view;
        Vec::new()
    }

    /// Returns the purpose of the meta-tool `name`; `None` if there is no such tool now.
    fn meta_tool(&self, name: &str, view: &DialectView<'_>) -> Option<MetaTool>;

    /// Answers a call of the meta-tool `name`, or `None` if there is no such tool.
    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome>;

    /// Returns the error of calling a catalog tool by its own name, if the dialect does not allow
    /// it.
    fn check_direct_call(&self, tool: &Arc<Tool>, view: &DialectView<'_>) -> Option<Outcome> {
        let _ = (tool, view);
        None
    }

    /// Returns whether arguments are validated against the tool's schema unless the settings
    /// override it.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// Returns the names that the result of a search loaded, for rebuilding a session from a
    /// transcript; `None` if `name` is not such a search or the text is not its result.
    fn loaded_by(&self, name: &str, result: &str) -> Option<Vec<String>> {
        let _ = (name, result);
        None
    }

    /// Returns the names that the result of a call unloaded, for the same purpose.
    fn unloaded_by(&self, name: &str, result: &str) -> Vec<String> {
        let _ = (name, result);
        Vec::new()
    }

    /// Returns the instructions for the system prompt.
    fn instructions(&self, view: &DialectView<'_>, categories: &[String]) -> String;

    /// Returns an additional rule for models that should search before they answer.
    fn strict_rule(&self) -> &'static str {
        "Before you call any other tool, and before you say what you cannot do, search first."
    }

    /// Returns a message that lists what can be searched for, if the dialect keeps one.
    fn reminder(&self, view: &DialectView<'_>) -> Option<String> {
        let _ = view;
        None
    }
}

/// The purpose of a meta-tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// Finds tools.
    Search,
    /// Calls the tool that its argument `name` names, with its argument `arguments`.
    Call,
    /// Reads results that were too long to show. No dialect has it: the host adds it.
    ReadResult,
    /// Anything else, such as loading tools by name.
    Other,
}

/// The dialects by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DialectName {
    /// Search, then add by name.
    Explicit,
    /// The first tools and a search that exposes its hits.
    Gateway,
    /// A search that loads its matches.
    Select,
    /// A search that only ranks.
    Ranked,
    /// A search that loads and returns schemas.
    Schema,
    /// Ready-to-call signatures and one call tool; the list never changes.
    #[default]
    Bridge,
    /// Specs of an HTTP API and a shell; programs call the tools. The list never changes.
    Code,
}

impl DialectName {
    /// The dialects that every endpoint can serve. `code` is not one of them: it needs a host that
    /// runs commands.
    pub const ALL: [Self; 6] = [Self::Explicit, Self::Gateway, Self::Select, Self::Ranked, Self::Schema, Self::Bridge];

    /// The names of [`ALL`](Self::ALL), in its order.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].as_str();
            at += 1;
        }
        names
    };

    /// Returns the name that people use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Gateway => "gateway",
            Self::Select => "select",
            Self::Ranked => "ranked",
            Self::Schema => "schema",
            Self::Bridge => "bridge",
            Self::Code => "code",
        }
    }

    /// Returns the names of its meta-tools in every setting; no other tool may have one of them.
    pub fn meta_names(self) -> &'static [&'static str] {
        match self {
            Self::Explicit => explicit::META_NAMES,
            Self::Gateway => gateway::META_NAMES,
            Self::Select => select::META_NAMES,
            Self::Ranked => ranked::META_NAMES,
            Self::Schema => schema::META_NAMES,
            Self::Bridge => bridge::META_NAMES,
            Self::Code => code::META_NAMES,
        }
    }

    /// Returns the names that this tool must not be shown under.
    pub(crate) fn reserved_from(self, tool: &Tool) -> &'static [&'static str] {
        match self {
            // Its search is itself one of the tools of a catalog file; a server's tool of that
            // name is another one.
            Self::Ranked if tool.origin() == Origin::Mcp => &[ranked::SEARCH, call_tool::CALL],
            dialect => dialect.meta_names(),
        }
    }

    /// Returns the dialect.
    pub fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Explicit => &explicit::Explicit,
            Self::Gateway => &gateway::Gateway,
            Self::Select => &select::Select,
            Self::Ranked => &ranked::Ranked,
            Self::Schema => &schema::SchemaSearch,
            Self::Bridge => &bridge::Bridge,
            Self::Code => &code::Code,
        }
    }
}

/// Returns the hits as tools with the names to show them under.
fn named(hits: &[Hit], view: &DialectView<'_>) -> Vec<(Arc<Tool>, String)> {
    hits.iter().map(|hit| (Arc::clone(&hit.tool), view.names.shown(&hit.tool))).collect()
}
