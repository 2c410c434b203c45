//! Tools of different servers whose names look alike.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use pegboard_core::{
    naming::{self, Likeness},
    text,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{catalog::CatalogView, lock};

/// How long servers that start together may take before their names are compared.
const SETTLING: Duration = Duration::from_millis(500);

/// How long it may take until it is seen that the gateway is gone.
const LOOK: Duration = Duration::from_secs(30);

/// Pairs that are reported.
const MAX_LOOKALIKES: usize = 200;

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
fn lookalikes(names: &[(&str, &str)]) -> Vec<Lookalike> {
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

type Key = (ToolName, ToolName);

fn key(pair: &Lookalike) -> Key {
    (pair.first.clone(), pair.second.clone())
}

/// What is known of the names of all tools.
#[derive(Debug, Default)]
pub(crate) struct Lookalikes {
    /// Told when they may be others.
    news: Notify,
    found: Mutex<Arc<Vec<Lookalike>>>,
    told: Mutex<HashSet<Key>>,
}

impl Lookalikes {
    /// The pairs that were found last.
    pub(crate) fn found(&self) -> Arc<Vec<Lookalike>> {
        Arc::clone(&lock(&self.found))
    }

    /// Says that the names may be others.
    pub(crate) fn look_again(&self) {
        self.news.notify_one();
    }

    /// Logs which names are alike, each pair once.
    fn log(&self) {
        let mut told = lock(&self.told);
        if told.len() > MAX_REMEMBERED {
            told.clear();
        }
        let found = self.found();
        let news: Vec<&Lookalike> = found.iter().filter(|pair| told.insert(key(pair))).collect();
        // The same name on two servers is usual; one that only looks the same is not.
        let (same, alike): (Vec<&Lookalike>, Vec<&Lookalike>) =
            news.into_iter().partition(|pair| pair.likeness == Likeness::Same.as_str());
        for Lookalike { first, second, likeness } in alike.iter().take(MAX_TOLD) {
            let (one, other) = (shown(first), shown(second));
            tracing::warn!(one, other, likeness, "confusable tool names");
        }
        if alike.len() > MAX_TOLD {
            tracing::warn!(more = alike.len() - MAX_TOLD, "further confusable tool names");
        }
        if !same.is_empty() {
            let tools: HashSet<&str> = same.iter().map(|pair| pair.first.tool.as_str()).collect();
            let mut tools: Vec<String> = tools.into_iter().map(|tool| text::brief(tool, 80)).collect();
            tools.sort();
            let names = text::brief(&tools.join(", "), 400);
            tracing::info!(count = tools.len(), names, "tool names used by several servers");
        }
    }
}

/// Compares the names of all tools whenever they change, for as long as the catalog is in use. Not
/// where lists are made: nobody has to wait for it, and servers that start together are looked
/// at once.
pub(crate) async fn compare_names(catalog: Weak<CatalogView>, names: Arc<Lookalikes>) {
    let mut seen = None;
    loop {
        // Waiting must not keep the gateway alive.
        if tokio::time::timeout(LOOK, names.news.notified()).await.is_ok() {
            tokio::time::sleep(SETTLING).await;
        }
        let Some(directory) = catalog.upgrade().map(|catalog| catalog.directory()) else { return };
        let Some(catalog) = directory.catalog.clone() else { continue };
        let now = Some((catalog.version(), directory.held.len()));
        if std::mem::replace(&mut seen, now) == now {
            continue;
        }
        let found = tokio::task::spawn_blocking(move || {
            let tools = catalog.iter().chain(&directory.held);
            let all: Vec<(&str, &str)> =
                tools.map(|tool| (tool.server_name().unwrap_or_default(), tool.upstream_name())).collect();
            lookalikes(&all)
        });
        let Ok(found) = found.await else { return };
        *lock(&names.found) = Arc::new(found);
        names.log();
    }
}

/// A name in which every letter can be told from those that look like it.
fn shown(name: &ToolName) -> String {
    let tool: String =
        name.tool.chars().flat_map(|c| if c.is_ascii() { vec![c] } else { c.escape_unicode().collect() }).collect();
    text::brief(&format!("{}/{tool}", name.server), 160)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_look_alike_are_escaped() {
        let check = |tool: &str, expected: &str| {
            assert_eq!(shown(&ToolName { server: "thief".to_owned(), tool: tool.to_owned() }), expected);
        };
        check("transfer_money", "thief/transfer_money");
        check("transfer_m\u{43e}ney", "thief/transfer_m\\u{43e}ney");
    }
}
