//! The tools of a server as the user's settings show them: renamed, described, hidden, always
//! listed. Lists, searches, descriptions and calls all start from here.

use std::{collections::BTreeSet, sync::Arc};

use pegboard_core::{Annotations, RawTool, estimate_tokens, naming, text};
use pegboard_mcp::json::{Fields, SharedRaw, raw};

use crate::{
    config::{ServerConfig, ToolOverride},
    listing::{Item, Lists},
};

/// The tools of one server as its settings show them.
#[derive(Debug, Default)]
pub struct Presentation<'a> {
    /// Those that may be used.
    pub tools: Vec<PresentedTool<'a>>,
    /// Those that are held back until they are approved.
    pub held: Vec<PresentedTool<'a>>,
    /// Settings of single tools without effect.
    pub unused: Vec<UnusedOverride>,
    /// Tools that the server asks to be listed always, and that are not.
    pub not_always_loaded: Vec<&'a str>,
}

/// Settings of one tool without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusedOverride {
    /// The server has no such tool.
    NoTool {
        /// The name in the configuration.
        tool: String,
        /// The name that the server has and that may be meant.
        nearest: Option<String>,
    },
    /// Another tool of the server has the new name, and is not shown.
    NameTaken {
        /// The name in the configuration.
        tool: String,
        /// The name that it was to get.
        name: String,
    },
}

/// One tool of a server as the settings show it.
#[derive(Clone, Copy, Debug)]
pub struct PresentedTool<'a> {
    /// The tool of the server.
    pub item: &'a Item,
    /// Its name without its server: that of the settings, else the server's own.
    pub name: &'a str,
    changes: Option<&'a ToolOverride>,
    prompt_instructions: Option<&'a str>,
    deferred: Option<bool>,
}

impl<'a> Presentation<'a> {
    /// Applies the settings of a server to its lists.
    pub fn new(config: &'a ServerConfig, lists: &'a Lists) -> Self {
        Self::of_shown(config, lists, |_| true)
    }

    /// Applies the settings of a server to those of its tools that `is_shown` selects. Hidden ones take nothing
    /// of the tokens for tools that are listed always.
    pub fn of_shown(config: &'a ServerConfig, lists: &'a Lists, is_shown: impl Fn(&Item) -> bool) -> Self {
        let mut made = Self::default();
        let all = || lists.tools.iter().chain(lists.held.iter());
        made.find_unused(config, all);
        // The user's names win: rules are written with them, and a server must not get out of a rule by
        // adding a tool.
        let replaced: BTreeSet<String> =
            made.unused.iter().filter_map(|unused| unused.taken_name().map(str::to_owned)).collect();
        let mut budget = Budget { left: config.always_load.max_tokens, is_trusted: config.always_load.is_trusted };
        let mut present = |item: &'a Item| {
            let changes = config.overrides.get(&item.key);
            let is_hidden = changes.is_some_and(|changes| changes.is_hidden) || replaced.contains(&item.key);
            if is_hidden || !is_shown(item) {
                return None;
            }
            let renamed = changes.and_then(|changes| changes.name.as_deref());
            let asks = asks_always_load(item);
            let deferred = match changes.and_then(|changes| changes.always_show) {
                Some(is_shown) => Some(!is_shown),
                None if asks && budget.take(item) => Some(false),
                None => None,
            };
            let tool = PresentedTool {
                item,
                name: renamed.unwrap_or(&item.key),
                changes,
                prompt_instructions: config.prompt_instructions.of(&item.key),
                deferred,
            };
            Some((tool, asks && deferred != Some(false)))
        };
        for (list, into, notes) in [(&lists.tools, &mut made.tools, true), (&lists.held, &mut made.held, false)] {
            for (tool, is_refused) in list.iter().filter_map(&mut present) {
                into.push(tool);
                if is_refused && notes {
                    made.not_always_loaded.push(&tool.item.key);
                }
            }
        }
        made
    }

    fn find_unused<I: Iterator<Item = &'a Item>>(&mut self, config: &ServerConfig, all: impl Fn() -> I) {
        // Of a server that has not listed anything yet, nothing is known.
        if config.overrides.is_empty() || all().next().is_none() {
            return;
        }
        let keys: BTreeSet<&str> = all().map(|item| item.key.as_str()).collect();
        let is_renamed = |key: &str| config.overrides.get(key).is_some_and(|changes| changes.name.is_some());
        for (tool, changes) in &config.overrides {
            if !keys.contains(tool.as_str()) {
                let nearest = naming::nearest(tool, keys.iter().copied(), 1).pop().map(str::to_owned);
                self.unused.push(UnusedOverride::NoTool { tool: tool.clone(), nearest });
                continue;
            }
            let taken =
                changes.name.as_ref().filter(|name| *name != tool && keys.contains(name.as_str()) && !is_renamed(name));
            let unused = |name: &String| UnusedOverride::NameTaken { tool: tool.clone(), name: name.clone() };
            self.unused.extend(taken.map(unused));
        }
    }

    /// Logs settings without effect, and tools that are not listed although the server asks for it.
    pub fn log(&self, config: &ServerConfig) {
        let server = config.name.as_str();
        for unused in &self.unused {
            match unused {
                UnusedOverride::NoTool { tool, nearest } => {
                    tracing::warn!(server, tool, nearest, "tool settings match no tool of the server");
                }
                UnusedOverride::NameTaken { tool, name } => {
                    tracing::warn!(server, tool, name, "tool hidden, because another one was given its name");
                }
            }
        }
        if !self.not_always_loaded.is_empty() {
            let reason = if config.always_load.is_trusted { "over `alwaysLoadTokens`" } else { "not trusted" };
            let tools = text::brief(&text::line(&self.not_always_loaded.join(", ")), 200);
            tracing::info!(server, count = self.not_always_loaded.len(), tools, reason, "`alwaysLoad` ignored");
        }
    }
}

impl UnusedOverride {
    fn taken_name(&self) -> Option<&str> {
        match self {
            Self::NameTaken { name, .. } => Some(name),
            Self::NoTool { .. } => None,
        }
    }
}

impl PresentedTool<'_> {
    /// Returns the definition for clients, under the name `shown`.
    pub fn definition(&self, shown: &str) -> SharedRaw {
        let has_texts = self.changes.is_some_and(ToolOverride::changes_definition);
        if shown == self.item.key && !has_texts {
            return Arc::clone(&self.item.raw);
        }
        let Some(mut fields) = Fields::of(&self.item.raw) else { return Arc::clone(&self.item.raw) };
        fields.set("name", raw(shown));
        if let Some(changes) = self.changes {
            changes.write(&mut fields);
        }
        fields.to_raw().into()
    }

    /// Reads a definition that [`definition`](Self::definition) has written, for a catalog.
    pub fn read(&self, definition: SharedRaw, shown: &str) -> Option<RawTool> {
        let tool = Item::read_tool(definition, shown, self.name, &self.item.key)?;
        let prompt_instructions = self.prompt_instructions.map(str::to_owned);
        Some(RawTool { prompt_instructions, deferred: self.deferred, ..tool })
    }

    /// Returns whether the tool is found only by search; `None` leaves it to the dialect.
    pub fn deferred(&self) -> Option<bool> {
        self.deferred
    }

    /// Returns the tool for a catalog, under the name `shown`.
    pub fn to_raw(&self, shown: &str) -> Option<RawTool> {
        self.read(self.definition(shown), shown)
    }
}

impl ToolOverride {
    /// Returns whether clients get another definition than the server's, its name aside.
    fn changes_definition(&self) -> bool {
        self.title.is_some() || self.description.is_some() || self.annotations != Annotations::default()
    }

    fn write(&self, fields: &mut Fields) {
        if let Some(description) = &self.description {
            fields.set("description", raw(description));
        }
        let mut hints = fields.object("annotations").unwrap_or_default();
        if let Some(title) = &self.title {
            fields.set("title", raw(title));
            // An older place for the same text.
            if hints.has("title") {
                hints.set("title", raw(title));
            }
        }
        let Annotations { read_only, destructive, idempotent, open_world } = self.annotations;
        let set = [
            ("readOnlyHint", read_only),
            ("destructiveHint", destructive),
            ("idempotentHint", idempotent),
            ("openWorldHint", open_world),
        ];
        for (key, hint) in set {
            if let Some(hint) = hint {
                hints.set(key, raw(&hint));
            }
        }
        if !hints.is_empty() {
            fields.set("annotations", hints.to_raw());
        }
    }
}

/// The tokens that are left for tools that a server wants to be listed always.
struct Budget {
    left: usize,
    is_trusted: bool,
}

impl Budget {
    /// Takes the tokens of a tool; `false` if there are not enough left.
    fn take(&mut self, item: &Item) -> bool {
        let tokens = estimate_tokens(item.raw.get());
        let fits = self.is_trusted && tokens <= self.left;
        self.left -= if fits { tokens } else { 0 };
        fits
    }
}

/// Returns whether the server asks for the tool to be listed without a search.
fn asks_always_load(item: &Item) -> bool {
    // Few do; looking is cheaper than reading every definition.
    if !item.raw.get().contains("alwaysLoad") {
        return false;
    }
    let meta = Fields::of(&item.raw).and_then(|fields| fields.object("_meta"));
    meta.and_then(|meta| meta.read::<bool>("anthropic/alwaysLoad")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
