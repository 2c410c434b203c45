//! What the connections that clients share declare: what the clients behind them can be asked for.
//!
//! A server learns the capabilities of its client once for each connection, and may list tools only for clients that
//! have them. A shared connection declares what one of its clients at least has declared, and nothing else: a tool that
//! needs more could not work for anybody.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Mutex, PoisonError, RwLock},
    time::{SystemTime, UNIX_EPOCH},
};

use pegboard_core::locks::lock;
use pegboard_mcp::json::{Fields, Raw, raw};
use pegboard_state::Folder;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// The name of the file that remembers what clients have declared.
const FILE: &str = "clients.json";

/// Maximum size of the file in bytes.
const MAX_BYTES: usize = 4096;

/// How many days a capability is remembered after the last client that has declared it.
const MAX_DAYS: u64 = 30;

/// Maximum number of different declarations that are remembered, so that they need not be read again.
const MAX_TEXTS: usize = 16;

/// The extension of clients that show user interfaces of servers.
const APPS: &str = "io.modelcontextprotocol/ui";

/// A capability of clients that a shared connection can declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capability {
    Roots,
    Sampling,
    SamplingTools,
    SamplingContext,
    ElicitationForm,
    ElicitationUrl,
    Apps,
}

impl Capability {
    const ALL: [Self; 7] = [
        Self::Roots,
        Self::Sampling,
        Self::SamplingTools,
        Self::SamplingContext,
        Self::ElicitationForm,
        Self::ElicitationUrl,
        Self::Apps,
    ];

    /// Returns the name in files.
    fn as_str(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling.tools",
            Self::SamplingContext => "sampling.context",
            Self::ElicitationForm => "elicitation.form",
            Self::ElicitationUrl => "elicitation.url",
            Self::Apps => "apps",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities(u8);

impl Capabilities {
    /// Returns what a client has declared, as JSON, as far as a shared connection can declare it.
    pub(crate) fn of(declared: &Raw) -> Self {
        let all = Fields::of_optional(Some(&**declared));
        let mut found = Self::default();
        if all.object("roots").is_some() {
            found.add(Capability::Roots);
        }
        if let Some(sampling) = all.object("sampling") {
            found.add(Capability::Sampling);
            let parts = [("tools", Capability::SamplingTools), ("context", Capability::SamplingContext)];
            parts.into_iter().filter(|(part, _)| sampling.object(part).is_some()).for_each(|(_, one)| found.add(one));
        }
        if let Some(elicitation) = all.object("elicitation") {
            let has_url = elicitation.object("url").is_some();
            if has_url {
                found.add(Capability::ElicitationUrl);
            }
            // Clients of 2025-06-18 declare an empty object for forms.
            if elicitation.object("form").is_some() || !has_url {
                found.add(Capability::ElicitationForm);
            }
        }
        if all.object("extensions").is_some_and(|extensions| extensions.object(APPS).is_some()) {
            found.add(Capability::Apps);
        }
        found
    }

    /// Returns the capabilities with these names; others are ignored.
    pub(crate) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        for name in names {
            Capability::ALL.into_iter().filter(|one| one.as_str() == name).for_each(|one| found.add(one));
        }
        found
    }

    /// Returns the names of the capabilities, in a fixed order.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Capability::ALL.into_iter().filter(move |one| self.has(*one)).map(Capability::as_str)
    }

    /// Returns the JSON to declare.
    pub(crate) fn to_raw(self) -> Raw {
        let part = |one: Capability, key: &str| self.has(one).then(|| (key.to_owned(), json!({})));
        let object = |parts: [Option<(String, Value)>; 2]| Value::Object(parts.into_iter().flatten().collect());
        let mut declared = Map::new();
        if self.has(Capability::Roots) {
            declared.insert("roots".to_owned(), json!({"listChanged": false}));
        }
        if self.has(Capability::Sampling) {
            let parts = [part(Capability::SamplingTools, "tools"), part(Capability::SamplingContext, "context")];
            declared.insert("sampling".to_owned(), object(parts));
        }
        if self.has(Capability::ElicitationForm) || self.has(Capability::ElicitationUrl) {
            let parts = [part(Capability::ElicitationForm, "form"), part(Capability::ElicitationUrl, "url")];
            declared.insert("elicitation".to_owned(), object(parts));
        }
        if self.has(Capability::Apps) {
            let extension = json!({APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}});
            declared.insert("extensions".to_owned(), extension);
        }
        raw(&declared)
    }

    /// Returns whether `other` has nothing more.
    pub(crate) fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Returns what both have together.
    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what both have.
    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the capabilities without roots.
    pub(crate) fn without_roots(self) -> Self {
        Self(self.0 & !Capability::Roots.bit())
    }

    /// Returns what a server can ask a client for.
    pub(crate) fn questions(self) -> Self {
        Self(self.0 & !Capability::Apps.bit())
    }

    fn has(self, one: Capability) -> bool {
        self.0 & one.bit() != 0
    }

    fn add(&mut self, one: Capability) {
        self.0 |= one.bit();
    }
}

/// The number of a day.
type Day = u64;

/// What the clients of a fleet have declared, in this run and in earlier ones.
#[derive(Debug, Default)]
pub(crate) struct ClientCapabilities {
    /// Everything that one of them has declared; `None` until a client is known.
    known: watch::Sender<Option<Capabilities>>,
    /// The days on which capabilities were declared last.
    days: Mutex<BTreeMap<&'static str, Day>>,
    /// A day with the texts of declarations that were recorded on it: most requests declare one of a few.
    recorded: RwLock<(Day, Vec<Box<str>>)>,
}

impl ClientCapabilities {
    /// Returns what one of the clients at least has declared.
    pub(crate) fn current(&self) -> Capabilities {
        self.known.borrow().unwrap_or_default()
    }

    /// Returns a receiver of what the clients have declared; `None` until a client is known.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Capabilities>> {
        self.known.subscribe()
    }

    /// Returns whether a client has capabilities that none has declared before.
    pub(crate) fn is_new(&self, declared: Capabilities) -> bool {
        !self.current().covers(declared)
    }

    /// Returns whether this was recorded today.
    pub(crate) fn is_recorded(&self, declared: &Raw) -> bool {
        self.is_recorded_on(today(), declared)
    }

    fn is_recorded_on(&self, day: Day, declared: &Raw) -> bool {
        let recorded = self.recorded.read().unwrap_or_else(PoisonError::into_inner);
        recorded.0 == day && recorded.1.iter().any(|text| **text == *declared.get())
    }

    /// Records what a client has declared; returns whether the file is to be written.
    pub(crate) fn record(&self, declared: &Raw) -> bool {
        self.record_on(today(), declared)
    }

    fn record_on(&self, day: Day, declared: &Raw) -> bool {
        let found = Capabilities::of(declared);
        let mut has_changed = self.known.borrow().is_none();
        {
            let mut days = lock(&self.days);
            found.names().for_each(|name| has_changed |= days.insert(name, day) != Some(day));
        }
        self.add(found);
        let mut recorded = self.recorded.write().unwrap_or_else(PoisonError::into_inner);
        if recorded.0 != day {
            *recorded = (day, Vec::new());
        }
        if recorded.1.len() >= MAX_TEXTS {
            recorded.1.remove(0);
        }
        recorded.1.push(declared.get().into());
        has_changed
    }

    fn add(&self, declared: Capabilities) {
        self.known.send_if_modified(|known| {
            let all = known.unwrap_or_default().union(declared);
            known.replace(all) != Some(all)
        });
    }

    /// Reads what earlier clients have declared. A file that cannot be read is ignored.
    pub(crate) fn load(&self, folder: &Path) {
        let read = Folder::open(folder).and_then(|folder| folder.read(FILE, MAX_BYTES));
        let Ok(Some(bytes)) = read else { return };
        let Ok(kept) = serde_json::from_slice::<BTreeMap<String, Day>>(&bytes) else { return };
        let now = today();
        let is_recent = |day: &Day| now.saturating_sub(*day) <= MAX_DAYS;
        let recent = Capabilities::named(kept.iter().filter(|(_, day)| is_recent(day)).map(|(name, _)| name.as_str()));
        let mut days = lock(&self.days);
        for name in recent.names() {
            let day = kept.get(name).copied().unwrap_or_default().min(now);
            days.entry(name).and_modify(|known| *known = day.max(*known)).or_insert(day);
        }
        self.add(recent);
    }

    /// Writes what clients have declared.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        let content = serde_json::to_vec(&*lock(&self.days)).map_err(io::Error::other)?;
        Folder::open(folder)?.replace(FILE, &content)
    }
}

fn today() -> Day {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / (24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Raw {
        serde_json::from_str(text).expect("JSON")
    }

    fn parse(declared: &str) -> Capabilities {
        Capabilities::of(&text(declared))
    }

    #[test]
    fn what_a_client_has_declared_is_declared_again() {
        let check = |declared: &str, names: &[&str], again: Value| {
            let found = parse(declared);
            assert_eq!(found.names().collect::<Vec<_>>(), names, "{declared}");
            assert_eq!(serde_json::from_str::<Value>(found.to_raw().get()).expect("JSON"), again, "{declared}");
            assert_eq!(Capabilities::named(names.iter().copied()), found);
        };
        check("{}", &[], json!({}));
        check("[1]", &[], json!({}));
        check(r#"{"roots": true, "sampling": null, "elicitation": 1, "extensions": []}"#, &[], json!({}));
        check(r#"{"roots": {"listChanged": true}}"#, &["roots"], json!({"roots": {"listChanged": false}}));
        check(r#"{"sampling": {}}"#, &["sampling"], json!({"sampling": {}}));
        let sampling = r#"{"sampling": {"tools": {}, "context": {}, "more": {}}}"#;
        let again = json!({"sampling": {"tools": {}, "context": {}}});
        check(sampling, &["sampling", "sampling.tools", "sampling.context"], again);
        check(r#"{"elicitation": {}}"#, &["elicitation.form"], json!({"elicitation": {"form": {}}}));
        check(r#"{"elicitation": {"url": {}}}"#, &["elicitation.url"], json!({"elicitation": {"url": {}}}));
        let both = r#"{"elicitation": {"form": {}, "url": {}}}"#;
        let again = json!({"elicitation": {"form": {}, "url": {}}});
        check(both, &["elicitation.form", "elicitation.url"], again);
        let apps = json!({"extensions": {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}});
        check(&apps.to_string(), &["apps"], apps);
        check(r#"{"tasks": {}, "extensions": {"other": {}}}"#, &[], json!({}));
    }

    #[test]
    fn what_one_client_has_is_known_of_all() {
        let clients = ClientCapabilities::default();
        let changes = clients.subscribe();
        assert_eq!(*changes.borrow(), None);
        clients.record_on(7, &text("{}"));
        assert_eq!(*changes.borrow(), Some(Capabilities::default()), "a client is known");
        let (roots, sampling) = (text(r#"{"roots": {}}"#), text(r#"{"sampling": {}}"#));
        assert!(clients.is_new(Capabilities::of(&roots)) && !clients.is_recorded_on(7, &roots));
        clients.record_on(7, &roots);
        assert!(!clients.is_new(Capabilities::of(&roots)) && clients.is_recorded_on(7, &roots));
        clients.record_on(7, &sampling);
        assert!(!clients.is_recorded_on(8, &roots), "once a day");
        assert!(clients.record_on(8, &roots));
        assert!(!clients.is_recorded_on(8, &sampling));
        assert_eq!(clients.current().names().collect::<Vec<_>>(), ["roots", "sampling"]);
        assert_eq!(*lock(&clients.days), BTreeMap::from([("roots", 8), ("sampling", 7)]));
        for number in 0..100 {
            let other = text(&format!(r#"{{"x": {number}, "roots": {{}}}}"#));
            assert!(!clients.record_on(8, &other), "nothing new to write");
        }
        assert_eq!(clients.recorded.read().expect("no panic").1.len(), MAX_TEXTS);
    }

    #[test]
    fn capabilities_are_remembered_for_a_while() {
        let folder = std::env::temp_dir().join(format!("pegboard-clients-{}", std::process::id()));
        let (now, roots) = (today(), parse(r#"{"roots": {}}"#));
        let clients = ClientCapabilities::default();
        clients.record_on(now - MAX_DAYS, &text(r#"{"roots": {}}"#));
        clients.record_on(now - MAX_DAYS - 1, &text(r#"{"sampling": {}}"#));
        clients.save(&folder).expect("it is written");
        let later = ClientCapabilities::default();
        later.load(&folder);
        assert_eq!((later.current(), later.subscribe().borrow().is_some()), (roots, true));
        for damaged in ["", "[]", "{\"roots\": \"x\"}", "{\"roots\": -1}"] {
            std::fs::write(folder.join(FILE), damaged).expect("it is written");
            let later = ClientCapabilities::default();
            later.load(&folder);
            assert_eq!(*later.subscribe().borrow(), None, "{damaged}");
        }
        std::fs::write(folder.join(FILE), "{\"other\": 1}").expect("it is written");
        later.load(&folder);
        assert_eq!(later.current(), roots, "nothing is forgotten while it runs");
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }
}
