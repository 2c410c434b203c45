use proptest::prelude::*;

use super::*;

const SCHEMA_LIMITS: SchemaLimits = SchemaLimits { depth: 24, nodes: 5000 };

/// Converts, and compares with the schema and the components that are expected.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the tables below read better without marks")]
fn check(schema: Value, expected: Value, expected_components: Value) {
    let mut components = Map::new();
    let converted = convert(&schema, "t", SCHEMA_LIMITS, &mut components);
    assert_eq!(converted.to_string(), expected.to_string(), "{schema}");
    assert_eq!(Value::Object(components).to_string(), expected_components.to_string(), "{schema}");
}

#[track_caller]
fn alone(schema: Value, expected: Value) {
    check(schema, expected, json!({}));
}

#[test]
fn types() {
    alone(json!({"type": "string"}), json!({"type": "string"}));
    alone(json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true}));
    alone(json!({"type": "null"}), json!({"nullable": true, "enum": [null]}));
    alone(json!({"type": ["null"]}), json!({"nullable": true, "enum": [null]}));
    alone(json!({"type": "file"}), json!({}));
    alone(json!({"type": "array"}), json!({"type": "array", "items": {}}));
    alone(
        json!({"type": ["array", "null", "string"], "items": {"type": "integer"}}),
        json!({"anyOf": [{"type": "string", "nullable": true}, {"type": "array", "items": {"type": "integer"}}]}),
    );
    alone(
        json!({"type": ["string", "integer"], "anyOf": [{"minLength": 1}, {"minimum": 1}]}),
        json!({
            "allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}],
            "anyOf": [{"minLength": 1}, {"minimum": 1}]
        }),
    );
    alone(json!(true), json!({}));
    alone(json!(false), json!({"not": {}}));
    alone(json!([1]), json!({}));
}

#[test]
fn values() {
    alone(json!({"const": "a"}), json!({"enum": ["a"]}));
    alone(json!({"const": null}), json!({"nullable": true, "enum": [null]}));
    alone(
        json!({"type": "string", "enum": ["a", null]}),
        json!({"type": "string", "nullable": true, "enum": ["a", null]}),
    );
    alone(json!({"enum": []}), json!({}));
    alone(json!({"enum": "a"}), json!({}));
    alone(json!({"type": "integer", "default": 3}), json!({"type": "integer", "default": 3}));
    alone(json!({"type": "integer", "default": "3"}), json!({"type": "integer"}));
    alone(json!({"type": "string", "default": null}), json!({"type": "string"}));
    alone(json!({"enum": ["a"], "default": "b"}), json!({"enum": ["a"]}));
    alone(json!({"examples": [1, 2]}), json!({"example": 1}));
    alone(json!({"examples": {"a": 1}, "example": "x"}), json!({"example": "x"}));
}

#[test]
fn ranges() {
    alone(json!({"exclusiveMinimum": 0}), json!({"minimum": 0, "exclusiveMinimum": true}));
    alone(json!({"minimum": 5, "exclusiveMinimum": 0}), json!({"minimum": 5}));
    alone(json!({"minimum": 0, "exclusiveMinimum": 0}), json!({"minimum": 0, "exclusiveMinimum": true}));
    alone(json!({"maximum": 5, "exclusiveMaximum": 9}), json!({"maximum": 5}));
    alone(json!({"maximum": 5, "exclusiveMaximum": true}), json!({"maximum": 5, "exclusiveMaximum": true}));
    alone(json!({"exclusiveMaximum": true}), json!({}));
    alone(json!({"minLength": -1, "maxItems": 2.5, "multipleOf": 0, "maxLength": 3}), json!({"maxLength": 3}));
}

#[test]
fn choices() {
    alone(
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "X", "description": "d"}),
        json!({"type": "string", "nullable": true, "description": "d"}),
    );
    alone(
        json!({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        json!({"oneOf": [{"type": "string", "nullable": true}, {"type": "integer"}]}),
    );
    alone(
        json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({
            "type": "object",
            "anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"required": ["b"], "properties": {"b": {}}}]
        }),
    );
    alone(json!({"anyOf": []}), json!({}));
    alone(json!({"allOf": [{"type": "string"}]}), json!({"type": "string"}));
    alone(json!({"not": {"if": true}}), json!({}));
    alone(json!({"not": {"type": "string"}}), json!({"not": {"type": "string"}}));
}

#[test]
fn containers() {
    alone(
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}, {"type": "integer"}], "items": false}),
        json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
    );
    alone(
        json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}),
        json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
    );
    alone(
        json!({"required": ["a", "a", 1, "b"], "properties": {"a": true}, "additionalProperties": false}),
        json!({"required": ["a", "b"], "properties": {"a": {}, "b": {}}, "additionalProperties": false}),
    );
    alone(json!({"patternProperties": {"^x": {}}, "additionalProperties": false, "required": []}), json!({}));
    alone(
        json!({"properties": {"user_id": {"title": "User Id"}, "x": {"title": "The place"}}}),
        json!({"properties": {"user_id": {}, "x": {"title": "The place"}}}),
    );
    alone(
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", "title": "Args", "$comment": "c",
            "if": {}, "then": {}, "else": {}, "unevaluatedProperties": false, "contentEncoding": "base64",
            "dependentRequired": {"a": ["b"]}, "propertyNames": {"pattern": "x"}, "x-hint": 1, "discriminator": {}
        }),
        json!({}),
    );
}

#[test]
fn references() {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    check(
        json!({"properties": {"a": {"$ref": "#/$defs/A b", "description": "d"}, "z": {"$ref": "#/$defs/A%20b"}},
               "$defs": {"A b": {"type": "string"}}}),
        json!({"properties": {"a": {"description": "d", "allOf": [reference("t_A_b")]}, "z": reference("t_A_b")}}),
        json!({"t_A_b": {"type": "string"}}),
    );
    check(
        json!({"$ref": "#/definitions/Node", "definitions": {
            "Node": {"properties": {"next": {"anyOf": [{"$ref": "#/definitions/Node"}, {"type": "null"}]}}}}}),
        reference("t_Node"),
        json!({"t_Node": {"properties": {"next": {"nullable": true, "allOf": [reference("t_Node")]}}}}),
    );
    check(
        json!({"properties": {"self": {"$ref": "#"}, "a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}}),
        json!({"properties": {"self": reference("t"), "a": {"type": "string"}, "b": reference("t_a")}}),
        json!({
            "t": {"properties": {"self": reference("t"), "a": {"type": "string"}, "b": reference("t_a")}},
            "t_a": {"type": "string"}
        }),
    );
    // Two names that become one.
    check(
        json!({"items": [{"$ref": "#/$defs/x-y"}, {"$ref": "#/$defs/x.y"}],
               "$defs": {"x-y": {"type": "string"}, "x.y": {"type": "integer"}}}),
        json!({"items": {"anyOf": [reference("t_x_y"), reference("t_x_y_2")]}}),
        json!({"t_x_y": {"type": "string"}, "t_x_y_2": {"type": "integer"}}),
    );
    // A schema that is all of itself, at once and by way of another.
    check(
        json!({"allOf": [{"$ref": "#"}], "type": "object"}),
        json!({"type": "object", "allOf": [reference("t")]}),
        json!({"t": {"type": "object", "allOf": [{}]}}),
    );
    check(
        json!({"$ref": "#/$defs/A", "$defs": {
            "A": {"description": "a", "$ref": "#/$defs/B"}, "B": {"description": "b", "$ref": "#/$defs/A"}}}),
        reference("t_A"),
        json!({
            "t_A": {"description": "a", "allOf": [reference("t_B")]},
            "t_B": {"description": "b", "allOf": [{}]}
        }),
    );
    for nowhere in ["https://example.org/x.json", "#/$defs/missing", "#anchor", "#/%zz", "x", "#/$defs/loop"] {
        let schema = json!({"properties": {"a": {"$ref": nowhere}}, "$defs": {"loop": {"$ref": "#/$defs/loop"}}});
        alone(schema, json!({"properties": {"a": {}}}));
    }
}

#[test]
fn hostile_schemas_are_bounded() {
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"properties": {"a": deep}});
    }
    let wide: Map<String, Value> = (0..50_000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let definitions: Map<String, Value> = (0..3000)
        .map(|at| (format!("d{at}"), json!({"properties": {"a": {"$ref": format!("#/$defs/d{}", at + 1)}}})))
        .collect();
    let values: Vec<u32> = (0..100_000).collect();
    for schema in [
        deep,
        json!({"properties": wide}),
        json!({"$ref": "#/$defs/d0", "$defs": definitions}),
        json!({"enum": values}),
        json!({"required": values.iter().map(u32::to_string).collect::<Vec<_>>(), "additionalProperties": false}),
        json!({"anyOf": values.iter().map(|at| json!({"minimum": at})).collect::<Vec<_>>()}),
        json!({"prefixItems": values.iter().map(|at| json!({"minimum": at})).collect::<Vec<_>>()}),
        json!({"description": "x".repeat(1 << 20)}),
    ] {
        let mut components = Map::new();
        let converted = convert(&schema, "t", SCHEMA_LIMITS, &mut components);
        let size = converted.to_string().len() + Value::Object(components).to_string().len();
        assert!(size < 300_000, "{size}");
    }
}

/// JSON that looks like schemas, with references that lead everywhere.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["string", "array", "null", "", "#", "#/a", "#/properties/a", "#/$defs/b", "ü\n"])
            .prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "type",
        "$ref",
        "$defs",
        "properties",
        "a",
        "b",
        "items",
        "prefixItems",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "enum",
        "const",
        "required",
        "default",
        "additionalProperties",
        "minimum",
        "exclusiveMinimum",
        "title",
        "description",
        "examples",
        "nullable",
        "maxLength",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            4 => prop::collection::vec((key.clone(), inner), 0..6).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Whether every keyword is one of OpenAPI 3.0 and of the right kind, and every reference
/// leads somewhere.
fn is_sound(schema: &Value, components: &Map<String, Value>) -> bool {
    let Some(map) = schema.as_object() else { return false };
    let sound = |schema: &Value| is_sound(schema, components);
    map.iter().all(|(key, value)| match key.as_str() {
        "$ref" => {
            let name = value.as_str().and_then(|target| target.strip_prefix("#/components/schemas/"));
            map.len() == 1 && name.is_some_and(|name| components.contains_key(name))
        }
        "type" => {
            matches!(value.as_str(), Some("string" | "integer" | "number" | "boolean" | "object"))
                || (value == "array" && map.contains_key("items"))
        }
        "items" | "not" => sound(value),
        "additionalProperties" => value.is_boolean() || sound(value),
        "properties" => value.as_object().is_some_and(|properties| properties.values().all(sound)),
        "allOf" | "anyOf" | "oneOf" => value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(sound)),
        "required" => value.as_array().is_some_and(|names| {
            let properties = map.get("properties");
            !names.is_empty()
                && names
                    .iter()
                    .all(|name| name.as_str().is_some_and(|name| properties.is_some_and(|all| all.get(name).is_some())))
        }),
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "nullable" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_boolean(),
        "minimum" | "maximum" => value.is_number(),
        "maxLength" => value.is_u64(),
        "title" | "description" => value.is_string(),
        "default" | "example" => true,
        _ => false,
    })
}

proptest! {
    #[test]
    fn any_json_becomes_a_sound_schema(schema in any_schema()) {
        let run = || {
            let mut components = Map::new();
            let converted = convert(&schema, "t", SCHEMA_LIMITS, &mut components);
            (converted, components)
        };
        let (converted, components) = run();
        prop_assert!(is_sound(&converted, &components), "{} became {}", schema, converted);
        for component in components.values() {
            prop_assert!(is_sound(component, &components), "{} became {:?}", schema, components);
        }
        let (again, components_again) = run();
        prop_assert_eq!(again.to_string(), converted.to_string());
        prop_assert_eq!(Value::Object(components_again).to_string(), Value::Object(components).to_string());
    }
}
