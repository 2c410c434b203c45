//! Signatures: tools in one line, which a model can call without the schema.

mod notes;

use std::{collections::HashSet, sync::Arc};

use pegboard_core::{Tool, text};
use serde_json::{Map, Value};

use crate::{prompt::one_line, tokens::estimate_tokens};

/// Maximum number of characters of a purpose.
const MAX_PURPOSE: usize = 90;

/// Maximum number of listed optional parameters; further ones are only counted.
const MAX_OPTIONAL: usize = 6;

/// Maximum depth of listed objects.
const MAX_DEPTH: usize = 2;

/// Maximum number of listed values of a required parameter; further ones are counted.
const MAX_REQUIRED_VALUES: usize = 50;

/// Maximum number of listed values of an optional parameter; further ones are counted.
const MAX_OPTIONAL_VALUES: usize = 10;

/// Maximum number of bytes of a type in the briefest line; in longer ones, objects are abbreviated.
const MAX_BRIEF_TYPE: usize = 240;

/// The level of detail of a line, from least to most. Required parameters are complete in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    /// Optional parameters by name alone.
    Brief,
    /// Optional parameters with their types.
    Typed,
    /// With notes on required parameters: `time: string /* 24-hour format */`.
    RequiredNotes,
    /// With notes on optional parameters too.
    AllNotes,
}

impl Detail {
    /// Every level, from least to most.
    const ALL: [Self; 4] = [Self::Brief, Self::Typed, Self::RequiredNotes, Self::AllNotes];
}

/// A tool in one line.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) text: String,
    /// Estimated.
    pub(crate) tokens: usize,
}

impl Signature {
    fn of(text: String) -> Self {
        Self { tokens: estimate_tokens(&text), text }
    }

    /// `name(param: type, optional?: type = default) — purpose`, with all allowed values.
    pub(crate) fn new(tool: &Tool, shown_as: &str) -> Self {
        let schema = schema_of(tool);
        let parameters = schema.as_ref().map(|schema| Types::complete(schema).all(schema)).unwrap_or_default();
        Self::of(line(shown_as, &parameters, &purpose(tool.description())))
    }
}

/// The signatures of one tool in each level of detail.
#[derive(Debug)]
pub(crate) struct Signatures([Arc<Signature>; 4]);

impl Signatures {
    /// The lines of `tool` under the name `shown_as`.
    pub(crate) fn new(tool: &Tool, shown_as: &str) -> Self {
        let schema = schema_of(tool);
        let purpose = purpose(tool.description());
        let mut last: Option<Arc<Signature>> = None;
        Self(Detail::ALL.map(|detail| {
            let parameters = schema.as_ref().map(|schema| Types::shortened(schema, detail).all(schema));
            let text = line(shown_as, &parameters.unwrap_or_default(), &purpose);
            // Most tools have fewer lines than there are details.
            let same = last.take().filter(|last| last.text == text);
            let made = same.unwrap_or_else(|| Arc::new(Signature::of(text)));
            last = Some(Arc::clone(&made));
            made
        }))
    }

    /// The line in this detail.
    pub(crate) fn get(&self, detail: Detail) -> &Signature {
        &self.0[detail as usize]
    }
}

fn schema_of(tool: &Tool) -> Option<Value> {
    tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok())
}

fn line(shown_as: &str, parameters: &str, purpose: &str) -> String {
    // Names and values of parameters are a server's own words too.
    let parameters = text::line(parameters);
    if purpose.is_empty() {
        format!("{shown_as}({parameters})")
    } else {
        format!("{shown_as}({parameters}) — {purpose}")
    }
}

/// Returns whether the signature of `tool` contains the type or the values of every required
/// parameter.
pub fn has_complete_signature(tool: &Tool) -> bool {
    let Some(schema) = schema_of(tool) else { return true };
    let types = Types::complete(&schema);
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    let is_told = |schema: &Value| {
        let told = types.of(schema, Place::required(MAX_DEPTH));
        !told.split(|c: char| !c.is_alphanumeric()).any(|word| word == ANY)
    };
    required(&schema).iter().all(|name| property(name).is_some_and(is_told))
}

/// The type of a parameter without a type.
const ANY: &str = "any";

fn required(schema: &Value) -> HashSet<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The types of one schema document, with its references.
struct Types<'a> {
    root: &'a Value,
    detail: Detail,
    /// Whether long lists of allowed values are cut.
    is_cut: bool,
}

/// The position of a type in a signature.
#[derive(Clone, Copy)]
struct Place {
    /// Levels of objects that may still be spelled out.
    depth: usize,
    /// Whether a call must give it, as far as can be seen.
    is_required: bool,
}

impl Place {
    fn required(depth: usize) -> Self {
        Self { depth, is_required: true }
    }

    fn below(self) -> Self {
        Self { depth: self.depth.saturating_sub(1), ..self }
    }
}

impl<'a> Types<'a> {
    fn complete(root: &'a Value) -> Self {
        Self { root, detail: Detail::Typed, is_cut: false }
    }

    fn shortened(root: &'a Value, detail: Detail) -> Self {
        Self { root, detail, is_cut: true }
    }

    /// Returns the parameters of a tool.
    fn all(&self, schema: &Value) -> String {
        self.parameters(schema, Place::required(MAX_DEPTH))
    }

    fn parameters(&self, schema: &Value, place: Place) -> String {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = required(schema);
        let is_required = |name: &str| required.contains(name);
        let mut parts: Vec<String> = Vec::new();
        for name in properties.keys().filter(|name| is_required(name)) {
            parts.push(format!("{name}: {}", self.with_note(name, properties, place, "")));
        }
        let optional: Vec<(&String, &Value)> = properties.iter().filter(|(name, _)| !is_required(name)).collect();
        let is_named_only = self.detail == Detail::Brief && place.depth == MAX_DEPTH;
        for (name, property) in optional.iter().take(MAX_OPTIONAL) {
            if is_named_only {
                parts.push(format!("{name}?"));
                continue;
            }
            let default = property.get("default").filter(|default| !default.is_null() && is_short(default));
            let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
            let place = Place { is_required: false, ..place };
            parts.push(format!("{name}?: {}", self.with_note(name, properties, place, &default)));
        }
        if optional.len() > MAX_OPTIONAL {
            parts.push(format!("…{} more optional", optional.len() - MAX_OPTIONAL));
        }
        parts.join(", ")
    }

    /// Returns the type of a parameter, its default, and a note on what these and its name do not
    /// express.
    fn with_note(&self, name: &str, properties: &Map<String, Value>, place: Place, default: &str) -> String {
        let property = &properties[name];
        let mut text = self.of(property, place);
        if self.detail == Detail::Brief && text.len() > MAX_BRIEF_TYPE {
            text = self.of(property, Place { depth: 0, ..place });
        }
        let least = if place.is_required { Detail::RequiredNotes } else { Detail::AllNotes };
        // Allowed values explain themselves, and so do booleans and objects.
        let is_open = !text.contains(['"', '{']) && !text.starts_with("boolean");
        text.push_str(default);
        if self.detail < least || !is_open {
            return text;
        }
        match notes::note(name, property, properties) {
            Some(note) => format!("{text} /* {note} */"),
            None => text,
        }
    }

    /// Returns the type of a parameter in the style of TypeScript.
    fn of(&self, schema: &Value, place: Place) -> String {
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return self.values(values, place);
        }
        if let Some(value) = schema.get("const") {
            return value.to_string();
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            // Only within the document; a level is spent, so that a circle ends.
            let target = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            return match (target, place.depth) {
                (Some(target), 1..) => self.of(target, place.below()),
                _ => self.object().to_owned(),
            };
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(branches) = schema.get(key).and_then(Value::as_array) {
                let mut types: Vec<String> = branches.iter().map(|branch| self.of(branch, place)).collect();
                types.dedup();
                return types.join(if key == "allOf" { "&" } else { "|" });
            }
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.named(name, schema, place),
            Some(Value::Array(names)) => {
                let types = names.iter().filter_map(Value::as_str).map(|name| self.named(name, schema, place));
                types.collect::<Vec<_>>().join("|")
            }
            _ if schema.get("properties").is_some() => self.named("object", schema, place),
            _ => ANY.to_owned(),
        }
    }

    /// Returns the allowed values; of a long list the first ones and the number of the others.
    fn values(&self, values: &[Value], place: Place) -> String {
        let most = match place.is_required {
            _ if !self.is_cut => usize::MAX,
            true => MAX_REQUIRED_VALUES,
            false => MAX_OPTIONAL_VALUES,
        };
        let shown = values.iter().take(most).map(Value::to_string).collect::<Vec<_>>().join("|");
        match values.len().saturating_sub(most) {
            0 => shown,
            more => format!("{shown}|…{more} more"),
        }
    }

    fn named(&self, name: &str, schema: &Value, place: Place) -> String {
        match name {
            "array" => {
                let items = schema.get("items").map_or_else(|| ANY.to_owned(), |items| self.of(items, place));
                if items.contains('|') && !items.starts_with('{') {
                    format!("({items})[]")
                } else {
                    format!("{items}[]")
                }
            }
            "object" if schema.get("properties").is_some() && place.depth > 0 => {
                format!("{{{}}}", self.parameters(schema, place.below()))
            }
            "object" if schema.get("properties").is_some() => self.object().to_owned(),
            name => name.to_owned(),
        }
    }

    /// Returns the type of an abbreviated object.
    fn object(&self) -> &'static str {
        if self.detail == Detail::Brief { "{…}" } else { "object" }
    }
}

fn is_short(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && value.to_string().len() <= 20
}

/// Returns the first sentence of a description, cut at a word.
fn purpose(description: &str) -> String {
    let line = one_line(description);
    let sentence = line.split_once(". ").map_or(line.as_str(), |(first, _)| first);
    let sentence = sentence.split_once('。').map_or(sentence, |(first, _)| first).trim_end_matches('.');
    text::excerpt(sentence, MAX_PURPOSE).into_owned()
}

#[cfg(test)]
mod tests;
