//! Reads a list page by page and repairs invalid entries.

use std::collections::{HashMap, HashSet};

use pegboard_core::{
    catalog::{Warning, WarningKind},
    text,
};
use pegboard_mcp::json::{Fields, Raw, raw};
use serde_json::{json, value::RawValue};

use super::{Item, ListKind, MAX_ITEMS, MAX_LIST_BYTES, MAX_TEXT};
use crate::connection::CallError;

/// Maximum number of bytes of one item.
const MAX_ITEM_BYTES: usize = 1 << 20;

/// Optional fields and the first character of their JSON type.
const FIELD_TYPES: &[(&str, char)] = &[
    ("title", '"'),
    ("description", '"'),
    ("mimeType", '"'),
    ("annotations", '{'),
    ("outputSchema", '{'),
    ("_meta", '{'),
    ("icons", '['),
    ("arguments", '['),
];

/// Returns the items on one page, and the warnings about them.
#[cfg(fuzzing)]
pub(crate) fn read_page(kind: ListKind, result: &RawValue) -> Result<(Vec<Item>, Vec<String>), CallError> {
    let mut warnings = Vec::new();
    let mut reader = PageReader::new(kind, &mut warnings);
    reader.read_page(result)?;
    let items = std::mem::take(&mut reader.items);
    Ok((items, warnings))
}

/// Reads a list page by page.
pub(super) struct PageReader<'a> {
    kind: ListKind,
    pub(super) items: Vec<Item>,
    /// Bytes of all items.
    pub(super) bytes: usize,
    seen: HashSet<String>,
    warnings: &'a mut Vec<String>,
}

impl<'a> PageReader<'a> {
    /// Creates a reader of lists of this kind.
    pub(super) fn new(kind: ListKind, warnings: &'a mut Vec<String>) -> Self {
        Self { kind, items: Vec::new(), bytes: 0, seen: HashSet::new(), warnings }
    }

    /// Reads one page and returns the cursor of the next one.
    ///
    /// # Errors
    /// When the result is not a page of the list.
    pub(super) fn read_page(&mut self, result: &RawValue) -> Result<Option<Raw>, CallError> {
        // Borrowed from the result, not copied: a page may be the whole of a large list.
        let fields: HashMap<String, &RawValue> = serde_json::from_str(result.get())
            .map_err(|_| CallError::Garbled("the list result is not an object".to_owned()))?;
        let missing = || CallError::Garbled(format!("the list result has no `{}`", self.kind.field()));
        let list = fields.get(self.kind.field()).ok_or_else(missing)?;
        let list: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| missing())?;
        for item in list {
            self.read_item(item);
        }
        let cursor = fields.get("nextCursor").filter(|cursor| cursor.get() != "null");
        Ok(cursor.map(|cursor| (*cursor).to_owned()))
    }

    fn read_item(&mut self, item: &RawValue) {
        if self.items.len() >= MAX_ITEMS {
            if self.items.len() == MAX_ITEMS && self.seen.insert(String::new()) {
                self.warn(
                    WarningKind::TooLong,
                    format!("list over the limit of {MAX_ITEMS} entries; the rest is skipped"),
                );
            }
            return;
        }
        // An entry that cannot be parsed completely (half a character, nested without end) cannot
        // be parsed by clients either, which would then lose the whole list.
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
        let (fields, is_repaired) = self.remove_wrong_types(&key, fields);
        let raw = match self.kind {
            ListKind::Tools => self.repair_tool(&key, fields, is_repaired, item),
            _ if is_repaired => fields.to_raw(),
            _ => item.to_owned(),
        };
        let raw = self.clean_texts(&key, raw);
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

    /// Returns a tool that every client can read: its schema is an object schema, and its
    /// description is bounded.
    fn repair_tool(&mut self, name: &str, mut fields: Fields, mut is_repaired: bool, item: &RawValue) -> Raw {
        match fields.object("inputSchema") {
            None => {
                self.warn(
                    WarningKind::SchemaNotObject,
                    format!("`{}` has no valid `inputSchema`; any object is accepted", shorten(name)),
                );
                fields.set("inputSchema", raw(&json!({"type": "object"})));
                is_repaired = true;
            }
            Some(schema) => {
                if let Some(repaired) = self.repair_schema(name, schema) {
                    fields.set("inputSchema", repaired.to_raw());
                    is_repaired = true;
                }
            }
        }
        if let Some(text) = fields.text("description").filter(|text| text.len() > MAX_TEXT) {
            let message = format!("the description of `{}` is {} bytes; cut to {MAX_TEXT}", shorten(name), text.len());
            self.warn(WarningKind::TooLong, message);
            fields.set("description", raw(&text::bounded(&text, MAX_TEXT)));
            is_repaired = true;
        }
        if is_repaired { fields.to_raw() } else { item.to_owned() }
    }

    /// Returns an object schema in place of one that is not.
    fn repair_schema(&mut self, name: &str, mut schema: Fields) -> Option<Fields> {
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
        Some(schema.with_first("type", "object"))
    }

    /// Removes hidden characters from the texts of an entry. Calls still use its original name.
    fn clean_texts(&mut self, key: &str, item: Raw) -> Raw {
        // A URI is how a resource is read; its name is for people.
        let clean = text::clean_definition(item.get(), "name", MAX_TEXT);
        let Some(clean) = clean.and_then(|clean| RawValue::from_string(clean).ok()) else { return item };
        // Windows line ends are not worth a warning.
        let is_worth_warning = text::clean_definition(&item.get().replace("\\r", ""), "name", MAX_TEXT).is_some();
        if is_worth_warning {
            let message = format!("`{}` has hidden characters or an overlong text, which are removed", shorten(key));
            self.warn(WarningKind::HiddenCharacters, message);
        }
        clean
    }

    /// Removes optional fields of the wrong type, because of which strict clients would reject the
    /// whole list.
    fn remove_wrong_types(&mut self, key: &str, mut fields: Fields) -> (Fields, bool) {
        let mut is_repaired = false;
        for (field, fits) in FIELD_TYPES {
            let Some(value) = fields.get(field) else { continue };
            if !value.get().starts_with(*fits) {
                self.warn(
                    WarningKind::WrongType,
                    format!("`{field}` of `{}` has the wrong type and is ignored", shorten(key)),
                );
                fields.remove(field);
                is_repaired = true;
            }
        }
        // Every entry needs a name to show.
        if fields.text("name").is_none() {
            fields.set("name", raw(key));
            is_repaired = true;
        }
        (fields, is_repaired)
    }

    /// Adds a warning, up to a maximum number.
    pub(super) fn warn(&mut self, kind: WarningKind, message: String) {
        const MAX_WARNINGS: usize = 100;
        if self.warnings.len() < MAX_WARNINGS {
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

    /// Checks the items of a list and the number of warnings; repaired items need no second repair.
    #[track_caller]
    fn check(kind: ListKind, list: &str, expected: &[&str], warnings: usize) {
        let read = |list: &str| {
            let page: Raw = serde_json::from_str(&format!("{{\"{}\":{list}}}", kind.field())).expect("JSON");
            let mut warnings = Vec::new();
            let mut reader = PageReader::new(kind, &mut warnings);
            reader.read_page(&page).expect("a page");
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
