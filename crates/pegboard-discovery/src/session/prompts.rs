//! Texts and tools for a model before its first call.

use std::sync::Arc;

use pegboard_core::Tool;

use super::Session;
use crate::{
    dialects::{DialectView, MetaTool},
    outcome::ToolDefinition,
    prompt,
};

/// The tools for a provider that searches them itself.
#[derive(Clone, Debug)]
pub struct NativeTools {
    /// What the model sees from the start.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// What it may find.
    pub deferred: Vec<ToolDefinition>,
    /// The search tool, for models that call one instead of searching inside.
    pub search: Option<Arc<ToolDefinition>>,
}

impl Session {
    /// Returns the section of the system prompt about finding tools.
    pub fn prompt(&self) -> String {
        self.prompt_of(|categories| self.with_view(|view| self.dialect().instructions(view, categories)))
    }

    /// Returns the [`prompt`](Self::prompt) for a provider with its own search: `how` describes
    /// that search, in place of the instructions for meta-tools.
    pub fn native_prompt(&self, how: &str) -> String {
        self.prompt_of(|categories| prompt::section(how, categories))
    }

    fn prompt_of(&self, instructions: impl Fn(&[String]) -> String) -> String {
        let categories = match self.categories.as_slice() {
            [] => prompt::categories(&self.catalog, &self.selection),
            given => given.to_vec(),
        };
        if let Some(template) = &self.settings.prompt_template {
            let listed: Vec<String> = categories.iter().map(|category| format!("- {category}")).collect();
            return prompt::fill(
                template,
                &[("{instructions}", &instructions(&[])), ("{categories}", &listed.join("\n"))],
            );
        }
        let mut text = instructions(&categories);
        if self.settings.strict && !text.is_empty() {
            text.push_str(&format!("\n\n{}", self.dialect().strict_rule()));
        }
        text
    }

    /// What a provider that searches by itself is handed, for programs that keep their own loop:
    /// the tools that the model sees from the start, all others that the selection allows, and
    /// the search tool of the dialect.
    ///
    /// The others go into every request as well, marked in the provider's own way
    /// (`defer_loading` on Anthropic and on OpenAI Responses) beside the provider's search tool.
    /// The dialect's search tool is not sent then; it is for models whose provider hands the
    /// search back to the client. Loading has no part in it: the provider keeps what was found,
    /// so that the list is the same before and after every call, and changes with the catalog
    /// alone. Calls go to [`call`](Self::call) as ever, and the system prompt is
    /// [`native_prompt`](Self::native_prompt).
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pegboard_core::{Catalog, LoadLimits, Selection, load};
    /// use pegboard_discovery::{DialectName, Session, Settings};
    /// use pegboard_engine::Keyword;
    /// use serde_json::{Value, json};
    ///
    /// let file = br#"[{"name": "get_weather", "deferred": true}, {"name": "read_clock", "deferred": false}]"#;
    /// let (catalog, _) = Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default())?.tools);
    /// let ranker = Arc::new(Keyword::default());
    /// let session =
    ///     Session::new(DialectName::Select, Settings::default(), catalog, Selection::everything(), ranker)?;
    ///
    /// let native = session.native();
    /// let tool = |name: &str, is_deferred: bool| json!({"name": name, "defer_loading": is_deferred});
    /// let mut tools = vec![json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"})];
    /// tools.extend(native.tools.iter().map(|shown| tool(&shown.name, false)));
    /// tools.extend(native.deferred.iter().map(|hidden| tool(&hidden.name, true)));
    /// assert_eq!(tools[1], json!({"name": "read_clock", "defer_loading": false}));
    /// assert_eq!(tools[2], json!({"name": "get_weather", "defer_loading": true}));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn native(&self) -> NativeTools {
        let is_shown = |tool: &Arc<Tool>| self.fixed.tools().any(|shown| Arc::ptr_eq(&shown.tool, tool));
        let lists = self.dialect().lists_catalog();
        let hidden = self.catalog.iter().filter(|tool| lists && self.selection.allows(tool) && !is_shown(tool));
        let deferred = hidden.map(|tool| ToolDefinition::of(tool, &self.names.shown(tool))).collect();
        let tools = self.fixed.tools().map(|shown| Arc::clone(&shown.definition)).collect();
        NativeTools { tools, deferred, search: self.fixed.meta.first().cloned() }
    }

    /// Returns the name of the search tool, if there is one now.
    pub fn search_name(&self) -> Option<&str> {
        let is_search = |name: &str| self.meta_tool(name) == Some(MetaTool::Search);
        let names = || self.fixed.meta.iter().map(|meta| meta.name.as_str());
        // Of dialects whose first tool does not search, it is the one to begin with.
        names().find(|name| is_search(name)).or_else(|| names().next())
    }

    /// Returns whether a listed tool searches.
    pub(super) fn has_search(&self) -> bool {
        !self.lists_everything
            && self.fixed.meta.iter().any(|meta| self.meta_tool(&meta.name) == Some(MetaTool::Search))
    }

    /// Returns the reminder for the conversation itself, if the dialect has one.
    pub(super) fn reminder(&self) -> Option<String> {
        let text = self.with_view(|view| self.dialect().reminder(view))?;
        let Some(template) = &self.settings.reminder_template else { return Some(text) };
        let names = |view: &DialectView<'_>| view.deferred().map(|tool| view.names.shown(tool)).collect::<Vec<_>>();
        Some(prompt::fill(template, &[("{names}", &self.with_view(names).join("\n"))]))
    }
}
