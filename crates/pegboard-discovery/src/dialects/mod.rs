//! The families of meta-tools.

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

/// The name of the search of `gateway`, which doors without sessions answer in any dialect.
pub const GATEWAY_SEARCH: &str = gateway::SEARCH;

/// What a dialect may look at to answer a call. It changes nothing.
pub struct View<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) selection: &'a Selection,
    pub(crate) ranker: &'a dyn Ranker,
    /// What somebody else's model makes of the texts that are ranked, where it was asked.
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
pub(crate) type Named = Vec<(Arc<Tool>, String)>;

impl View<'_> {
    /// The tools that the selection shows, in catalog order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.catalog.iter().filter(|tool| self.selection.allows(tool))
    }

    /// The tools that are hidden until searched for.
    pub(crate) fn deferred(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools().filter(|tool| !(self.is_static)(tool) && !is_always_on(tool))
    }

    /// Ranks the visible tools. Dialects whose words are somebody else's have none for a doubt,
    /// and ask for whatever there is; the model sees for itself what fits.
    pub(crate) fn rank(&self, query: &Query<'_>) -> Result<Ranking, QueryError> {
        let query = query.vectors(Some(query.vectors.unwrap_or(self.vectors)));
        self.ranker.rank(&query, self.catalog, self.selection)
    }

    /// Splits `tools` into those that one call can load, from the first on, and the rest. Tools that
    /// were loaded before give way to them.
    pub(crate) fn loadable(&self, tools: Named) -> (Named, Named) {
        let mut left = self.room;
        tools.into_iter().partition(|(tool, _)| {
            let takes = usize::from(!(self.is_static)(tool));
            let fits = left >= takes;
            left -= if fits { takes } else { 0 };
            fits
        })
    }

    /// What is noted of a search for `query` that shows these.
    pub(crate) fn searched<'t>(
        &self,
        query: &str,
        matches: usize,
        hits: impl IntoIterator<Item = &'t Arc<Tool>>,
    ) -> Searched {
        let hits: Vec<Arc<Tool>> = hits.into_iter().cloned().collect();
        Searched { query: query.to_owned(), tools: self.names.count(), matches, passing: hits.len(), hits }
    }

    /// Ranks the deferred tools. `+word` makes a word required on every ranker, and a query
    /// that finds nothing finds the tool it names.
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
/// Pure: the same view and arguments give the same outcome. What should change is said as
/// effects, which the session applies.
pub trait Dialect: std::fmt::Debug + Send + Sync {
    /// The name under which people choose it.
    fn name(&self) -> &'static str;

    /// The ranker that its document describes.
    fn default_ranker(&self) -> &'static str;

    /// The meta-tools that the model sees now.
    fn meta_tools(&self, view: &View<'_>) -> Vec<ToolDefinition>;

    /// Whether the meta-tools come behind the other tools.
    fn lists_last(&self) -> bool {
        false
    }

    /// Whether tools of the catalog can be visible, beside those that steer a conversation.
    fn lists_catalog(&self) -> bool {
        true
    }

    /// Whether a tool that does not say so is hidden until searched for.
    fn defers(&self, tool: &Tool) -> bool {
        let _ = tool;
        true
    }

    /// Tools that are shown before anything was searched for, beside those that always are.
    fn exposed_at_first(&self, view: &View<'_>) -> Vec<Arc<Tool>> {
        let _ = view;
        Vec::new()
    }

    /// What its meta-tool `name` is for; `None` when it has no such tool now.
    fn meta_tool(&self, name: &str, view: &View<'_>) -> Option<MetaTool>;

    /// Answers a call of the meta-tool `name`, or `None` when it has no such tool.
    fn call(&self, name: &str, arguments: &Value, view: &View<'_>) -> Option<Outcome>;

    /// What is wrong with calling a catalog tool by its own name, if anything is.
    fn refuse(&self, tool: &Arc<Tool>, view: &View<'_>) -> Option<Outcome> {
        let _ = (tool, view);
        None
    }

    /// Whether arguments must fit the tool's schema unless the settings say otherwise.
    fn checks_arguments(&self) -> bool {
        false
    }

    /// The names that a result of one of its searches loaded, for rebuilding a session from
    /// a transcript; `None` when `name` is not such a search or the text is not its result.
    fn loaded_by(&self, name: &str, result: &str) -> Option<Vec<String>> {
        let _ = (name, result);
        None
    }

    /// The names that a result of one of its calls put away, likewise.
    fn unloaded_by(&self, name: &str, result: &str) -> Vec<String> {
        let _ = (name, result);
        Vec::new()
    }

    /// What the system prompt says about it.
    fn instructions(&self, view: &View<'_>, categories: &[String]) -> String;

    /// What is added to that for models that should look before they speak.
    fn strict_rule(&self) -> &'static str {
        "Before you call any other tool, and before you say what you cannot do, search first."
    }

    /// A message that lists what can be searched for, where the dialect keeps one.
    fn reminder(&self, view: &View<'_>) -> Option<String> {
        let _ = view;
        None
    }
}

/// What a meta-tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// Finds tools.
    Search,
    /// Calls the tool that its argument `name` names, with its argument `arguments`.
    Call,
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
    /// Those that every door can serve, for people to choose from. `code` is not one of
    /// them: it needs a host that runs commands.
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

    /// The names of its meta-tools, in every setting; no other tool may have one of them.
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

    /// The names that this tool must not be shown under.
    pub(crate) fn reserved_from(self, tool: &Tool) -> &'static [&'static str] {
        match self {
            // Its search is itself one of the tools of a catalog file; a server's tool of that
            // name is another one.
            Self::Ranked if tool.origin() == Origin::Mcp => &[ranked::SEARCH, call_tool::CALL],
            dialect => dialect.meta_names(),
        }
    }

    /// The dialect itself.
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

/// The hits as tools with the names to show them under.
fn named(hits: &[Hit], view: &View<'_>) -> Vec<(Arc<Tool>, String)> {
    hits.iter().map(|hit| (Arc::clone(&hit.tool), view.names.shown(&hit.tool))).collect()
}
