//! Tools of different servers with similar names.

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

/// How long to wait for further servers that start together before their names are compared.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// The interval of checks whether the gateway still exists.
const LIVENESS_CHECK: Duration = Duration::from_secs(30);

/// Maximum number of reported pairs.
const MAX_LOOKALIKES: usize = 200;

/// Maximum number of pairs in the log at a time; further ones are counted.
const MAX_LOGGED: usize = 10;

/// Maximum number of pairs that are remembered as logged.
const MAX_REMEMBERED: usize = 10_000;

/// Two tools of different servers with similar names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Lookalike {
    /// The tool that is configured first.
    pub first: ToolName,
    /// The other tool.
    pub second: ToolName,
    /// `same`, `spelling`, `confusable` or `slip`; see [`Likeness`].
    pub likeness: String,
}

/// A tool by its server and its own name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolName {
    /// The name of the server.
    pub server: String,
    /// The name of the tool at the server.
    pub tool: String,
}

/// Returns the pairs among these tools, given as server and name.
fn find_lookalikes(names: &[(&str, &str)]) -> Vec<Lookalike> {
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

/// The similar names among all tools.
#[derive(Debug, Default)]
pub(crate) struct Lookalikes {
    /// Notified when the names may have changed.
    news: Notify,
    found: Mutex<Arc<Vec<Lookalike>>>,
    logged: Mutex<HashSet<Key>>,
}

impl Lookalikes {
    /// Returns the pairs that were found last.
    pub(crate) fn pairs(&self) -> Arc<Vec<Lookalike>> {
        Arc::clone(&lock(&self.found))
    }

    /// Requests a new comparison, because the names may have changed.
    pub(crate) fn request_comparison(&self) {
        self.news.notify_one();
    }

    /// Logs similar names, each pair once.
    fn log(&self) {
        let mut logged = lock(&self.logged);
        if logged.len() > MAX_REMEMBERED {
            logged.clear();
        }
        let found = self.pairs();
        let news: Vec<&Lookalike> = found.iter().filter(|pair| logged.insert(key(pair))).collect();
        // The same name on two servers is usual; one that only looks the same is not.
        let (same, alike): (Vec<&Lookalike>, Vec<&Lookalike>) =
            news.into_iter().partition(|pair| pair.likeness == Likeness::Same.as_str());
        for Lookalike { first, second, likeness } in alike.iter().take(MAX_LOGGED) {
            let (one, other) = (quoted_name(first), quoted_name(second));
            tracing::warn!(one, other, likeness, "confusable tool names");
        }
        if alike.len() > MAX_LOGGED {
            tracing::warn!(more = alike.len() - MAX_LOGGED, "further confusable tool names");
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
/// where lists are built: no request has to wait for it, and servers that start together are
/// compared once.
pub(crate) async fn compare_names(catalog: Weak<CatalogView>, names: Arc<Lookalikes>) {
    let mut seen = None;
    loop {
        // Waiting must not keep the gateway alive.
        if tokio::time::timeout(LIVENESS_CHECK, names.news.notified()).await.is_ok() {
            tokio::time::sleep(DEBOUNCE).await;
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
                tools.map(|tool| (tool.server_name().unwrap_or_default(), tool.bare_name())).collect();
            find_lookalikes(&all)
        });
        let Ok(found) = found.await else { return };
        *lock(&names.found) = Arc::new(found);
        names.log();
    }
}

/// Returns a name in which every letter can be distinguished from similar ones.
fn quoted_name(name: &ToolName) -> String {
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
            assert_eq!(quoted_name(&ToolName { server: "thief".to_owned(), tool: tool.to_owned() }), expected);
        };
        check("transfer_money", "thief/transfer_money");
        check("transfer_m\u{43e}ney", "thief/transfer_m\\u{43e}ney");
    }
}
