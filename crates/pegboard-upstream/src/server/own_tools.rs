//! Tools that a server offers on the connection of one client and not on the catalog connection, and the
//! other way round.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use pegboard_core::locks::lock;
use pegboard_mcp::json::Raw;

use super::{
    ClientOwner, Upstream,
    client::{ClientId, ConnectionKey},
    differences::is_same,
};
use crate::{
    connection::Notice,
    listing::{Item, Lists},
};

/// Maximum number of such tools of all clients that are compared with the approved tools, and of further definitions of
/// tools; others are held where unapproved tools are, and are not offered for approval.
const MAX_REVIEWED: usize = 1000;

/// Maximum number of further definitions of one tool; the oldest makes room.
const MAX_VARIANTS: usize = 8;

/// Maximum number of lists of one owner; the oldest makes room.
const MAX_LISTS: usize = 16;

/// How the tools on the connection of one client differ from those of the server's catalog connection.
#[derive(Debug, Default)]
pub struct OwnTools {
    /// The tools that the client may use.
    pub tools: Vec<Item>,
    /// The tools that are held until they are approved.
    pub held: Vec<Item>,
    /// The names of the tools that only the catalog connection has.
    pub missing: BTreeSet<String>,
}

impl OwnTools {
    fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.held.is_empty() && self.missing.is_empty()
    }

    fn is_same(&self, other: &Self) -> bool {
        let texts = |items: &[Item]| items.iter().map(|item| item.raw.get().to_owned()).collect::<Vec<_>>();
        texts(&self.tools) == texts(&other.tools)
            && texts(&self.held) == texts(&other.held)
            && self.missing == other.missing
    }

    /// Returns the lists of the server as this client sees them: without the tools that its connection does
    /// not have, and with its own at the end. A tool that the catalog connection has by now stays as it is
    /// there.
    pub fn added_to(&self, lists: &Lists) -> Lists {
        let known: HashSet<&str> = lists.tools.iter().chain(&*lists.held).map(|item| item.key.as_str()).collect();
        let with = |list: &[Item], more: &[Item]| {
            let there = list.iter().filter(|item| !self.missing.contains(&item.key));
            let more = more.iter().filter(|item| !known.contains(item.key.as_str()));
            Arc::new(there.chain(more).cloned().collect::<Vec<_>>())
        };
        Lists { tools: with(&lists.tools, &self.tools), held: with(&lists.held, &self.held), ..lists.clone() }
    }
}

/// The lists of one owner.
type ListsOfOwner = Vec<(ClientId, Arc<OwnTools>)>;

/// The tools that only the connections of single clients have, by client.
#[derive(Debug, Default)]
pub(super) struct OwnToolLists {
    /// The lists of each owner, the newest last: a token can be used by clients with different capabilities.
    clients: Mutex<HashMap<ClientOwner, ListsOfOwner>>,
    /// The number of owners, so that requests need no lock where there are none.
    count: AtomicUsize,
    /// All such tools, as a client got them last, for approval.
    reviewed: Mutex<BTreeMap<String, Item>>,
    /// Definitions of tools of the catalog connection that differ from it, for approval.
    variants: Mutex<Vec<Item>>,
}

impl OwnToolLists {
    /// Sets the tools of a client; returns whether they are others now.
    fn set(&self, client: ClientId, own: OwnTools) -> bool {
        let mut clients = lock(&self.clients);
        let lists = clients.entry(client.owner).or_default();
        let known = lists.iter().find(|(id, _)| *id == client);
        let is_same = known.map_or(own.is_empty(), |(_, known)| known.is_same(&own));
        if !is_same {
            lists.retain(|(id, _)| *id != client);
            if !own.is_empty() {
                lists.push((client, Arc::new(own)));
            }
            let surplus = lists.len().saturating_sub(MAX_LISTS);
            lists.drain(..surplus);
        }
        clients.retain(|_, lists| !lists.is_empty());
        self.count.store(clients.len(), Ordering::Relaxed);
        !is_same
    }

    fn find(&self, owner: ClientOwner, capabilities: impl FnOnce() -> Raw) -> Option<Arc<OwnTools>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let clients = lock(&self.clients);
        let lists = clients.get(&owner)?;
        let client = ClientId::new(owner, &capabilities());
        lists.iter().find(|(id, _)| *id == client).map(|(_, own)| Arc::clone(own))
    }

    /// Removes the tools of a client that is gone.
    pub(super) fn forget(&self, owner: ClientOwner) {
        let mut clients = lock(&self.clients);
        clients.remove(&owner);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Returns the tools to compare with the approved ones, after those of the catalog connection.
    pub(super) fn with_reviewed(&self, offered: &Arc<Vec<Item>>) -> Arc<Vec<Item>> {
        let reviewed = lock(&self.reviewed);
        if reviewed.is_empty() {
            return Arc::clone(offered);
        }
        let known: HashSet<&str> = offered.iter().map(|item| item.key.as_str()).collect();
        let more = reviewed.values().filter(|item| !known.contains(item.key.as_str()));
        Arc::new(offered.iter().chain(more).cloned().collect())
    }

    /// Returns the definitions to compare that differ from those of the catalog connection.
    pub(super) fn variants(&self) -> Vec<Item> {
        lock(&self.variants).clone()
    }

    /// Adds definitions that differ from those of the catalog connection; returns whether one is new.
    pub(super) fn add_variants<'a>(&self, tools: impl Iterator<Item = &'a Item>) -> bool {
        let mut variants = lock(&self.variants);
        let mut is_new = false;
        for tool in tools {
            let of_tool: Vec<usize> = (0..variants.len()).filter(|at| variants[*at].key == tool.key).collect();
            if of_tool.iter().any(|at| is_same(&variants[*at], tool)) {
                continue;
            }
            if of_tool.len() >= MAX_VARIANTS {
                variants.remove(of_tool[0]);
            } else if variants.len() >= MAX_REVIEWED {
                variants.remove(0);
            }
            variants.push(tool.clone());
            is_new = true;
        }
        is_new
    }

    /// Adds tools to those that are compared; returns whether one is new or has another definition.
    fn add_reviewed(&self, tools: &[Item]) -> bool {
        let mut reviewed = lock(&self.reviewed);
        let mut is_changed = false;
        for tool in tools {
            let is_known = match reviewed.get(&tool.key) {
                Some(known) => is_same(known, tool),
                None => reviewed.len() >= MAX_REVIEWED,
            };
            if !is_known {
                reviewed.insert(tool.key.clone(), tool.clone());
                is_changed = true;
            }
        }
        is_changed
    }
}

impl Upstream {
    /// Returns how the tools on the connection of this client differ. `capabilities` are those that the
    /// client has declared, as in [`CallClient`](super::CallClient).
    pub fn own_tools(&self, owner: ClientOwner, capabilities: impl FnOnce() -> Raw) -> Option<Arc<OwnTools>> {
        self.own_tool_lists.find(owner, capabilities)
    }

    /// Remembers the tools that only this connection has and those that it does not have, if it is the
    /// connection of a client, and announces a change.
    pub(super) async fn remember_own_tools(
        &self,
        key: ConnectionKey,
        offered: &[Item],
        is_held: impl Fn(&Item) -> bool,
    ) {
        let ConnectionKey::Client(client) = key else { return };
        let lists = self.lists();
        let known: HashSet<&str> = lists.offered.iter().map(|item| item.key.as_str()).collect();
        let here: HashSet<&str> = offered.iter().map(|item| item.key.as_str()).collect();
        let missing = known.iter().filter(|name| !here.contains(*name)).map(|name| (*name).to_owned()).collect();
        let own: Vec<Item> = offered.iter().filter(|item| !known.contains(item.key.as_str())).cloned().collect();
        if self.approvals().is_some() && self.own_tool_lists.add_reviewed(&own) {
            self.review_pins().await;
        }
        let (held, tools) = own.into_iter().partition(is_held);
        if self.own_tool_lists.set(client, OwnTools { tools, held, missing })
            && let Some(source) = key.source()
        {
            let notice = Notice { method: "notifications/tools/list_changed".to_owned(), params: None, source };
            let _ = self.context.notices.try_send((self.name().into(), notice));
        }
    }
}

#[cfg(test)]
mod tests {
    use pegboard_mcp::json::raw;
    use serde_json::json;

    use super::*;

    fn items(names: &[&str]) -> Vec<Item> {
        names.iter().map(|name| Item { key: (*name).to_owned(), raw: raw(&json!({"name": name})).into() }).collect()
    }

    fn own(tools: &[&str]) -> OwnTools {
        OwnTools { tools: items(tools), ..OwnTools::default() }
    }

    #[test]
    fn a_client_sees_its_own_tools_alone() {
        let lists = OwnToolLists::default();
        let (ann, bob) = (ClientOwner::Session(1), ClientOwner::Session(2));
        let capabilities = || raw(&json!({}));
        assert!(lists.find(ann, capabilities).is_none());
        let id = ClientId::new(ann, &capabilities());
        assert!(!lists.set(id, own(&[])), "nothing is as before");
        assert!(lists.set(id, own(&["a"])) && !lists.set(id, own(&["a"])));
        assert_eq!(lists.find(ann, capabilities).expect("a list").tools[0].key, "a");
        assert!(lists.find(bob, capabilities).is_none());
        let roots = || raw(&json!({"roots": {}}));
        assert!(lists.find(ann, roots).is_none(), "another connection");
        let with_roots = ClientId::new(ann, &roots());
        assert!(lists.set(with_roots, own(&["b"])) && lists.set(with_roots, own(&["c"])));
        assert_eq!(lists.find(ann, roots).expect("a list").tools[0].key, "c");
        assert_eq!(lists.find(ann, capabilities).expect("a list").tools[0].key, "a", "both have theirs");
        assert!(lists.set(with_roots, own(&[])) && lists.find(ann, roots).is_none());
        lists.forget(bob);
        assert!(lists.find(ann, capabilities).is_some());
        lists.forget(ann);
        assert!(lists.find(ann, capabilities).is_none());
    }

    #[test]
    fn tools_of_the_catalog_stay_as_they_are() {
        let lists = Lists { tools: items(&["a"]).into(), held: items(&["b"]).into(), ..Lists::default() };
        let own = OwnTools { tools: items(&["b", "c"]), held: items(&["a", "d"]), ..OwnTools::default() };
        let shown = own.added_to(&lists);
        let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
        assert_eq!(
            (keys(&shown.tools), keys(&shown.held)),
            (vec!["a".into(), "c".into()], vec!["b".into(), "d".into()])
        );
    }

    #[test]
    fn tools_that_the_connection_does_not_have_are_not_listed() {
        let lists = Lists { tools: items(&["a", "b"]).into(), held: items(&["c"]).into(), ..Lists::default() };
        let missing = ["a", "c", "gone"].map(str::to_owned).into();
        let shown = OwnTools { tools: items(&["d"]), missing, ..OwnTools::default() }.added_to(&lists);
        let keys: Vec<&str> = shown.tools.iter().map(|item| item.key.as_str()).collect();
        assert_eq!((keys, shown.held.len()), (vec!["b", "d"], 0));
    }

    #[test]
    fn definitions_of_a_tool_are_bounded_and_the_newest_ones() {
        let lists = OwnToolLists::default();
        let titled = |title: usize| {
            let raw = raw(&json!({"name": "a", "title": title}));
            Item { key: "a".to_owned(), raw: raw.into() }
        };
        for title in 0..20 {
            let tool = [titled(title)];
            assert!(lists.add_variants(tool.iter()) && !lists.add_variants(tool.iter()));
        }
        assert!(lists.add_variants(items(&["b"]).iter()));
        let kept = lists.variants();
        assert_eq!((kept.len(), kept[0].raw.get()), (MAX_VARIANTS + 1, titled(20 - MAX_VARIANTS).raw.get()));
    }

    #[test]
    fn tools_for_approval_are_bounded_and_as_they_came_last() {
        let lists = OwnToolLists::default();
        let offered = Arc::new(items(&["a"]));
        assert!(Arc::ptr_eq(&lists.with_reviewed(&offered), &offered));
        assert!(lists.add_reviewed(&items(&["a", "b"])) && !lists.add_reviewed(&items(&["b"])));
        let keys: Vec<String> = lists.with_reviewed(&offered).iter().map(|item| item.key.clone()).collect();
        assert_eq!(keys, ["a", "b"]);
        // One that changes after its approval waits for another one.
        let changed = raw(&json!({"name": "b", "description": "other"}));
        let changed = [Item { key: "b".to_owned(), raw: changed.into() }];
        assert!(lists.add_reviewed(&changed) && !lists.add_reviewed(&changed));
        assert_eq!(lists.with_reviewed(&offered)[1].raw.get(), changed[0].raw.get());
        let many: Vec<String> = (0..2 * MAX_REVIEWED).map(|number| number.to_string()).collect();
        lists.add_reviewed(&items(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(lists.with_reviewed(&Arc::default()).len(), MAX_REVIEWED);
    }
}
