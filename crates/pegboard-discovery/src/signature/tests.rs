use pegboard_core::{Catalog, LoadLimits, load};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tool(description: &str, schema: &Value) -> Arc<Tool> {
    let file = json!([{"name": "t", "description": description, "inputSchema": schema}]).to_string();
    let loaded = load::parse("t", file.as_bytes(), &LoadLimits::default()).expect("a tool");
    let (catalog, _) = Catalog::from_tools(loaded.tools);
    catalog.iter().next().map(Arc::clone).expect("a tool")
}

#[track_caller]
fn check(schema: &Value, description: &str, expected: &str) {
    assert_eq!(Signature::new(&tool(description, schema), "t").text, expected);
}

#[track_caller]
fn check_details(schema: &Value, expected: [&str; 4]) {
    let signatures = Signatures::new(&tool("", schema), "t");
    assert_eq!(Detail::ALL.map(|detail| signatures.get(detail).text.clone()), expected);
}

#[test]
fn complete_signatures() {
    check(&json!({}), "", "t()");
    check(
        &json!({
            "properties": {"a": {"type": "string"}, "n": {"type": "integer", "default": 3}},
            "required": ["a"]
        }),
        "Does it. And more.",
        "t(a: string, n?: integer = 3) — Does it",
    );
    check(&json!({"properties": {"u": {"enum": ["c", "f"]}}, "required": ["u"]}), "", r#"t(u: "c"|"f")"#);
    check(
        &json!({
            "properties": {"l": {"type": "array", "items": {"$ref": "#/$defs/x"}}},
            "required": ["l"],
            "$defs": {"x": {"type": "object", "properties": {"k": {"type": ["string", "null"]}}}}
        }),
        "",
        "t(l: {k?: string|null}[])",
    );
    check(&json!({"properties": {"self": {"$ref": "#"}}, "required": ["self"]}), "", "t(self: {self: object})");
}

#[test]
fn details() {
    check_details(
        &json!({
            "properties": {
                "time": {"type": "string", "description": "24-hour format"},
                "wait": {"type": "integer", "description": "In seconds", "default": 3},
                "unit": {"enum": ["c", "f"], "description": "e.g. c"}
            },
            "required": ["time"]
        }),
        [
            "t(time: string, wait?, unit?)",
            r#"t(time: string, wait?: integer = 3, unit?: "c"|"f")"#,
            r#"t(time: string /* 24-hour format */, wait?: integer = 3, unit?: "c"|"f")"#,
            r#"t(time: string /* 24-hour format */, wait?: integer = 3 /* seconds */, unit?: "c"|"f")"#,
        ],
    );
    // A note on a required part of an optional object is one on something optional.
    let day = json!({"properties": {"day": {"type": "string", "format": "date"}}, "required": ["day"]});
    check_details(
        &json!({"properties": {"from": day, "to": day}, "required": ["from"]}),
        [
            "t(from: {day: string}, to?)",
            "t(from: {day: string}, to?: {day: string})",
            "t(from: {day: string /* YYYY-MM-DD */}, to?: {day: string})",
            "t(from: {day: string /* YYYY-MM-DD */}, to?: {day: string /* YYYY-MM-DD */})",
        ],
    );
}

#[test]
fn values_that_are_left_out_are_counted() {
    let values: Vec<usize> = (0..53).collect();
    let schema = json!({"properties": {"a": {"enum": values}, "b": {"enum": values}}, "required": ["a"]});
    let text = &Signatures::new(&tool("", &schema), "t").get(Detail::Typed).text.clone();
    assert!(text.contains("|49|…3 more, b?: 0|1|2|3|4|5|6|7|8|9|…43 more)"), "{text}");
    assert!(Signature::new(&tool("", &schema), "t").text.ends_with("|51|52)"));
}

#[test]
fn long_types_are_folded_in_the_briefest_line_only() {
    let properties: Map<String, Value> =
        (0..40).map(|at| (format!("property{at}"), json!({"type": "string"}))).collect();
    let names: Vec<&String> = properties.keys().collect();
    let items = json!({"type": "object", "properties": properties, "required": names});
    let schema = json!({"properties": {"l": {"type": "array", "items": items}}, "required": ["l"]});
    let signatures = Signatures::new(&tool("", &schema), "t");
    assert_eq!(signatures.get(Detail::Brief).text, "t(l: {…}[])");
    assert!(signatures.get(Detail::Typed).text.contains("property39: string"));
}

proptest! {
    /// Whatever a server writes, each comment ends where it should, on the same line.
    #[test]
    fn comments_are_closed(texts in proptest::collection::vec("(e\\.g\\. |in UTC |\\*/|/\\*|\n|\\PC{0,9}){0,9}", 1..8)) {
        let property = |text: &String| json!({"type": "string", "description": text, "default": "x"});
        let properties: Map<String, Value> =
            texts.iter().enumerate().map(|(at, text)| (format!("p{at}"), property(text))).collect();
        let signatures = Signatures::new(&tool("", &json!({"properties": properties, "required": ["p0"]})), "t");
        let text = &signatures.get(Detail::AllNotes).text;
        prop_assert!(!text.contains(char::is_control));
        let comments = text.matches("string /* ").count() + text.matches("= \"x\" /* ").count();
        prop_assert_eq!(comments, text.matches("*/").count(), "{}", text);
        for pair in Detail::ALL.windows(2) {
            prop_assert!(signatures.get(pair[0]).text.len() <= signatures.get(pair[1]).text.len());
        }
    }
}
