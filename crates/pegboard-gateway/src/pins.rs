//! Tools that are not what somebody approved, or not what they look like.

use std::{collections::HashSet, sync::Arc};

use pegboard_core::{
    Tool,
    naming::{self, Likeness},
    text,
};
use pegboard_upstream::{
    PinReport,
    era::Era,
    json::{Raw, raw},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    directory::Directory,
    exchange::{Exchange, text_result},
    gateway::Gateway,
    lock,
    tools::inner_name,
};

/// Pairs that are reported.
pub(crate) const MAX_LOOKALIKES: usize = 200;

/// Pairs that are named in the log at a time; the others are counted.
const MAX_TOLD: usize = 10;

/// Pairs that are remembered as told.
const MAX_REMEMBERED: usize = 10_000;

/// Two tools of different servers whose names are alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Lookalike {
    /// The one that is configured first.
    pub first: ToolName,
    /// The other one.
    pub second: ToolName,
    /// `same`, `spelling`, `confusable` or `slip`; see [`Likeness`].
    pub likeness: String,
}

/// A tool by its own name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolName {
    /// Whose it is.
    pub server: String,
    /// Its name there.
    pub tool: String,
}

/// The pairs among these tools, given as server and name.
pub(crate) fn lookalikes(names: &[(&str, &str)]) -> Vec<Lookalike> {
    let name = |at: usize| {
        let (server, tool) = names.get(at).copied().unwrap_or_default();
        ToolName { server: server.to_owned(), tool: tool.to_owned() }
    };
    let pairs = naming::lookalikes(names, MAX_LOOKALIKES).into_iter();
    let pair = |(first, second, likeness): (usize, usize, Likeness)| Lookalike {
        first: name(first),
        second: name(second),
        likeness: likeness.as_str().to_owned(),
    };
    pairs.map(pair).collect()
}

impl Gateway {
    /// What waits for approval: tools that are new, that have changed or that are gone since
    /// somebody looked at them.
    pub fn pins(&self) -> Vec<PinReport> {
        self.servers().iter().flat_map(|server| server.pins().iter().cloned().collect::<Vec<_>>()).collect()
    }

    /// Tools of different servers whose names are alike.
    pub fn lookalikes(&self) -> Arc<Vec<Lookalike>> {
        Arc::clone(&self.directory().lookalikes)
    }

    /// The answer to a call of a tool that is held back, as far as the caller would see it.
    pub(crate) fn held_back(&self, exchange: &Exchange, name: &str, arguments: &Value) -> Option<Raw> {
        let directory = self.directory();
        if directory.held.is_empty() {
            return None;
        }
        let name = inner_name(name, arguments);
        if self.with_tools(exchange, |tools| tools.find(name).is_some()) {
            return None;
        }
        let folded = naming::fold(name);
        let is_meant = |tool: &&Arc<Tool>| {
            let names = [tool.name(), tool.upstream_name(), tool.id()];
            names.iter().any(|one| *one == name || naming::fold(one) == folded)
        };
        let is_seen = |tool: &&Arc<Tool>| exchange.viewer.selection.allows(tool);
        let tool = directory.held.iter().find(|tool| is_meant(tool) && is_seen(tool))?;
        let (server, own) = (text::line(tool.server_name().unwrap_or_default()), text::line(tool.upstream_name()));
        tracing::warn!(server = &*server, tool = &*own, "a tool that is held back was called");
        let told = format!(
            "the tool `{own}` of the server `{server}` is held back: it is not what was approved. Whoever runs Pegboard \
             can look at it and approve it with `pegboard approve {server} {own}`."
        );
        let mut result = text_result(&told, true);
        if exchange.era == Era::Modern {
            result.set("resultType", raw("complete"));
        }
        Some(result.to_raw())
    }

    /// Says which names are alike, each pair once.
    pub(crate) fn tell_lookalikes(&self, directory: &Directory) {
        let mut told = lock(&self.told_lookalikes);
        if told.len() > MAX_REMEMBERED {
            told.clear();
        }
        let news: Vec<&Lookalike> = directory.lookalikes.iter().filter(|pair| told.insert(key(pair))).collect();
        // The same name on two servers is usual; one that only looks the same is not.
        let (same, alike): (Vec<&Lookalike>, Vec<&Lookalike>) =
            news.into_iter().partition(|pair| pair.likeness == Likeness::Same.as_str());
        for Lookalike { first, second, likeness } in alike.iter().take(MAX_TOLD) {
            let (one, other) = (shown(first), shown(second));
            tracing::warn!(one, other, likeness, "two tools have names that look alike");
        }
        if alike.len() > MAX_TOLD {
            tracing::warn!(more = alike.len() - MAX_TOLD, "more tools have names that look alike");
        }
        if !same.is_empty() {
            let tools: HashSet<&str> = same.iter().map(|pair| pair.first.tool.as_str()).collect();
            let mut tools: Vec<String> = tools.into_iter().map(|tool| text::brief(tool, 80)).collect();
            tools.sort();
            let names = text::brief(&tools.join(", "), 400);
            tracing::info!(count = tools.len(), names, "several servers have tools of the same name");
        }
    }
}

type Key = (ToolName, ToolName);

fn key(pair: &Lookalike) -> Key {
    (pair.first.clone(), pair.second.clone())
}

/// Pairs that were told.
pub(crate) type Told = std::sync::Mutex<HashSet<Key>>;

/// A name in which every letter can be told from those that look like it.
fn shown(name: &ToolName) -> String {
    let tool: String =
        name.tool.chars().flat_map(|c| if c.is_ascii() { vec![c] } else { c.escape_unicode().collect() }).collect();
    text::brief(&format!("{}/{tool}", name.server), 160)
}
