//! Plans: what each tool does, mostly derived from its name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::world::Collections;

/// An operation on a collection.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    /// Creates an object.
    Create,
    /// Returns a list of objects.
    List,
    /// Returns one object.
    Get,
    /// Changes the named objects.
    Change,
    /// Deletes the named objects.
    Delete,
    /// Returns a message and changes nothing.
    Tell,
}

/// Words for each verb, in the languages of the tools' names.
const VERBS: &[(Verb, &[&str])] = &[
    (Verb::Create, &["create", "send", "schedule", "deploy", "assign", "publish", "upload", "programar", "generar"]),
    (Verb::List, &["list", "search", "buscar", "listar"]),
    (Verb::Get, &["get"]),
    (Verb::Change, &["update", "set", "move", "mark", "add", "invite", "share", "scale", "añadir"]),
    (Verb::Delete, &["delete", "kill"]),
];

/// The behaviour of a tool. Only what does not follow from its name is declared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Plan {
    /// The verb.
    #[serde(rename = "do")]
    pub(super) verb: Option<Verb>,
    /// The collection.
    pub(super) on: String,
    /// Fields of every object that the tool creates or sees.
    pub(super) with: Map<String, Value>,
    /// Arguments that name objects, beside those of the whole server.
    pub(super) refs: BTreeMap<String, String>,
    /// Further objects that the tool needs: the current one of a collection.
    pub(super) look: BTreeMap<String, String>,
    /// Fields that the tool adds where no argument gives them. `{argument}` stands for its
    /// value, `{argument.field}` for a field of the object that it names.
    pub(super) set: Map<String, Value>,
    /// Arguments that are fields of another name.
    pub(super) rename: BTreeMap<String, String>,
    /// Values of arguments that set several fields.
    pub(super) map: BTreeMap<String, BTreeMap<String, Map<String, Value>>>,
    /// A list in the object to which the arguments are added as one entry.
    pub(super) append: String,
    /// Arguments whose values are added to lists in the object.
    pub(super) extend: BTreeMap<String, String>,
    /// The field for time ranges, if it is not the collection's.
    pub(super) time: String,
    /// Whether creating an existing object replaces it.
    pub(super) replace: bool,
    /// The message of the answer, if it is not about a created or changed object.
    pub(super) message: String,
}

impl Plan {
    /// Completes the declaration of the tool `name` of `server` from its name.
    pub(super) fn complete(mut self, server: &str, name: &str, collections: &Collections) -> Self {
        let words = words(name);
        if self.verb.is_none() {
            let said = |word: &String| VERBS.iter().find(|(_, names)| names.contains(&word.as_str()));
            self.verb = words.iter().find_map(said).map(|(verb, _)| *verb);
        }
        if self.on.is_empty() {
            let mut names = collections.keys().filter_map(|name| name.strip_prefix(server)?.strip_prefix('/'));
            let is_said = |name: &&str| words.iter().any(|word| name.strip_suffix('s') == Some(word));
            self.on = names.find(is_said).unwrap_or_default().to_owned();
        }
        let names = self.refs.values_mut().chain(self.look.values_mut()).chain([&mut self.on]);
        for name in names.filter(|name| !name.is_empty()) {
            *name = qualified(server, name);
        }
        self
    }
}

/// Returns `server/collection`, unless it has a server already.
pub(super) fn qualified(server: &str, collection: &str) -> String {
    if collection.contains('/') { collection.to_owned() } else { format!("{server}/{collection}") }
}

/// Returns the words of a name in any style, in lower case and without the `s` of plurals.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.iter().map(|word| word.strip_suffix('s').unwrap_or(word).to_owned()).collect()
}
