//! Tools that differ between the catalog connection and another one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use pegboard_core::{locks::lock, text};
use serde_json::Value;

use super::{Upstream, pool::Slot};
use crate::{
    config::Pinning,
    connection::{CallError, Link},
    handshake::Hello,
    listing::{self, Item, ListKind, Lists},
    pins::Offered,
};

/// Maximum number of differences that are remembered as logged; others are not logged.
const MAX_LOGGED: usize = 1000;

/// How a tool on another connection differs from the tool on the catalog connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// Its definition is another one.
    Changed,
    /// The catalog connection does not have it; the client of the connection alone sees it.
    New,
    /// Only the catalog connection has it; the client of the connection does not see it.
    Missing,
}

/// Returns the tools that differ, by name.
pub(super) fn differences(catalog: &[Item], other: &[Item]) -> Vec<(String, Difference)> {
    let known: HashMap<&str, &Item> = catalog.iter().map(|item| (item.key.as_str(), item)).collect();
    let names: BTreeSet<&str> = other.iter().map(|item| item.key.as_str()).collect();
    let of_other = other.iter().filter_map(|item| match known.get(item.key.as_str()) {
        None => Some((item.key.clone(), Difference::New)),
        Some(same) if is_same(same, item) => None,
        Some(_) => Some((item.key.clone(), Difference::Changed)),
    });
    let missing = catalog.iter().filter(|item| !names.contains(item.key.as_str()));
    of_other.chain(missing.map(|item| (item.key.clone(), Difference::Missing))).collect()
}

/// Returns whether two definitions are the same JSON, whatever the order of keys.
pub(super) fn is_same(one: &Item, other: &Item) -> bool {
    let value = |item: &Item| serde_json::from_str::<Value>(item.raw.get()).ok();
    one.raw.get() == other.raw.get() || value(one) == value(other)
}

impl Upstream {
    /// Returns whether tools of further connections are compared with what was approved before they
    /// are called.
    pub(super) fn is_holding(&self) -> bool {
        self.approvals().is_some() && self.config.pinning() == Pinning::Hold
    }

    /// Compares the tools on a further connection with those of the catalog connection, logs what
    /// differs, remembers what only its client gets, and holds back what is not approved where that is
    /// configured.
    pub(super) async fn review_tools(&self, slot: &Slot, link: &Arc<Link>, hello: &Hello) -> Result<(), CallError> {
        let mut lists = Lists::default();
        if hello.capabilities.has(ListKind::Tools.capability()) {
            listing::refresh_list(link, ListKind::Tools, &mut lists, self.config.timeouts.connect).await?;
        }
        let offered = Arc::clone(&lists.offered);
        let found = differences(&self.lists().offered, &offered);
        self.log_differences(&found);
        self.offer_variants(&found, &offered).await;
        let Some(pins) = self.approvals().cloned().filter(|_| self.is_holding()) else {
            self.remember_own_tools(slot.key, &offered, |_| false).await;
            return Ok(());
        };
        let (config, reviewed) = (self.config.clone(), Arc::clone(&offered));
        let review = move || pins.review(&config, Offered::of_client(&reviewed), false);
        let review = tokio::task::spawn_blocking(review).await;
        let held: BTreeSet<String> = match review {
            Ok(review) => review.held.into_iter().collect(),
            Err(_) => offered.iter().map(|item| item.key.clone()).collect(),
        };
        slot.hold(held.clone());
        self.remember_own_tools(slot.key, &offered, |item| held.contains(&item.key)).await;
        Ok(())
    }

    /// Offers tools for approval whose definition differs from that of the catalog connection.
    async fn offer_variants(&self, differences: &[(String, Difference)], offered: &[Item]) {
        let changed = differences.iter().filter(|(_, kind)| *kind == Difference::Changed);
        let names: BTreeSet<&str> = changed.map(|(name, _)| name.as_str()).collect();
        let changed = offered.iter().filter(|item| names.contains(item.key.as_str()));
        if self.approvals().is_some() && self.own_tool_lists.add_variants(changed) {
            self.review_pins().await;
            // For those who look at what waits.
            self.context.changed();
        }
    }

    /// Logs each difference once.
    fn log_differences(&self, differences: &[(String, Difference)]) {
        let mut logged = lock(&self.logged_differences);
        for (tool, difference) in differences {
            if logged.len() >= MAX_LOGGED || !logged.insert((tool.clone(), *difference)) {
                continue;
            }
            let (server, tool) = (self.name(), &*text::line(tool));
            match difference {
                Difference::Changed => tracing::warn!(server, tool, "tool differs on the connection of a client"),
                Difference::New => tracing::info!(server, tool, "tool exists only on the connection of a client"),
                Difference::Missing => tracing::info!(server, tool, "tool missing on the connection of a client"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pegboard_mcp::json::Raw;

    use super::*;

    #[track_caller]
    fn check(catalog: &[(&str, &str)], other: &[(&str, &str)], expected: &[(&str, Difference)]) {
        let list = |items: &[(&str, &str)]| -> Vec<Item> {
            let item = |(key, text): &(&str, &str)| {
                let raw: Raw = serde_json::from_str(text).expect("JSON");
                Item { key: (*key).to_owned(), raw: raw.into() }
            };
            items.iter().map(item).collect()
        };
        let found = differences(&list(catalog), &list(other));
        let found: Vec<(&str, Difference)> = found.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn tools_are_compared_by_content() {
        check(&[("a", "{}")], &[("a", "{}")], &[]);
        check(&[("a", r#"{"x":1,"y":2}"#)], &[("a", r#"{"y":2, "x":1}"#)], &[]);
        check(&[("a", r#"{"x":1}"#)], &[("a", r#"{"x":2}"#)], &[("a", Difference::Changed)]);
        check(&[("a", "{}")], &[("b", "{}")], &[("b", Difference::New), ("a", Difference::Missing)]);
    }
}
