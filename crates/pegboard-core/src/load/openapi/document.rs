//! An API description, read piece by piece, and the targets of its references.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use serde_json::{Value, value::RawValue};

use super::super::Fields;

/// Work for all schemas of a document, in bytes written and schemas visited. Above it, tools
/// have no schema. Large public descriptions need a tenth of it.
pub(super) const MAX_WORK: usize = 128 << 20;

/// Bytes of a reference.
const MAX_REFERENCE_BYTES: usize = 1 << 10;

/// References to references outside schemas.
const MAX_HOPS: usize = 8;

/// Security schemes that are looked at; every parameter is compared with each.
const MAX_SCHEMES: usize = 100;

/// The document. Components are parsed when a reference first leads to them, so that one that
/// nests too deeply for the parser is missing alone.
pub(super) struct Document<'a> {
    fields: Fields<'a>,
    paths: Fields<'a>,
    components: HashMap<String, Fields<'a>>,
    /// Parameters that carry credentials, as `in` and name.
    credentials: Vec<(String, String)>,
    /// By pointer, which is decoded: one target has one spelling.
    targets: HashMap<String, Option<Rc<Value>>>,
    unresolved: Vec<String>,
    reported: HashSet<String>,
    work_left: usize,
}

/// What the description says about the API as a whole.
#[derive(Default)]
pub(super) struct Info {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
}

impl<'a> Document<'a> {
    pub(super) fn new(fields: Fields<'a>) -> Result<Self, serde_json::Error> {
        let paths = fields.get("paths").map(|paths| serde_json::from_str(paths.get())).transpose()?.unwrap_or_default();
        let sections = fields.get("components").map(|components| fields_of(components)).unwrap_or_default();
        let components: HashMap<String, Fields<'a>> =
            sections.into_iter().map(|(kind, section)| (kind, fields_of(section))).collect();
        let schemes = components.get("securitySchemes").into_iter().flat_map(|schemes| schemes.values());
        let credentials = schemes.take(MAX_SCHEMES).filter_map(|scheme| credential(scheme)).collect();
        Ok(Self {
            fields,
            paths,
            components,
            credentials,
            targets: HashMap::new(),
            unresolved: Vec::new(),
            reported: HashSet::new(),
            work_left: MAX_WORK,
        })
    }

    /// The paths in the order of the document.
    pub(super) fn paths(&self) -> Vec<(Rc<str>, &'a RawValue)> {
        in_order(&self.paths).into_iter().map(|(path, item)| (path.into(), item)).collect()
    }

    pub(super) fn info(&self) -> Info {
        let fields = self.fields.get("info").map(|info| fields_of(info)).unwrap_or_default();
        let text = |key| text_of(&fields, key).filter(|text| !text.trim().is_empty());
        Info { description: text("description").or_else(|| text("summary")), title: text("title") }
    }

    /// The fields of a path, which may be a reference to another. Many may refer to one large
    /// one, which is work.
    pub(super) fn path_item(&mut self, item: &'a RawValue) -> Fields<'a> {
        let fields = fields_of(item);
        let Some(pointer) = text_of(&fields, "$ref").and_then(|reference| decode(&reference)) else { return fields };
        match self.piece(&pointer) {
            Some((raw, "")) if self.spend(raw.get().len()) => fields_of(raw),
            _ => fields,
        }
    }

    /// Whether a parameter carries the key of a security scheme, which no model should fill in.
    pub(super) fn is_credential(&self, place: &str, name: &str) -> bool {
        self.credentials.iter().any(|(own_place, own)| own_place == place && own.eq_ignore_ascii_case(name))
    }

    /// The value that a reference leads to, and its pointer. A reference that leads nowhere is
    /// remembered once.
    pub(super) fn resolve(&mut self, reference: &str) -> Option<(String, Rc<Value>)> {
        // A longer one leads nowhere.
        let reference = &reference[..reference.floor_char_boundary(MAX_REFERENCE_BYTES)];
        if let Some(pointer) = decode(reference)
            && let Some(target) = self.target(&pointer)
        {
            return Some((pointer, target));
        }
        if self.reported.insert(reference.to_owned()) {
            self.unresolved.push(reference.to_owned());
        }
        None
    }

    /// `value`, or what it refers to; of references to references only so many are followed.
    pub(super) fn follow(&mut self, value: &Value) -> Option<Rc<Value>> {
        let mut found = match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.resolve(reference)?.1,
            None => return Some(Rc::new(value.clone())),
        };
        for _ in 0..MAX_HOPS {
            found = match found.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.resolve(reference)?.1,
                None => return Some(found),
            };
        }
        None
    }

    /// The references that led nowhere since the last call.
    pub(super) fn take_unresolved(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unresolved)
    }

    /// Takes `amount` off the work that is left; `false` if there is not so much.
    pub(super) fn spend(&mut self, amount: usize) -> bool {
        let left = self.work_left.checked_sub(amount);
        self.work_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether no work is left for further schemas.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work_left == 0
    }

    fn target(&mut self, pointer: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.targets.get(pointer) {
            return known.clone();
        }
        let target = self.piece(pointer).and_then(|(raw, rest)| {
            // Each pointer may keep a copy of as much.
            if !self.spend(raw.get().len()) {
                return None;
            }
            if rest.is_empty() {
                return serde_json::from_str(raw.get()).ok().map(Rc::new);
            }
            // Parsed once, however many references lead into it.
            let piece = self.target(&pointer[..pointer.len() - rest.len()])?;
            piece.pointer(rest).cloned().map(Rc::new)
        });
        self.targets.insert(pointer.to_owned(), target.clone());
        target
    }

    /// The component, path or other top-level value that `pointer` begins with, and the rest of
    /// the pointer.
    fn piece<'p>(&self, pointer: &'p str) -> Option<(&'a RawValue, &'p str)> {
        let (first, rest) = split(pointer)?;
        let (fields, key, rest) = match first.as_str() {
            "components" => {
                let (kind, rest) = split(rest)?;
                let (name, rest) = split(rest)?;
                (self.components.get(&kind)?, name, rest)
            }
            "paths" => {
                let (path, rest) = split(rest)?;
                (&self.paths, path, rest)
            }
            _ => (&self.fields, first, rest),
        };
        fields.get(&key).map(|raw| (*raw, rest))
    }
}

fn credential(scheme: &RawValue) -> Option<(String, String)> {
    let scheme = fields_of(scheme);
    let is_key = text_of(&scheme, "type").as_deref() == Some("apiKey");
    is_key.then(|| Some((text_of(&scheme, "in")?, text_of(&scheme, "name")?)))?
}

/// The fields of an object; none of any other value.
fn fields_of<'a>(raw: &'a RawValue) -> Fields<'a> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// A field that is a string.
pub(super) fn text_of(fields: &Fields<'_>, key: &str) -> Option<String> {
    serde_json::from_str(fields.get(key)?.get()).ok()
}

/// The fields in the order of the document: every value is a part of the same text.
pub(super) fn in_order<'f, 'a>(fields: &'f Fields<'a>) -> Vec<(&'f str, &'a RawValue)> {
    let mut fields: Vec<(&str, &RawValue)> = fields.iter().map(|(key, raw)| (key.as_str(), *raw)).collect();
    fields.sort_by_key(|(_, raw)| raw.get().as_ptr() as usize);
    fields
}

/// The JSON pointer of a reference within the document, without its percent-encoding.
fn decode(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    // One target has one pointer: a `~` alone would be a second way to write `~0`.
    let is_escaped = |pointer: &String| pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    String::from_utf8(bytes).ok().filter(is_escaped)
}

/// The first part of a pointer, unescaped, and the rest.
fn split(pointer: &str) -> Option<(String, &str)> {
    let pointer = pointer.strip_prefix('/')?;
    let end = pointer.find('/').unwrap_or(pointer.len());
    Some((pointer[..end].replace("~1", "/").replace("~0", "~"), &pointer[end..]))
}
