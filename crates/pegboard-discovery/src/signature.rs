//! A tool in one line that a model can call without having seen its schema.

use pegboard_core::{Tool, text};
use serde_json::{Map, Value};

use crate::prompt::one_line;

/// Characters of a purpose.
const MAX_PURPOSE: usize = 90;

/// Optional parameters that are spelled out; the others are only counted.
const MAX_OPTIONAL: usize = 6;

/// Levels of objects that are spelled out.
const MAX_DEPTH: usize = 2;

/// `name(param: type, optional?: type = default) — purpose`.
pub(crate) fn signature(tool: &Tool, shown_as: &str) -> String {
    let schema = tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema).ok());
    let parameters =
        schema.as_ref().map(|schema| Types { root: schema }.parameters(schema, MAX_DEPTH)).unwrap_or_default();
    // Names and values of parameters are a server's own words too.
    let parameters = text::line(&parameters);
    let purpose = purpose(tool.description());
    if purpose.is_empty() {
        format!("{shown_as}({parameters})")
    } else {
        format!("{shown_as}({parameters}) — {purpose}")
    }
}

/// Whether the signature of `tool` tells the type or the values of every required parameter.
pub fn has_complete_signature(tool: &Tool) -> bool {
    let Some(schema) = tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema).ok()) else {
        return true;
    };
    let types = Types { root: &schema };
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    let is_told = |schema: &Value| {
        let told = types.of(schema, MAX_DEPTH);
        !told.split(|c: char| !c.is_alphanumeric()).any(|word| word == ANY)
    };
    required(&schema).iter().all(|name| property(name).is_some_and(is_told))
}

/// The type of what has none.
const ANY: &str = "any";

fn required(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Types of one schema document, whose references lead back into it.
struct Types<'a> {
    root: &'a Value,
}

impl Types<'_> {
    fn parameters(&self, schema: &Value, depth: usize) -> String {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = required(schema);
        let is_required = |name: &str| required.contains(&name);
        let mut parts: Vec<String> = Vec::new();
        for (name, property) in properties.iter().filter(|(name, _)| is_required(name)) {
            parts.push(format!("{name}: {}", self.of(property, depth)));
        }
        let optional: Vec<(&String, &Value)> = properties.iter().filter(|(name, _)| !is_required(name)).collect();
        for (name, property) in optional.iter().take(MAX_OPTIONAL) {
            let default = property.get("default").filter(|default| !default.is_null() && is_short(default));
            let default = default.map(|default| format!(" = {default}")).unwrap_or_default();
            parts.push(format!("{name}?: {}{default}", self.of(property, depth)));
        }
        if optional.len() > MAX_OPTIONAL {
            parts.push(format!("…{} more optional", optional.len() - MAX_OPTIONAL));
        }
        parts.join(", ")
    }

    /// The type of a parameter as a reader of TypeScript would write it.
    fn of(&self, schema: &Value, depth: usize) -> String {
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
        }
        if let Some(value) = schema.get("const") {
            return value.to_string();
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            // Only within the document; a level is spent, so that a circle ends.
            let target = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            return match (target, depth) {
                (Some(target), 1..) => self.of(target, depth - 1),
                _ => "object".to_owned(),
            };
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(branches) = schema.get(key).and_then(Value::as_array) {
                let mut types: Vec<String> = branches.iter().map(|branch| self.of(branch, depth)).collect();
                types.dedup();
                return types.join(if key == "allOf" { "&" } else { "|" });
            }
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.named(name, schema, depth),
            Some(Value::Array(names)) => {
                let types = names.iter().filter_map(Value::as_str).map(|name| self.named(name, schema, depth));
                types.collect::<Vec<_>>().join("|")
            }
            _ if schema.get("properties").is_some() => self.named("object", schema, depth),
            _ => ANY.to_owned(),
        }
    }

    fn named(&self, name: &str, schema: &Value, depth: usize) -> String {
        match name {
            "array" => {
                let items = schema.get("items").map_or_else(|| ANY.to_owned(), |items| self.of(items, depth));
                if items.contains('|') && !items.starts_with('{') {
                    format!("({items})[]")
                } else {
                    format!("{items}[]")
                }
            }
            "object" if schema.get("properties").is_some() && depth > 0 => {
                format!("{{{}}}", self.parameters(schema, depth - 1))
            }
            name => name.to_owned(),
        }
    }
}

fn is_short(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && value.to_string().len() <= 20
}

/// The first sentence of a description, cut at a word.
fn purpose(description: &str) -> String {
    let line = one_line(description);
    let sentence = line.split_once(". ").map_or(line.as_str(), |(first, _)| first);
    let sentence = sentence.split_once('。').map_or(sentence, |(first, _)| first).trim_end_matches('.');
    if sentence.chars().count() <= MAX_PURPOSE {
        return sentence.to_owned();
    }
    let cut: String = sentence.chars().take(MAX_PURPOSE).collect();
    let cut = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use pegboard_core::{Catalog, Limits, load};

    use super::*;

    fn check(schema: &str, description: &str, expected: &str) {
        let tool = format!(r#"[{{"name": "t", "description": "{description}", "inputSchema": {schema}}}]"#);
        let loaded = load::parse("t", tool.as_bytes(), &Limits::default()).expect("a tool");
        let (catalog, _) = Catalog::from_tools(loaded.tools);
        assert_eq!(catalog.iter().next().map(|tool| signature(tool, "t")).as_deref(), Some(expected));
    }

    #[test]
    fn signatures() {
        check("{}", "", "t()");
        check(
            r#"{"properties": {"a": {"type": "string"}, "n": {"type": "integer", "default": 3}}, "required": ["a"]}"#,
            "Does it. And more.",
            "t(a: string, n?: integer = 3) — Does it",
        );
        check(r#"{"properties": {"u": {"enum": ["c", "f"]}}, "required": ["u"]}"#, "", r#"t(u: "c"|"f")"#);
        check(
            r##"{"properties": {"l": {"type": "array", "items": {"$ref": "#/$defs/x"}}}, "required": ["l"],
                "$defs": {"x": {"type": "object", "properties": {"k": {"type": ["string", "null"]}}}}}"##,
            "",
            "t(l: {k?: string|null}[])",
        );
        check(r##"{"properties": {"self": {"$ref": "#"}}, "required": ["self"]}"##, "", "t(self: {self: object})");
    }
}
