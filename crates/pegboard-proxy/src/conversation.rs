//! Turns that clients have not seen, found again by what the clients have seen.
//!
//! A [`Link`] is the hash of a conversation up to some place: of the link before it and of what the client has written or
//! seen since. It begins with the route, the upstream and a keyed hash of the credential. Forks, retries and several
//! clients with the same conversation find the same turns.

mod memory;

use std::{
    borrow::Cow,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use pegboard_state::{FileKind, Key, Sealer, Store, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use self::memory::Memory;
use crate::{
    catalog::CALL,
    json::write_canonical,
    wires::{Said, ThoughtPlace, Wire},
};

/// A place in a conversation.
pub(crate) type Link = [u8; 32];

/// The files of turns.
const KIND: FileKind = FileKind { name: "turn", version: 1, max_bytes: MAX_TURN_BYTES };

/// Maximum size of a saved turn. Larger ones are kept in memory only.
const MAX_TURN_BYTES: usize = 4 << 20;

/// Maximum number of saved turns and items.
const MAX_SAVED_TURNS: usize = 50_000;

/// Maximum size of all saved turns and items.
const MAX_SAVED_BYTES: u64 = 1 << 30;

/// How many turns are saved before old ones are removed.
const PRUNE_INTERVAL: u64 = 512;

/// A declared tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Declared {
    /// The name; `None` for tools of the provider.
    pub(crate) name: Option<String>,
    /// The definition as it is sent.
    pub(crate) definition: String,
}

/// Returns whether found tools are called through `call_tool` where these tools are declared.
pub(crate) fn is_constant(declared: &[Declared]) -> bool {
    declared.iter().any(|tool| tool.name.as_deref() == Some(CALL))
}

/// What the provider has seen of a turn, as far as that is not what the client has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The items in place of what the client has seen; `None` if they are the same.
    pub(crate) items: Option<Vec<String>>,
    /// Answers that go together with the client's next item.
    pub(crate) parked: Vec<String>,
    /// A text at the end of the client's item before the turn.
    pub(crate) note: Option<String>,
    /// The tools that were declared at the end of the turn.
    pub(crate) declared: Vec<Declared>,
    /// The id by which the provider knows all rounds of the turn, where that is another one than the client's.
    pub(crate) response: Option<String>,
    /// Whether turns before it were not known when it was made. Its thinking is valid behind the same history only.
    #[serde(default)]
    pub(crate) is_behind_miss: bool,
}

impl Turn {
    fn bytes(&self) -> usize {
        let items = self.items.iter().flatten().chain(&self.parked).chain(&self.note).map(String::len);
        let declared = self.declared.iter().map(|tool| tool.definition.len() + 64);
        items.chain(declared).sum::<usize>() + 256
    }
}

/// The turns of all conversations.
#[derive(Debug)]
pub(crate) struct Conversations {
    memory: Memory,
    disk: Option<Disk>,
    key: Arc<Key>,
}

#[derive(Debug)]
struct Disk {
    store: Store,
    sealer: Sealer,
    lifetime: Duration,
    saved: AtomicU64,
}

impl Conversations {
    /// Opens the folder; without one, turns are kept in memory only.
    pub(crate) fn open(folder: Option<&Path>, lifetime: Duration) -> io::Result<Self> {
        let memory = Memory::new(lifetime);
        let Some(folder) = folder else {
            return Ok(Self { memory, disk: None, key: Arc::new(Key::random()?) });
        };
        let store = Store::open(folder, KIND)?;
        let key = Arc::new(Key::of(&pegboard_state::Folder::open(folder)?)?);
        let sealer = Sealer::new(store.key(), "proxy turns")?;
        let disk = Disk { store, sealer, lifetime, saved: AtomicU64::new(0) };
        disk.prune();
        Ok(Self { memory, disk: Some(disk), key })
    }

    /// Returns whether a turn of this root may be known: without one, no request has hidden turns. This may read a file.
    pub(crate) fn has_turns(&self, root: &Link) -> bool {
        let mark = mark_link(root);
        let is_known = self.get(&mark).is_some();
        if is_known {
            // It lasts as long as the turns that the request may use.
            self.touch(&mark);
        }
        is_known
    }

    /// Remembers that a turn of this root is known. This may write a file.
    pub(crate) fn mark(&self, root: &Link) {
        let mark = mark_link(root);
        if self.memory.get(&mark).is_none() || !self.touch(&mark) {
            self.put(&[mark], Turn::default());
        }
    }

    /// Renews the lifetime of a saved turn; returns whether it is saved, if turns are.
    fn touch(&self, link: &Link) -> bool {
        self.disk.as_ref().is_none_or(|disk| disk.store.touch(&hex(link)).is_ok())
    }

    /// Returns the beginning of all conversations of a credential with an upstream.
    pub(crate) fn root(&self, route: &str, upstream: &str, credential: &[u8]) -> Link {
        self.key.sign("proxy conversation", [route.as_bytes(), upstream.as_bytes(), credential])
    }

    /// Returns a turn. This may read a file.
    pub(crate) fn get(&self, link: &Link) -> Option<Arc<Turn>> {
        if let Some(turn) = self.memory.get(link) {
            return Some(turn);
        }
        let turn = Arc::new(self.disk.as_ref()?.load(link)?);
        self.memory.put(*link, Arc::clone(&turn), turn.bytes());
        Some(turn)
    }

    /// Returns an item that the provider keeps, by its id. This may read a file.
    pub(crate) fn item(&self, root: &Link, id: &str) -> Option<Value> {
        let kept = self.get(&item_link(root, id))?;
        serde_json::from_str(kept.items.as_ref()?.first()?).ok()
    }

    /// Keeps an item for requests that refer to it by its id. This writes a file.
    pub(crate) fn put_item(&self, root: &Link, id: &str, item: String) {
        self.put(&[item_link(root, id)], Turn { items: Some(vec![item]), ..Turn::default() });
    }

    /// Keeps a turn under each of the links. This writes files.
    pub(crate) fn put(&self, links: &[Link], turn: Turn) {
        let bytes = turn.bytes();
        let turn = Arc::new(turn);
        for link in links {
            self.memory.put(*link, Arc::clone(&turn), bytes);
            if let Some(disk) = &self.disk
                && let Err(error) = disk.save(link, &turn)
            {
                tracing::warn!(%error, "turn not saved");
            }
        }
    }
}

impl Disk {
    fn load(&self, link: &Link) -> Option<Turn> {
        let name = hex(link);
        let sealed = self.store.load(&name).ok()?;
        let age = self.store.modified(&name).ok()?.elapsed().unwrap_or_default();
        if age > self.lifetime {
            let _ = self.store.remove(&name);
            return None;
        }
        let turn = serde_json::from_slice(&self.sealer.open(link, &sealed)?).ok()?;
        // It is kept for the lifetime after its last use. If that fails, it is kept for less.
        let _ = self.store.touch(&name);
        Some(turn)
    }

    fn save(&self, link: &Link, turn: &Turn) -> io::Result<()> {
        let content = serde_json::to_vec(turn)?;
        self.store.save(&hex(link), &self.sealer.seal(link, &content)?)?;
        if self.saved.fetch_add(1, Ordering::Relaxed) % PRUNE_INTERVAL == PRUNE_INTERVAL - 1 {
            self.prune();
        }
        Ok(())
    }

    /// Removes turns beyond their lifetime, and the oldest ones beyond the maximum number and size.
    fn prune(&self) {
        let mut names = self.store.names().unwrap_or_default();
        names.sort_by_key(|(_, used)| std::cmp::Reverse(*used));
        let now = SystemTime::now();
        let is_old = |used: &SystemTime| now.duration_since(*used).is_ok_and(|age| age > self.lifetime);
        let mut bytes = 0_u64;
        for (at, (name, used)) in names.iter().enumerate() {
            bytes += self.store.size(name).unwrap_or_default();
            if at >= MAX_SAVED_TURNS || bytes > MAX_SAVED_BYTES || is_old(used) {
                // Another process may have removed it already.
                let _ = self.store.remove(name);
            }
        }
    }
}

fn hex(link: &Link) -> String {
    link.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the link after an item of the client.
fn after_client(link: &Link, item: &mut Value) -> Link {
    // Clients write a text as a list of blocks once they mark it for the prompt cache.
    if let Some(content) = item.get_mut("content").filter(|content| content.is_string()) {
        *content = json!([{"type": "text", "text": content.take()}]);
    }
    let mut message = [&link[..], b"client"].concat();
    write_canonical(item, &mut message);
    digest(&message)
}

/// Returns the link after a turn of the model.
pub(crate) fn after_model(link: &Link, said: &Said) -> Link {
    let mut message = [&link[..], b"model"].concat();
    said.write_canonical(&mut message);
    digest(&message)
}

/// Returns the link after the response with this id, for requests that go on from it.
pub(crate) fn after_response(root: &Link, id: &str) -> Link {
    digest(&[&root[..], b"response", id.as_bytes()].concat())
}

/// Returns the place that tells that a turn of a root is known.
fn mark_link(root: &Link) -> Link {
    digest(&[&root[..], b"mark"].concat())
}

/// Returns the place of an item that the provider keeps under this id.
fn item_link(root: &Link, id: &str) -> Link {
    digest(&[&root[..], b"item", id.as_bytes()].concat())
}

/// The history of a request as the provider must see it.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The items, separated by commas.
    pub(crate) text: String,
    /// The place before the turn that the answer belongs to.
    pub(crate) link: Link,
    /// What the model has said in that turn already.
    pub(crate) open: Said,
    /// The same as items.
    pub(crate) open_items: Vec<String>,
    /// The tools that were declared in the newest known turn.
    pub(crate) declared: Option<Vec<Declared>>,
    /// Whether known turns may have references to tools.
    pub(crate) may_have_references: bool,
    /// The id of the response before it, as the provider knows it.
    pub(crate) previous: Option<String>,
    /// Tools that the model has called in turns that are not known.
    pub(crate) called: Vec<String>,
    /// Whether hidden turns are not known any more.
    pub(crate) is_miss: bool,
    /// The place of the client's first item that the provider must get in another form, or with further items.
    pub(crate) first_hidden: Option<usize>,
    /// Whether the open turn is one of these.
    pub(crate) is_open_hidden: bool,
    /// The last item, if it is the client's.
    pub(crate) last: Option<Value>,
    /// Where the last item begins in `text`.
    last_start: usize,
}

impl History {
    fn push(&mut self, item: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.last_start = self.text.len();
        self.text.push_str(item);
    }

    /// Returns the last item.
    pub(crate) fn last_item(&self) -> &str {
        &self.text[self.last_start..]
    }

    /// Replaces the items for which `change` returns another one.
    pub(crate) fn rewrite(&mut self, change: impl Fn(&str) -> Option<String>) {
        let whole = format!("[{}]", self.text);
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(&whole) else { return };
        self.text.clear();
        for item in items {
            self.push(change(item.get()).as_deref().unwrap_or(item.get()));
        }
        for item in &mut self.open_items {
            *item = change(item).unwrap_or_else(|| std::mem::take(item));
        }
    }

    /// Replaces the last item.
    pub(crate) fn replace_last(&mut self, item: &str) {
        self.text.truncate(self.last_start);
        self.text.push_str(item);
    }
}

/// Restores the history of a request. `is_deferrable` tells whether a tool may have been found by a hidden search. An error
/// is the reason to pass the request through.
pub(crate) fn restore(
    conversations: &Conversations,
    wire: &dyn Wire,
    root: Link,
    previous: Option<&str>,
    items: &[Cow<'_, str>],
    is_deferrable: &dyn Fn(&str) -> bool,
) -> Result<History, &'static str> {
    let history = History { link: root, ..History::default() };
    let parsed: Result<Vec<Value>, _> = items.iter().map(|raw| serde_json::from_str(raw)).collect();
    let mut parsed: Vec<Value> = parsed.map_err(|_| "unreadable-history")?;
    let mut resolved = vec![false; parsed.len()];
    for (item, is_resolved) in parsed.iter_mut().zip(&mut resolved) {
        // The place of a turn is that of the items themselves, however a client writes them.
        if let Some(kept) = wire.referred(item).and_then(|id| conversations.item(&root, id)) {
            (*item, *is_resolved) = (kept, true);
        }
    }
    if let Some(reason) = parsed.iter().find_map(|item| wire.item_bypass(item)) {
        return Err(reason);
    }
    let mut restorer = Restorer {
        conversations,
        wire,
        history,
        parked: Vec::new(),
        known: Vec::new(),
        loop_start: loop_start(wire, &parsed),
        turn_start: 0,
        is_reference_unknown: false,
        resolved: Vec::new(),
        is_thinking_removed: false,
        is_deferrable,
    };
    if let Some(previous) = previous {
        restorer.go_on_from(previous);
    }
    for (at, ((raw, mut item), is_resolved)) in items.iter().zip(parsed).zip(resolved).enumerate() {
        match wire.said(&item) {
            Some(said) => {
                if restorer.history.open_items.is_empty() {
                    restorer.turn_start = at;
                }
                restorer.is_reference_unknown |= wire.referred(&item).is_some();
                restorer.history.open.extend(&said);
                restorer.history.open_items.push(raw.clone().into_owned());
                restorer.resolved.push(is_resolved.then(|| item.to_string()));
                restorer.history.last = None;
            }
            None => {
                restorer.close_turn();
                restorer.push_client(raw, &item);
                restorer.history.link = after_client(&restorer.history.link, &mut item);
                restorer.history.last = Some(item);
            }
        }
    }
    Ok(restorer.finish())
}

/// Returns the place of the model's last item if the client has just answered its calls. Some providers refuse such a turn
/// without its thinking.
pub(crate) fn open_loop(wire: &dyn Wire, items: &[Value]) -> Option<usize> {
    let at = items.iter().rposition(|item| wire.said(item).is_some())?;
    let has_calls = wire.said(&items[at]).is_some_and(|said| !said.calls.is_empty());
    (has_calls && items[at + 1..].iter().all(|item| wire.user_text(item).is_none())).then_some(at)
}

/// Returns the place behind the user's last message if the client has just answered calls of the model.
fn loop_start(wire: &dyn Wire, items: &[Value]) -> Option<usize> {
    let at = open_loop(wire, items)?;
    Some(items[..at].iter().rposition(|item| wire.user_text(item).is_some()).map_or(0, |user| user + 1))
}

struct Restorer<'a> {
    conversations: &'a Conversations,
    wire: &'a dyn Wire,
    history: History,
    /// Answers that go together with the next item.
    parked: Vec<String>,
    /// The turn before the next item, if the client has seen another one.
    known: Vec<String>,
    /// The place behind the user's last message, if calls are being answered since.
    loop_start: Option<usize>,
    /// The place of the client's first item of the turn that is collected.
    turn_start: usize,
    /// Whether the turn that is collected refers to an item that is not known.
    is_reference_unknown: bool,
    /// The items of that turn which the client only refers to.
    resolved: Vec<Option<String>>,
    /// Whether thinking was removed since the user's last message.
    is_thinking_removed: bool,
    is_deferrable: &'a dyn Fn(&str) -> bool,
}

impl Restorer<'_> {
    /// Begins after a response that the provider keeps.
    fn go_on_from(&mut self, id: &str) {
        let link = after_response(&self.history.link, id);
        self.history.link = link;
        self.history.previous = Some(id.to_owned());
        match self.conversations.get(&link) {
            Some(turn) => {
                self.history.declared = Some(turn.declared.clone());
                self.parked.clone_from(&turn.parked);
                if !turn.parked.is_empty() {
                    // The provider waits for answers that the client's items do not contain.
                    self.history.first_hidden.get_or_insert(0);
                }
                self.history.previous = turn.response.clone().or(self.history.previous.take());
            }
            None => self.history.is_miss = true,
        }
    }

    /// Ends the turn of the model that was collected, if there is one.
    fn close_turn(&mut self) {
        if self.history.open_items.is_empty() {
            return;
        }
        let said = std::mem::take(&mut self.history.open);
        self.history.link = after_model(&self.history.link, &said);
        let items = std::mem::take(&mut self.history.open_items);
        let items = self.known_items(&self.history.link.clone(), &said, items);
        items.iter().for_each(|item| self.history.push(item));
    }

    /// Returns the items of a turn as the provider has seen them.
    fn known_items(&mut self, link: &Link, said: &Said, items: Vec<String>) -> Vec<String> {
        let is_reference_unknown = std::mem::take(&mut self.is_reference_unknown);
        let resolved = std::mem::take(&mut self.resolved);
        let Some(turn) = self.conversations.get(link) else {
            return self.unknown_items(said, items, resolved, is_reference_unknown);
        };
        self.history.declared = Some(turn.declared.clone());
        self.history.may_have_references |= !is_constant(&turn.declared);
        if let Some(note) = &turn.note
            && let Some(item) = self.wire.with_note(self.history.last_item(), note)
        {
            self.history.replace_last(&item);
        }
        self.parked.clone_from(&turn.parked);
        let (restored, resolved) = match &turn.items {
            Some(known) => {
                self.history.first_hidden.get_or_insert(self.turn_start);
                self.known.clone_from(known);
                (self.wire.keep_marks(known, &items), Vec::new())
            }
            None => (items, resolved),
        };
        self.history.is_open_hidden = turn.items.is_some();
        let has_lost_turns = self.history.is_miss && !turn.is_behind_miss;
        let stripped = if has_lost_turns { self.without_thinking(&restored, resolved) } else { None };
        self.choose(stripped, restored)
    }

    /// Returns the items of a turn that is not known.
    fn unknown_items(
        &mut self,
        said: &Said,
        items: Vec<String>,
        resolved: Vec<Option<String>>,
        is_reference_unknown: bool,
    ) -> Vec<String> {
        self.history.called.extend(said.calls.iter().map(|call| call.name.clone()));
        self.history.is_open_hidden = false;
        let may_hide = is_reference_unknown || said.calls.iter().any(|call| (self.is_deferrable)(&call.name));
        let stripped = self.without_thinking(&items, resolved);
        self.history.is_miss |= may_hide || stripped.is_some();
        self.choose(stripped, items)
    }

    /// Returns the items without their thinking, unless there was none or they must keep it.
    fn choose(&mut self, stripped: Option<Vec<String>>, items: Vec<String>) -> Vec<String> {
        let Some(stripped) = stripped.filter(|_| !self.keeps_thinking()) else { return items };
        self.is_thinking_removed = true;
        stripped
    }

    /// Returns whether the turn that is collected keeps its thinking in any case, because calls are being answered since.
    fn keeps_thinking(&self) -> bool {
        self.wire.needs_thinking_in_loops() && self.loop_start.is_some_and(|start| self.turn_start >= start)
    }

    /// Returns a turn without its thinking, because the history before it is not what the model has seen; `None` if it has
    /// none.
    fn without_thinking(&self, items: &[String], resolved: Vec<Option<String>>) -> Option<Vec<String>> {
        let place = ThoughtPlace { resolved, is_behind_removed: self.is_thinking_removed };
        let stripped = self.wire.turn_without_thinking(items, &place);
        (stripped != items).then_some(stripped)
    }

    fn push_client(&mut self, item: &str, parsed: &Value) {
        self.is_thinking_removed &= self.wire.user_text(parsed).is_none();
        let (parked, known) = (std::mem::take(&mut self.parked), std::mem::take(&mut self.known));
        if known.is_empty() && parked.is_empty() {
            return self.history.push(item);
        }
        if parked.is_empty() {
            return self.history.push(&self.wire.answered(&known, item));
        }
        for item in self.wire.join_answers(&known, &parked, item) {
            self.history.push(&item);
        }
    }

    /// Returns the history. A turn at its end goes on with the answer.
    fn finish(mut self) -> History {
        if self.history.open_items.is_empty() {
            self.history.is_open_hidden = false;
            // A request that only goes on from a response has no item that they could go together with.
            let parked = std::mem::take(&mut self.parked);
            self.wire.answer_items(&parked).iter().for_each(|item| self.history.push(item));
            return self.history;
        }
        let link = after_model(&self.history.link, &self.history.open);
        let said = self.history.open.clone();
        let items = std::mem::take(&mut self.history.open_items);
        let mut items = self.known_items(&link, &said, items);
        items.extend(self.wire.answer_items(&std::mem::take(&mut self.parked)));
        items.iter().for_each(|item| self.history.push(item));
        self.history.open_items = items;
        self.history
    }
}

#[cfg(test)]
mod tests;
