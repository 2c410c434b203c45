//! Tools of different servers with similar names.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use pegboard_core::{
    Tool,
    naming::{self, Likeness},
    text,
};
use pegboard_upstream::{Upstream, config::ServerOrigin};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{catalog::CatalogView, lock};

/// How long to wait for further servers that start together before their names are compared.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// The interval of checks whether the gateway still exists.
const LIVENESS_CHECK: Duration = Duration::from_secs(30);

/// Maximum number of pairs of each kind whose descriptions and origins are compared.
const MAX_COMPARED: usize = 5_000;

/// Maximum number of reported suspicious pairs, of other pairs of similar names, and of pairs of equal
/// names.
const MAX_LISTED: usize = 200;

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
    /// Whether one may imitate the other: servers of different origins use letters that only look
    /// the same, or a similar name with nearly the same description.
    #[serde(default)]
    pub is_suspicious: bool,
}

/// The numbers of all pairs, also of those that are not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct LookalikeCounts {
    /// Pairs of which one may imitate the other.
    pub suspicious: usize,
    /// Other pairs of similar names.
    pub similar: usize,
    /// Pairs of equal names.
    pub same: usize,
}

impl LookalikeCounts {
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn of(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Suspicious => &mut self.suspicious,
            Class::Similar => &mut self.similar,
            Class::Same => &mut self.same,
        }
    }
}

/// Pairs that are listed and counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Suspicious,
    Similar,
    Same,
}

impl Lookalike {
    fn class(&self) -> Class {
        match self {
            Self { is_suspicious: true, .. } => Class::Suspicious,
            pair if pair.likeness == Likeness::Same.as_str() => Class::Same,
            _ => Class::Similar,
        }
    }
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

/// A tool to compare.
struct Compared<'a> {
    server: &'a str,
    name: &'a str,
    description: &'a str,
    /// The origin of the server, where it is known.
    origin: Option<&'a ServerOrigin>,
}

impl<'a> Compared<'a> {
    fn new(tool: &'a Tool, origins: &'a HashMap<String, ServerOrigin>) -> Self {
        let server = tool.server_name().unwrap_or_default();
        Self { server, name: tool.bare_name(), description: tool.description(), origin: origins.get(server) }
    }
}

/// Pairs of similar names.
#[derive(Debug, Default)]
struct Comparison {
    /// The pairs, suspicious ones first.
    pairs: Arc<Vec<Lookalike>>,
    counts: LookalikeCounts,
}

impl Comparison {
    fn of(tools: &[Compared<'_>]) -> Self {
        let names: Vec<(&str, &str)> = tools.iter().map(|tool| (tool.server, tool.name)).collect();
        let found = naming::lookalikes(&names, MAX_COMPARED);
        let mut counts = LookalikeCounts::default();
        // Pairs that were not compared count as what they may be.
        for (likeness, class) in [
            (Likeness::Confusable, Class::Suspicious),
            (Likeness::Slip, Class::Similar),
            (Likeness::Spelling, Class::Similar),
            (Likeness::Same, Class::Same),
        ] {
            *counts.of(class) += found.count(likeness).saturating_sub(MAX_COMPARED);
        }
        let mut listed = LookalikeCounts::default();
        let mut pairs = Vec::new();
        for (first, second, likeness) in found.pairs {
            let (Some(first), Some(second)) = (tools.get(first), tools.get(second)) else { continue };
            let pair = pair(first, second, likeness);
            let class = pair.class();
            *counts.of(class) += 1;
            if *listed.of(class) < MAX_LISTED {
                *listed.of(class) += 1;
                pairs.push(pair);
            }
        }
        pairs.sort_by_key(Lookalike::class);
        Self { pairs: Arc::new(pairs), counts }
    }

    /// Returns the numbers of pairs that are not listed.
    fn omitted(&self) -> LookalikeCounts {
        let mut omitted = self.counts;
        for pair in self.pairs.iter() {
            let count = omitted.of(pair.class());
            *count = count.saturating_sub(1);
        }
        omitted
    }
}

fn pair(first: &Compared<'_>, second: &Compared<'_>, likeness: Likeness) -> Lookalike {
    let name = |tool: &Compared<'_>| ToolName { server: tool.server.to_owned(), tool: tool.name.to_owned() };
    // A server that is configured twice does not imitate itself.
    let is_same_origin = first.origin.is_some() && first.origin == second.origin;
    let is_suspicious = !is_same_origin
        && match likeness {
            Likeness::Same => false,
            Likeness::Confusable => true,
            Likeness::Spelling | Likeness::Slip => is_same_description(first.description, second.description),
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
    found: Mutex<Arc<Comparison>>,
    logged: Mutex<Logged>,
}

/// What was logged.
#[derive(Debug, Default)]
struct Logged {
    pairs: HashSet<Key>,
    /// The numbers of pairs that were not listed.
    omitted: LookalikeCounts,
}

impl Lookalikes {
    /// Returns the pairs that were found last, suspicious ones first. Their number is limited.
    pub(crate) fn pairs(&self) -> Arc<Vec<Lookalike>> {
        Arc::clone(&lock(&self.found).pairs)
    }

    /// Returns the numbers of all pairs that were found last.
    pub(crate) fn counts(&self) -> LookalikeCounts {
        lock(&self.found).counts
    }

    /// Requests a new comparison, because the names may have changed.
    pub(crate) fn request_comparison(&self) {
        self.news.notify_one();
    }

    /// Logs similar names, each pair once, and the number of those that are not listed when it changes.
    fn log(&self) {
        let found = Arc::clone(&lock(&self.found));
        let mut logged = lock(&self.logged);
        if logged.pairs.len() > MAX_REMEMBERED {
            logged.pairs.clear();
        }
        let mut news: BTreeMap<Class, Vec<&Lookalike>> = BTreeMap::new();
        for pair in found.pairs.iter().filter(|pair| logged.pairs.insert(key(pair))) {
            news.entry(pair.class()).or_default().push(pair);
        }
        let mut omitted = found.omitted();
        let mut before = std::mem::replace(&mut logged.omitted, omitted);
        // Similar names of honest servers are usual; one that imitates another is not.
        for class in [Class::Suspicious, Class::Similar, Class::Same] {
            let news = news.remove(&class).unwrap_or_default();
            let (omitted, before) = (*omitted.of(class), *before.of(class));
            if !news.is_empty() || omitted > before {
                log_class(class, &news, omitted);
            }
        }
    }
}

/// Logs new pairs of one class, and how many further ones are not listed.
fn log_class(class: Class, news: &[&Lookalike], omitted: usize) {
    match class {
        Class::Suspicious => {
            for Lookalike { first, second, likeness, .. } in news.iter().take(MAX_LOGGED) {
                let (one, other) = (quoted_name(first), quoted_name(second));
                tracing::warn!(one, other, likeness, "confusable tool names");
            }
            let more = news.len().saturating_sub(MAX_LOGGED) + omitted;
            if more > 0 {
                tracing::warn!(more, omitted, "further confusable tool names");
            }
        }
        Class::Similar => {
            let names = news.iter().take(MAX_LOGGED);
            let names = names.map(|pair| format!("{} {}", quoted_name(&pair.first), quoted_name(&pair.second)));
            let names = text::brief(&names.collect::<Vec<_>>().join(", "), 400);
            tracing::info!(count = news.len(), omitted, names, "similar tool names of several servers");
        }
        Class::Same => {
            let tools: BTreeSet<&str> = news.iter().map(|pair| pair.first.tool.as_str()).collect();
            let names = tools.iter().map(|tool| text::brief(tool, 80)).collect::<Vec<_>>().join(", ");
            let names = text::brief(&names, 400);
            tracing::info!(count = tools.len(), omitted, names, "tool names used by several servers");
        }
    }
}

/// Returns the origins of servers by their names.
fn origins_of(servers: &[Arc<Upstream>]) -> HashMap<String, ServerOrigin> {
    let origin = |server: &Arc<Upstream>| Some((server.name().to_owned(), server.config().transport.origin()?));
    servers.iter().filter_map(origin).collect()
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
        let origins = Arc::new(origins_of(&directory.servers));
        let now = Some((catalog.version(), directory.held.len(), Arc::clone(&origins)));
        if seen == now {
            continue;
        }
        seen = now;
        let found = tokio::task::spawn_blocking(move || {
            let tools = catalog.iter().chain(&directory.held);
            let all: Vec<Compared<'_>> = tools.map(|tool| Compared::new(tool, &origins)).collect();
            Comparison::of(&all)
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
    use pegboard_upstream::config::TransportConfig;

    use super::*;

    fn package(name: &str) -> ServerOrigin {
        let transport = TransportConfig::Stdio {
            command: "npx".to_owned(),
            args: vec![name.to_owned()],
            env: Vec::new(),
            cwd: None,
        };
        transport.origin().expect("an origin")
    }

    #[test]
    fn names_of_honest_servers_are_not_suspicious() {
        let (one, two) = (package("one"), package("two"));
        let compare = |first: (&str, &str), second: (&str, &str), origin: Option<&ServerOrigin>| {
            let tool =
                |server: &'static str, (name, description), origin| Compared { server, name, description, origin };
            let tools = [tool("a", first, Some(&one)), tool("b", second, origin)];
            let found = Comparison::of(&tools);
            found.pairs.iter().map(|pair| format!("{} {}", pair.likeness, pair.is_suspicious)).collect::<Vec<_>>()
        };
        let check = |first: (&str, &str), second: (&str, &str), expected: &str| {
            for origin in [Some(&two), None] {
                assert_eq!(compare(first, second, origin), [expected], "{first:?} {second:?}");
            }
            // A package that is configured twice.
            let (likeness, _) = expected.split_once(' ').expect("two words");
            assert_eq!(compare(first, second, Some(&one)), [format!("{likeness} false")], "{first:?} {second:?}");
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

    /// A server with many tools that is configured twice, and one that imitates a tool of it.
    #[test]
    fn usual_names_do_not_hide_suspicious_ones() {
        let origin = package("one");
        let names: Vec<String> = (0..235).map(|n| format!("a{n}_shared")).collect();
        let tool = |server, name, origin| Compared { server, name, description: "Works.", origin };
        let mut tools: Vec<Compared<'_>> = Vec::new();
        for server in ["one", "again"] {
            tools.extend(names.iter().map(|name| tool(server, name, Some(&origin))));
            tools.push(tool(server, "transfer_money", Some(&origin)));
        }
        tools.push(tool("thief", "transfer_m\u{43e}ney", None));
        let found = Comparison::of(&tools);
        let first = &found.pairs[0];
        assert_eq!((first.second.server.as_str(), first.is_suspicious), ("thief", true));
        assert_eq!(found.counts, LookalikeCounts { suspicious: 1, similar: 0, same: 236 });
        assert_eq!(found.omitted(), LookalikeCounts { suspicious: 0, similar: 0, same: 36 });
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
