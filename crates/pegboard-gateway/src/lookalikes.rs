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

/// Maximum number of words of a description that are compared.
const MAX_WORDS: usize = 500;

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
    /// Whether one may imitate the other: with letters that only look the same, or with a similar
    /// name and nearly the same description.
    #[serde(default)]
    pub is_suspicious: bool,
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

/// A tool to compare: its server, its name and its description.
type Compared<'a> = (&'a str, &'a str, &'a str);

/// Returns the pairs among these tools.
fn find_lookalikes(tools: &[Compared<'_>]) -> Vec<Lookalike> {
    let names: Vec<(&str, &str)> = tools.iter().map(|(server, name, _)| (*server, *name)).collect();
    let pairs = naming::lookalikes(&names, MAX_LOOKALIKES).into_iter();
    pairs.filter_map(|(first, second, likeness)| Some(pair(tools.get(first)?, tools.get(second)?, likeness))).collect()
}

fn pair(first: &Compared<'_>, second: &Compared<'_>, likeness: Likeness) -> Lookalike {
    let name = |(server, tool, _): &Compared<'_>| ToolName { server: (*server).to_owned(), tool: (*tool).to_owned() };
    let is_suspicious = match likeness {
        Likeness::Same => false,
        Likeness::Confusable => true,
        Likeness::Spelling | Likeness::Slip => is_same_description(first.2, second.2),
    };
    Lookalike { first: name(first), second: name(second), likeness: likeness.as_str().to_owned(), is_suspicious }
}

/// Returns whether two descriptions have nearly the same words, so that only the name tells the
/// tools apart.
fn is_same_description(one: &str, other: &str) -> bool {
    let words = |text: &str| -> HashSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.take(MAX_WORDS).map(str::to_lowercase).collect()
    };
    let (one, other) = (words(one), words(other));
    let shared = one.intersection(&other).count();
    // Four of five words.
    shared > 0 && 5 * shared >= 4 * one.union(&other).count()
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
        // Similar names of honest servers are usual; one that imitates another is not.
        let (suspicious, usual): (Vec<&Lookalike>, Vec<&Lookalike>) =
            news.into_iter().partition(|pair| pair.is_suspicious);
        for Lookalike { first, second, likeness, .. } in suspicious.iter().take(MAX_LOGGED) {
            let (one, other) = (quoted_name(first), quoted_name(second));
            tracing::warn!(one, other, likeness, "confusable tool names");
        }
        if suspicious.len() > MAX_LOGGED {
            tracing::warn!(more = suspicious.len() - MAX_LOGGED, "further confusable tool names");
        }
        let (same, similar): (Vec<&Lookalike>, Vec<&Lookalike>) =
            usual.into_iter().partition(|pair| pair.likeness == Likeness::Same.as_str());
        if !similar.is_empty() {
            let names = similar.iter().take(MAX_LOGGED);
            let names = names.map(|pair| format!("{} {}", quoted_name(&pair.first), quoted_name(&pair.second)));
            let names = text::brief(&names.collect::<Vec<_>>().join(", "), 400);
            tracing::info!(count = similar.len(), names, "similar tool names of several servers");
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
            let all: Vec<Compared<'_>> = tools
                .map(|tool| (tool.server_name().unwrap_or_default(), tool.bare_name(), tool.description()))
                .collect();
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
    fn names_of_honest_servers_are_not_suspicious() {
        let check = |first: (&str, &str), second: (&str, &str), expected: &str| {
            let found = find_lookalikes(&[("a", first.0, first.1), ("b", second.0, second.1)]);
            let found: Vec<String> =
                found.iter().map(|pair| format!("{} {}", pair.likeness, pair.is_suspicious)).collect();
            assert_eq!(found, [expected], "{first:?} {second:?}");
        };
        let (gitlab, linear) = ("Updates a label of a project", "Change the name or colour of one or more labels");
        check(("update_label", gitlab), ("update-labels", linear), "slip false");
        check(("update_label", gitlab), ("updateLabel", linear), "spelling false");
        check(("update_label", ""), ("updateLabel", ""), "spelling false");
        check(("search", "Searches"), ("search", "Searches"), "same false");
        // One that says the same of itself may be meant for the other.
        check(("update_label", gitlab), ("update-label", "Updates a LABEL of a project."), "spelling true");
        check(("transfer_money", "Sends"), ("transfer_mоney", "Other"), "confusable true");
    }

    #[test]
    fn letters_that_look_alike_are_escaped() {
        let check = |tool: &str, expected: &str| {
            assert_eq!(quoted_name(&ToolName { server: "thief".to_owned(), tool: tool.to_owned() }), expected);
        };
        check("transfer_money", "thief/transfer_money");
        check("transfer_m\u{43e}ney", "thief/transfer_m\\u{43e}ney");
    }
}
