//! One page after the other of a list, mended where a server has broken it.

use std::collections::{HashMap, HashSet};

use pegboard_core::{
    catalog::{Warning, WarningKind},
    text,
};
use pegboard_mcp::json::{Fields, Raw, raw};
use serde_json::{json, value::RawValue};

use super::{Item, ListKind, MAX_ITEMS, MAX_LIST_BYTES, MAX_TEXT};
use crate::connection::CallError;

/// Bytes of one item.
const MAX_ITEM_BYTES: usize = 1 << 20;

/// What optional fields begin with, as JSON.
const TYPES: &[(&str, char)] = &[
    ("title", '"'),
    ("description", '"'),
    ("mimeType", '"'),
    ("annotations", '{'),
    ("outputSchema", '{'),
    ("_meta", '{'),
    ("icons", '['),
    ("arguments", '['),
];

/// The items on one page, and what was wrong with them.
#[cfg(fuzzing)]
pub(crate) fn read_page(kind: ListKind, result: &RawValue) -> Result<(Vec<Item>, Vec<String>), CallError> {
    let mut warnings = Vec::new();
    let mut reader = Reader::new(kind, &mut warnings);
    reader.page(result)?;
    let items = std::mem::take(&mut reader.items);
    Ok((items, warnings))
}

/// Reads a list page by page.
pub(super) struct Reader<'a> {
    kind: ListKind,
    pub(super) items: Vec<Item>,
    /// Bytes of them.
    pub(super) bytes: usize,
    seen: HashSet<String>,
    warnings: &'a mut Vec<String>,
}

impl<'a> Reader<'a> {
    /// A reader of lists of this kind.
    pub(super) fn new(kind: ListKind, warnings: &'a mut Vec<String>) -> Self {
        Self { kind, items: Vec::new(), bytes: 0, seen: HashSet::new(), warnings }
    }

    /// Takes in one page, and says where the next one begins.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn page(&mut self, result: &RawValue) -> Result<Option<Raw>, CallError> {
        // Not taken apart into values of their own: a page may be the whole of a large list.
        let fields: HashMap<String, &RawValue> = serde_json::from_str(result.get())
            .map_err(|_| CallError::Garbled("the list result is not an object".to_owned()))?;
        let missing = || CallError::Garbled(format!("the list result has no `{}`", self.kind.field()));
        let list = fields.get(self.kind.field()).ok_or_else(missing)?;
        let list: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| missing())?;
        for item in list {
            self.item(item);
        }
        let cursor = fields.get("nextCursor").filter(|cursor| cursor.get() != "null");
        Ok(cursor.map(|cursor| (*cursor).to_owned()))
    }

    fn item(&mut self, item: &RawValue) {
        if self.items.len() >= MAX_ITEMS {
            if self.items.len() == MAX_ITEMS && self.seen.insert(String::new()) {
                self.warn(
                    WarningKind::TooLong,
                    format!("list over the limit of {MAX_ITEMS} entries; the rest is skipped"),
                );
            }
            return;
        }
        // What cannot be read whole (half a character, nested without end) cannot be read by
        // clients either, and would cost them the whole list.
        if serde_json::from_str::<serde_json::Value>(item.get()).is_err() {
            return self.warn(WarningKind::NotATool, "unreadable entry skipped".to_owned());
        }
        let Some(fields) = Fields::of(item) else {
            return self.warn(WarningKind::NotATool, "entry skipped: not an object".to_owned());
        };
        let Some(key) = fields.text(self.kind.key()).filter(|key| !key.is_empty()) else {
            let message = format!("entry skipped: no `{}`", self.kind.key());
            return self.warn(WarningKind::EmptyName, message);
        };
        if !self.seen.insert(key.clone()) {
            return self.warn(WarningKind::DuplicateTool, format!("duplicate `{}` skipped", shorten(&key)));
        }
        let (fields, is_mended) = self.without_wrong_types(&key, fields);
        let raw = match self.kind {
            ListKind::Tools => self.mend(&key, fields, is_mended, item),
            _ if is_mended => fields.to_raw(),
            _ => item.to_owned(),
        };
        let raw = self.cleaned(&key, raw);
        if raw.get().len() > MAX_ITEM_BYTES {
            let message = format!("`{}` skipped: {} bytes is too large", shorten(&key), raw.get().len());
            return self.warn(WarningKind::TooLong, message);
        }
        if self.bytes > MAX_LIST_BYTES {
            return self.warn(WarningKind::TooLong, format!("`{}` skipped: the list is too large", shorten(&key)));
        }
        self.bytes += raw.get().len();
        self.items.push(Item { key, raw: raw.into() });
    }

    /// A tool that every client can read: its schema is an object schema, and its
    /// description is not without end.
    fn mend(&mut self, name: &str, mut fields: Fields, mut is_mended: bool, item: &RawValue) -> Raw {
        match fields.object("inputSchema") {
            None => {
                self.warn(
                    WarningKind::SchemaNotObject,
                    format!("`{}` has no valid `inputSchema`; any object is accepted", shorten(name)),
                );
                fields.set("inputSchema", raw(&json!({"type": "object"})));
                is_mended = true;
            }
            Some(schema) => {
                if let Some(mended) = self.mend_schema(name, schema) {
                    fields.set("inputSchema", mended.to_raw());
                    is_mended = true;
                }
            }
        }
        if let Some(text) = fields.text("description").filter(|text| text.len() > MAX_TEXT) {
            let message = format!("the description of `{}` is {} bytes; cut to {MAX_TEXT}", shorten(name), text.len());
            self.warn(WarningKind::TooLong, message);
            fields.set("description", raw(&text::bounded(&text, MAX_TEXT)));
            is_mended = true;
        }
        if is_mended { fields.to_raw() } else { item.to_owned() }
    }

    /// The schema of an object, if this one is something else.
    fn mend_schema(&mut self, name: &str, mut schema: Fields) -> Option<Fields> {
        let has_type = schema.has("type");
        let mut is_wrong = has_type && schema.text("type").as_deref() != Some("object");
        if is_wrong {
            schema.set("type", raw("object"));
        }
        for (key, fits) in [("properties", '{'), ("required", '[')] {
            if schema.get(key).is_some_and(|value| !value.get().starts_with(fits)) {
                schema.remove(key);
                is_wrong = true;
            }
        }
        if is_wrong {
            let message = format!("the schema of `{}` is not an object schema; repaired", shorten(name));
            self.warn(WarningKind::WrongType, message);
        }
        if has_type {
            return is_wrong.then_some(schema);
        }
        let message = format!("the schema of `{}` has no `type`; `object` is assumed", shorten(name));
        self.warn(WarningKind::WrongType, message);
        Some(schema.begun_with("type", "object"))
    }

    /// The entry with its texts fit to be shown; called it is by its own name all the same.
    fn cleaned(&mut self, key: &str, item: Raw) -> Raw {
        // A URI is how a resource is read; its name is for people.
        let clean = text::clean_definition(item.get(), "name", MAX_TEXT);
        let Some(clean) = clean.and_then(|clean| RawValue::from_string(clean).ok()) else { return item };
        // Line ends of Windows are not worth a word.
        let is_news = text::clean_definition(&item.get().replace("\\r", ""), "name", MAX_TEXT).is_some();
        if is_news {
            let message = format!("`{}` has hidden characters or an overlong text, which are removed", shorten(key));
            self.warn(WarningKind::HiddenCharacters, message);
        }
        clean
    }

    /// The entry without optional fields that are not what they must be: one of them would
    /// cost strict clients the whole list.
    fn without_wrong_types(&mut self, key: &str, mut fields: Fields) -> (Fields, bool) {
        let mut is_mended = false;
        for (field, fits) in TYPES {
            let Some(value) = fields.get(field) else { continue };
            if !value.get().starts_with(*fits) {
                self.warn(
                    WarningKind::WrongType,
                    format!("`{field}` of `{}` has the wrong type and is ignored", shorten(key)),
                );
                fields.remove(field);
                is_mended = true;
            }
        }
        // Everything has a name by which people know it.
        if fields.text("name").is_none() {
            fields.set("name", raw(key));
            is_mended = true;
        }
        (fields, is_mended)
    }

    /// Takes note of something that is wrong.
    pub(super) fn warn(&mut self, kind: WarningKind, message: String) {
        const MOST: usize = 100;
        if self.warnings.len() < MOST {
            self.warnings.push(Warning { kind, message, location: None }.to_string());
        }
    }
}

fn shorten(name: &str) -> String {
    text::brief(name, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of a list, and how many warnings there are; mended once, they stay as they are.
    #[track_caller]
    fn check(kind: ListKind, list: &str, expected: &[&str], warnings: usize) {
        let read = |list: &str| {
            let page: Raw = serde_json::from_str(&format!("{{\"{}\":{list}}}", kind.field())).expect("JSON");
            let mut warnings = Vec::new();
            let mut reader = Reader::new(kind, &mut warnings);
            reader.page(&page).expect("a page");
            let items: Vec<String> = reader.items.iter().map(|item| item.raw.get().to_owned()).collect();
            (items, warnings.len())
        };
        let (items, found) = read(list);
        assert_eq!(
            (items.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), found),
            (expected, warnings),
            "{list}"
        );
        assert_eq!(read(&format!("[{}]", items.join(","))), (items, 0), "{list}");
    }

    #[test]
    fn schemas_become_those_of_objects() {
        let whole = r#"{"name":"a","inputSchema":{ "type":"object", "x": 1.0 }}"#;
        check(ListKind::Tools, &format!("[{whole}]"), &[whole], 0);
        let empty = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
        check(ListKind::Tools, r#"[{"name":"a"}]"#, &[empty], 1);
        check(ListKind::Tools, r#"[{"name":"a","inputSchema":{"type":"array","required":{}}}]"#, &[empty], 1);
        check(ListKind::Tools, r#"[{"name":"a","inputSchema":{"properties":3}}]"#, &[empty], 2);
    }

    #[test]
    fn names_are_texts() {
        let named = r#"{"uri":"a:b","name":"a:b"}"#;
        check(ListKind::Resources, r#"[{"uri":"a:b"}]"#, &[named], 0);
        check(ListKind::Resources, r#"[{"uri":"a:b","name":7}]"#, &[named], 0);
    }
}
