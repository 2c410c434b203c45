//! The shared state of the demo servers: collections of JSON objects, and a time that only changes
//! move.

use std::{borrow::Cow, collections::BTreeMap};

use pegboard_core::text::bounded;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::clock;

/// Maximum number of objects in one collection.
pub(super) const MAX_OBJECTS: usize = 10_000;
/// Maximum size of one text.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// Maximum size of one object; a file keeps some of its older contents.
const MAX_OBJECT: usize = 512 << 10;
/// Maximum size of the whole world.
const MAX_WORLD: usize = 64 << 20;
/// Maximum number of identities listed in an error.
const MAX_KNOWN: usize = 20;

/// The error of a tool, for its caller.
#[derive(Debug, PartialEq)]
pub(super) struct ToolError(pub(super) String);

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

/// The result of a tool: an object that begins with a `message`.
pub(super) type Outcome = Result<Value, ToolError>;

/// All collections, each called `server/name`.
pub(super) type Collections = BTreeMap<String, Collection>;

/// Objects of one kind, as the demo's data declare them.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Collection {
    /// The noun for one object; by default the collection's name without its `s`.
    pub(super) noun: String,
    /// The field that identifies an object.
    pub(super) key: String,
    /// How identities are made; `{n}` is a number that is used once.
    id: String,
    /// The field by which other objects refer to an object, if that is not its key.
    called: String,
    /// Further fields by which an object can be named.
    also: Vec<String>,
    /// Arguments that narrow down the objects.
    pub(super) scope: Vec<String>,
    /// The field for time ranges.
    pub(super) time: String,
    /// Whether lists begin with the newest objects.
    pub(super) newest_first: bool,
    /// Whether these are files: named by absolute paths, with older contents kept.
    files: bool,
    /// Default fields of new objects; `{field}` is replaced.
    new: Map<String, Value>,
    objects: Vec<Value>,
    #[serde(skip)]
    made: usize,
}

impl Default for Collection {
    fn default() -> Self {
        Self {
            noun: String::new(),
            key: "id".to_owned(),
            id: "{n}".to_owned(),
            called: String::new(),
            also: Vec::new(),
            scope: Vec::new(),
            time: "created_at".to_owned(),
            newest_first: false,
            files: false,
            new: Map::new(),
            objects: Vec::new(),
            made: 0,
        }
    }
}

impl Collection {
    /// Completes the collection with what follows from its name and its first objects.
    pub(super) fn called(mut self, name: &str) -> Self {
        if self.noun.is_empty() {
            name.strip_suffix('s').unwrap_or(name).clone_into(&mut self.noun);
        }
        if self.called.is_empty() {
            self.called.clone_from(&self.key);
        }
        self.made = self.objects.len();
        self
    }

    /// Returns the field by which other objects refer to an object.
    pub(super) fn reference(&self) -> &str {
        &self.called
    }

    /// Returns its objects, oldest first.
    pub(super) fn objects(&self) -> &[Value] {
        &self.objects
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.objects.iter().position(|object| text_of(&object[&self.key]) == key)
    }

    /// Returns whether `wanted` names `object`.
    fn is_meant(&self, object: &Value, wanted: &str) -> bool {
        [&self.key, &self.called].into_iter().chain(&self.also).any(|field| match &object[field] {
            Value::Array(names) => names.iter().any(|name| is_same(name, wanted)),
            name => is_same(name, wanted),
        })
    }
}

/// The state of all demo servers.
#[derive(Debug)]
pub(super) struct World {
    collections: Collections,
    now: i64,
    bytes: usize,
}

impl World {
    /// Returns a world of these collections.
    pub(super) fn new(collections: Collections) -> Self {
        let bytes = collections.values().flat_map(|collection| &collection.objects).map(size).sum();
        Self { collections, now: clock::START, bytes }
    }

    /// Returns the seconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// Returns the declaration of a collection.
    pub(super) fn collection(&self, name: &str) -> Result<&Collection, ToolError> {
        self.collections.get(name).ok_or_else(|| format!("the demo has nothing called `{name}`").into())
    }

    /// Returns the objects of a collection, oldest first.
    pub(super) fn all(&self, name: &str) -> &[Value] {
        self.collections.get(name).map_or(&[], Collection::objects)
    }

    /// Returns the objects that `wanted` names among those that `is_in_scope`; at least one.
    pub(super) fn named(
        &self,
        name: &str,
        wanted: &str,
        is_in_scope: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, ToolError> {
        let collection = self.collection(name)?;
        let in_scope = || collection.objects.iter().filter(|object| is_in_scope(object));
        let found: Vec<Value> = in_scope().filter(|object| collection.is_meant(object, wanted)).cloned().collect();
        if found.is_empty() {
            let mut known: Vec<String> = in_scope().map(|object| text_of(&object[&collection.called])).collect();
            if known.is_empty() {
                // The surroundings are wrong: so the existing objects, with their surroundings.
                known = collection.objects.iter().map(|object| with_owner(object, &collection.called)).collect();
            }
            let noun = collection.noun.replace('_', " ");
            return Err(format!("there is no {noun} `{}`; {}", shorten(wanted), known_as(&known)).into());
        }
        Ok(found)
    }

    /// Returns the one object that `wanted` names.
    pub(super) fn find(&self, name: &str, wanted: &str) -> Outcome {
        Ok(self.named(name, wanted, |_| true)?.swap_remove(0))
    }

    /// Creates an object with an identity and all fields of its kind, and returns it with a
    /// message. An existing one is replaced if `is_replacing`, else the call fails.
    pub(super) fn make(&mut self, name: &str, fields: Value, is_replacing: bool) -> Outcome {
        let now = clock::show(self.now);
        let collection = self.collection(name)?;
        let mut object = fields;
        let mut n = collection.made + 1;
        // The caller may name a new object, and thereby take a number.
        while object[&collection.key].is_null() {
            let lookup = |name: &str| if name == "n" { n.into() } else { object[name].clone() };
            let key = fill(&collection.id, &lookup);
            if !collection.id.contains("{n}") || collection.position(&text_of(&key)).is_none() {
                object[&collection.key] = key;
            }
            n += 1;
        }
        if object["created_at"].is_null() {
            object["created_at"] = now.into();
        }
        if collection.files {
            keep_versions(collection, &mut object);
        }
        for (field, value) in &collection.new {
            if object[field].is_null() {
                let filled = value.as_str().map(|text| fill(text, &|name| object[name].clone()));
                object[field] = filled.unwrap_or_else(|| value.clone());
            }
        }
        let called = text_of(&object[&collection.called]);
        let is_beside = |other: &&Value| collection.scope.iter().all(|field| other[field] == object[field]);
        let mut others = collection.objects.iter().filter(is_beside);
        if !is_replacing && others.any(|other| is_same(&other[&collection.called], &called)) {
            return Err(format!("{} `{}` already exists", collection.noun, shorten(&called)).into());
        }
        self.put(name, object.clone())?;
        Ok(object)
    }

    /// Stores an object, in place of the one with the same identity if there is one. Every change
    /// goes through here, so this is where limits are checked and time passes.
    pub(super) fn put(&mut self, name: &str, object: Value) -> Result<(), ToolError> {
        self.note(name, object)?;
        self.now += 60;
        Ok(())
    }

    /// Stores an object like [`put`](Self::put), as a side effect of reading: no time passes.
    pub(super) fn note(&mut self, name: &str, object: Value) -> Result<(), ToolError> {
        let collection = self.collection(name)?;
        let position = collection.position(&text_of(&object[&collection.key]));
        let (is_new, old) = (position.is_none(), position.map_or(0, |at| size(&collection.objects[at])));
        let new = size(&object);
        if is_new && collection.objects.len() >= MAX_OBJECTS {
            return Err(format!("the demo keeps at most {MAX_OBJECTS} {name}").into());
        }
        if has_long_text(&object) || new > MAX_OBJECT || self.bytes - old + new > MAX_WORLD {
            return Err(format!("too large for the demo: texts may have {MAX_TEXT} bytes").into());
        }
        self.bytes = self.bytes - old + new;
        if let Some(collection) = self.collections.get_mut(name) {
            match position {
                Some(at) => collection.objects[at] = object,
                None => {
                    collection.objects.push(object);
                    collection.made += 1;
                }
            }
        }
        Ok(())
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, name: &str, key: &str) -> Outcome {
        let unknown = || ToolError(format!("there is no `{}` in {name}", shorten(key)));
        let collection = self.collections.get_mut(name).ok_or_else(unknown)?;
        let at = collection.position(key).ok_or_else(unknown)?;
        let object = collection.objects.remove(at);
        self.bytes -= size(&object);
        self.now += 60;
        Ok(object)
    }
}

/// Returns the name of an object, with its owner if it has one.
fn with_owner(object: &Value, called: &str) -> String {
    let name = text_of(&object[called]);
    object["owner"].as_str().map_or_else(|| name.clone(), |owner| format!("{owner}/{name}"))
}

/// Returns a text unchanged, anything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns `template` with each `{name}` replaced by the result of `lookup`. A template of only one
/// name becomes the value itself.
pub(super) fn fill(template: &str, lookup: &dyn Fn(&str) -> Value) -> Value {
    let name = template.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = name.filter(|name| !name.contains('{')) {
        return lookup(name);
    }
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, (name, after))) = rest.split_once('{').and_then(|(a, b)| Some((a, b.split_once('}')?))) {
        text.push_str(before);
        let value = lookup(name);
        text.push_str(&if value.is_null() { String::new() } else { text_of(&value) });
        rest = after;
    }
    Value::String(text + rest)
}

/// Returns the FNV-1a hash of a text, the same in every run.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the existing identities for an error message.
pub(super) fn known_as(known: &[String]) -> String {
    if known.is_empty() {
        return "none exist yet".to_owned();
    }
    let shown: Vec<&str> = known.iter().take(MAX_KNOWN).map(String::as_str).collect();
    let more = known.len() - shown.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("known: {}{rest}", shown.join(", "))
}

/// Returns the beginning of a text, for messages.
pub(super) fn shorten(text: &str) -> Cow<'_, str> {
    bounded(text, 120)
}

/// Returns whether a name equals the wanted one, regardless of punctuation and case.
fn is_same(name: &Value, wanted: &str) -> bool {
    let bare = |text: &str| text.trim_matches(['#', '@', '/']).to_lowercase();
    match name {
        Value::String(name) => name == wanted || bare(name) == bare(wanted),
        Value::Number(name) => name.to_string() == wanted,
        _ => false,
    }
}

/// Makes the path of a file absolute, and keeps its previous contents.
fn keep_versions(collection: &Collection, file: &mut Value) {
    const MOST: usize = 5;
    let path = format!("/{}", text_of(&file["path"]).trim_matches('/'));
    file["path"] = path.as_str().into();
    let Some(old) = collection.objects.iter().find(|object| is_same(&object["path"], &path)) else { return };
    let mut versions = old["versions"].as_array().cloned().unwrap_or_default();
    let number = versions.last().and_then(|last| last["version"].as_u64()).unwrap_or(0) + 1;
    versions.push(json!({"version": number, "modified": old["modified"], "content": old["content"]}));
    versions.drain(..versions.len().saturating_sub(MOST));
    file["versions"] = versions.into();
    ["path", "owner", "people"].into_iter().for_each(|field| file[field] = old[field].clone());
}

fn has_long_text(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > MAX_TEXT,
        Value::Array(items) => items.iter().any(has_long_text),
        Value::Object(fields) => fields.values().any(has_long_text),
        _ => false,
    }
}

/// Returns the approximate size of a value in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + 4 + size(value)).sum::<usize>() + 2,
        _ => 8,
    }
}
