//! The meta-tool `read_result`, which reads results that were too long to show, and the text in
//! their place.

use serde_json::{Value, json};

use super::{
    arguments::{ArgumentError, Request, flag, given, max_results, range, required},
    outputs::{notice_with_calls, preview},
};
use crate::outcome::ToolDefinition;

/// The name of the meta-tool.
pub const READ_RESULT: &str = "read_result";

/// Returns the definition of the meta-tool for models.
pub fn definition() -> ToolDefinition {
    let number = |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
    let input_schema = json!({
        "type": "object",
        "properties": {
            "reference": {"type": "string", "description": "Reference from the message that replaced the result"},
            "start": number("First character, from 1"),
            "end": number("Last character, inclusive"),
            "first_line": number("First line, from 1"),
            "last_line": number("Last line, inclusive"),
            "pattern": {"type": "string", "description": "Regular expression; shows the matching lines"},
            "case_sensitive": {"type": "boolean", "default": false},
            "max_results": {"type": "integer", "default": 50},
            "query": {"type": "string", "description": "jq filter, for JSON"},
            "compact": {"type": "boolean", "default": false, "description": "One line for each jq result"},
            "raw": {"type": "boolean", "default": false, "description": "Strings of jq results without quotes"}
        },
        "required": ["reference"]
    });
    let description = "Read a part of a result that was too long to show: by characters, by lines, by regular \
                       expression, or with jq.";
    ToolDefinition { name: READ_RESULT.to_owned(), description: description.to_owned(), input_schema }
}

/// The arguments that begin a kind of request, each with the kind.
const KINDS: [(&str, Kind); 6] = [
    ("pattern", Kind::Search),
    ("query", Kind::Query),
    ("first_line", Kind::Lines),
    ("last_line", Kind::Lines),
    ("start", Kind::Characters),
    ("end", Kind::Characters),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Search,
    Query,
    Lines,
    Characters,
}

/// Parses the reference and the request. The arguments themselves say which part is wanted;
/// without any, the result is read from its beginning.
///
/// # Errors
/// When an argument is missing or wrong, or two parts are asked for.
pub fn parse(arguments: &Value) -> Result<(String, Request), ArgumentError> {
    let reference = required(arguments, "reference")?.to_owned();
    // Some models fill in every text of a schema.
    let is_given = |name: &str| given(arguments, name).is_some_and(|value| value.as_str() != Some(""));
    let mut kinds = KINDS.into_iter().filter(|(name, _)| is_given(name));
    let (name, kind) = kinds.next().unwrap_or(("start", Kind::Characters));
    if let Some((other, _)) = kinds.find(|(_, other)| *other != kind) {
        return Err(ArgumentError::Both(name, other));
    }
    let request = match kind {
        Kind::Search => Request::Search {
            pattern: required(arguments, "pattern")?.to_owned(),
            case_sensitive: flag(arguments, "case_sensitive")?,
            max_results: max_results(arguments)?,
        },
        Kind::Query => Request::Query {
            filter: required(arguments, "query")?.to_owned(),
            compact: flag(arguments, "compact")?,
            raw: flag(arguments, "raw")?,
        },
        Kind::Lines => {
            let (first, last) = range(arguments, "first_line", "last_line")?;
            Request::Lines { first, last }
        }
        Kind::Characters => {
            let (start, end) = range(arguments, "start", "end")?;
            Request::Read { start, end }
        }
    };
    Ok((reference, request))
}

/// The description of a result that was too long to show.
#[derive(Clone, Copy, Debug)]
pub struct OffloadedResult<'a> {
    /// The tool that was called.
    pub tool: &'a str,
    /// The reference for reading the result.
    pub reference: &'a str,
    /// How long the reference is valid, for people.
    pub lifetime: &'a str,
    /// Its length in characters.
    pub chars: usize,
    /// The number of its lines.
    pub lines: usize,
    /// Its length in tokens, estimated.
    pub tokens: usize,
    /// Whether it is JSON.
    pub is_json: bool,
    /// The beginning of the result.
    pub head: &'a str,
    /// The end of the result.
    pub tail: &'a str,
    /// Number of omitted characters between the two.
    pub omitted: usize,
}

/// Returns the text that the model reads in place of a result.
pub fn notice(result: &OffloadedResult<'_>) -> String {
    let OffloadedResult { tool, reference, lifetime, chars, lines, tokens, is_json, head, tail, omitted } = *result;
    let kind = if is_json { "JSON, " } else { "" };
    let what = format!(
        "The result of `{tool}` is too long to show ({kind}{chars} characters, {lines} lines, about {tokens} tokens). \
         `{READ_RESULT}` reads parts of it for {lifetime}; its reference is `{reference}`."
    );
    let shown = head.chars().count();
    let next = (shown + 1).min(chars.max(1));
    let mut calls = vec![
        ("Continue reading", READ_RESULT, json!({"reference": reference, "start": next})),
        ("Find", READ_RESULT, json!({"reference": reference, "pattern": "<regular expression>"})),
    ];
    if is_json {
        calls.push(("Query", READ_RESULT, json!({"reference": reference, "query": "<jq filter>"})));
    }
    notice_with_calls(&what, &preview(head, omitted, tail), &calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_costs_little() {
        let definition = definition();
        assert_eq!(definition.input_schema["required"], json!(["reference"]));
        let cost = crate::estimate_tokens(&definition.to_json().to_string());
        assert!(cost <= 330, "{cost}");
    }

    #[test]
    fn the_arguments_say_what_is_wanted() {
        let check = |more: Value, expected: Result<Request, &str>| {
            let mut arguments = json!({"reference": "r"});
            for (key, value) in more.as_object().into_iter().flatten() {
                arguments[key] = value.clone();
            }
            let found = parse(&arguments).map_err(|error| error.to_string());
            let expected = expected.map(|request| ("r".to_owned(), request)).map_err(str::to_owned);
            assert_eq!(found, expected, "{arguments}");
        };
        let search =
            |pattern: &str| Request::Search { pattern: pattern.to_owned(), case_sensitive: false, max_results: 50 };
        check(json!({}), Ok(Request::Read { start: 1, end: None }));
        check(json!({"start": "5", "end": 9}), Ok(Request::Read { start: 5, end: Some(9) }));
        check(json!({"end": 9}), Ok(Request::Read { start: 1, end: Some(9) }));
        check(json!({"first_line": 3}), Ok(Request::Lines { first: 3, last: None }));
        check(json!({"last_line": 3}), Ok(Request::Lines { first: 1, last: Some(3) }));
        check(json!({"pattern": "a|b", "query": null, "start": null}), Ok(search("a|b")));
        check(json!({"pattern": "a|b", "query": ""}), Ok(search("a|b")));
        check(json!({"query": ".[0]", "raw": true}), {
            Ok(Request::Query { filter: ".[0]".to_owned(), compact: false, raw: true })
        });
        check(json!({"start": 0}), Err("`start` must be 1 or greater"));
        check(
            json!({"first_line": 4, "last_line": 3}),
            Err("`last_line` must be greater than or equal to `first_line`"),
        );
        check(json!({"first_line": 4, "start": 3}), Err("give either `first_line` or `start`, not both"));
        check(json!({"pattern": "a", "query": "."}), Err("give either `pattern` or `query`, not both"));
        check(json!({"pattern": 3}), Err("`pattern` must be a string"));
        assert_eq!(parse(&json!({})).map_err(|error| error.to_string()), Err("`reference` is required".to_owned()));
    }

    #[test]
    fn a_notice_says_how_to_go_on() {
        let result = OffloadedResult {
            tool: "list",
            reference: "result_1",
            lifetime: "30 min",
            chars: 9,
            lines: 1,
            tokens: 5,
            is_json: true,
            head: "[1,",
            tail: "3]",
            omitted: 4,
        };
        let expected = "The result of `list` is too long to show (JSON, 9 characters, 1 lines, about 5 tokens). \
                        `read_result` reads parts of it for 30 min; its reference is `result_1`.\n\n\
                        [1,\n[… 4 characters omitted …]\n3]\n\
                        \nContinue reading: read_result {\"reference\":\"result_1\",\"start\":4}\n\
                        Find: read_result {\"reference\":\"result_1\",\"pattern\":\"<regular expression>\"}\n\
                        Query: read_result {\"reference\":\"result_1\",\"query\":\"<jq filter>\"}";
        assert_eq!(notice(&result), expected);
        let text = notice(&OffloadedResult { is_json: false, ..result });
        assert!(!text.contains("JSON") && !text.contains("jq"), "{text}");
    }
}
