//! Offloaded outputs: the text in their place, and the tools that read them.

use serde_json::{Map, Value, json};

use super::HostTool;

pub(super) fn search() -> (&'static str, Value) {
    let mut properties = Map::new();
    properties.insert("filename".to_owned(), filename());
    properties.insert(
        "operation".to_owned(),
        json!({"type": "string", "enum": ["read", "search", "query"], "description": "Operation on the output"}),
    );
    properties.extend(range("read: "));
    properties.insert(
        "pattern".to_owned(),
        json!({"type": "string", "description": "search: a regular expression, matched line by line"}),
    );
    properties.insert("case_sensitive".to_owned(), json!({"type": "boolean", "default": false}));
    properties.insert("max_results".to_owned(), json!({"type": "integer", "default": 50}));
    properties.extend(filter("query: "));
    let schema = object(properties, &["filename", "operation"]);
    (
        "Read a range of an output that was too long to show, search it by regular expression, or query it with jq.",
        schema,
    )
}

pub(super) fn read() -> (&'static str, Value) {
    let mut properties = Map::new();
    properties.insert("filename".to_owned(), filename());
    properties.extend(range(""));
    ("Read a range of characters of an output that was too long to show.", object(properties, &["filename"]))
}

pub(super) fn query() -> (&'static str, Value) {
    let mut properties = Map::new();
    properties.insert("filename".to_owned(), filename());
    properties.extend(filter(""));
    ("Query a JSON output that was too long to show with a jq filter.", object(properties, &["filename", "query"]))
}

fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({"type": "object", "properties": Value::Object(properties), "required": required})
}

fn filename() -> Value {
    json!({"type": "string", "description": "File name from the message that replaced the output"})
}

fn range(of: &str) -> [(String, Value); 2] {
    let entry = |name: &str, description: &str| {
        (name.to_owned(), json!({"type": "integer", "minimum": 1, "description": format!("{of}{description}")}))
    };
    [entry("start", "first character, from 1"), entry("end", "last character, inclusive")]
}

fn filter(of: &str) -> [(String, Value); 3] {
    [
        ("query".to_owned(), json!({"type": "string", "description": format!("{of}a jq filter")})),
        ("compact".to_owned(), json!({"type": "boolean", "default": false, "description": "One line for each result"})),
        ("raw".to_owned(), json!({"type": "boolean", "default": false, "description": "Strings without quotes"})),
    ]
}

/// The description of an offloaded output.
#[derive(Clone, Copy, Debug)]
pub struct OffloadedOutput<'a> {
    /// The tool that produced the output.
    pub tool: &'a str,
    /// The name for reading the output.
    pub filename: &'a str,
    /// The path of the file.
    pub path: &'a str,
    /// Its length in characters.
    pub chars: usize,
    /// Its length in tokens, estimated.
    pub tokens: usize,
    /// Whether it is JSON.
    pub is_json: bool,
    /// Whether it can be queried.
    pub can_query: bool,
    /// The beginning of the output.
    pub head: &'a str,
    /// The end of the output.
    pub tail: &'a str,
    /// Number of omitted characters between the two.
    pub omitted: usize,
}

/// Returns the beginning and the end of a long text, with a mark for what is omitted between them.
pub(super) fn preview(head: &str, omitted: usize, tail: &str) -> String {
    match omitted {
        0 => format!("{head}{tail}"),
        _ => format!("{head}\n[… {omitted} characters omitted …]\n{tail}"),
    }
}

/// Returns the notice in place of a long text: what it is, its `preview`, and the calls that read more of it, each with
/// a label, the tool and its arguments.
pub(super) fn notice_with_calls(what: &str, preview: &str, calls: &[(&str, &str, Value)]) -> String {
    let mut text = format!("{what}\n\n{preview}\n");
    for (label, tool, arguments) in calls {
        text.push_str(&format!("\n{label}: {tool} {arguments}"));
    }
    text
}

/// Returns the text that the model reads in place of an offloaded output.
///
/// ```
/// use pegboard_discovery::host::outputs::{OffloadedOutput, offload_notice};
///
/// let output = OffloadedOutput {
///     tool: "list_issues", filename: "tool_20260102_030405_1_list_issues.txt", path: "/outputs/s/tool_….txt",
///     chars: 9, tokens: 3, is_json: false, can_query: false,
///     head: "abc", tail: "xyz", omitted: 3,
/// };
/// assert!(offload_notice(&output).contains("abc\n[… 3 characters omitted …]\nxyz"));
/// ```
pub fn offload_notice(output: &OffloadedOutput<'_>) -> String {
    let OffloadedOutput { tool, filename, path, chars, tokens, is_json, can_query, head, tail, omitted } = *output;
    let kind = if is_json { "JSON, " } else { "" };
    let shown = head.chars().count();
    let what = format!(
        "The output of `{tool}` is too long to show ({kind}{chars} characters, about {tokens} tokens). \
         The full output is in the file `{filename}` ({path})."
    );
    let next = (shown + 1).min(chars.max(1));
    let range = json!({"filename": filename, "start": next, "end": (shown * 2).clamp(next, chars.max(next))});
    let pattern = json!({"filename": filename, "operation": "search", "pattern": "<regular expression>"});
    let mut calls = vec![
        ("Continue reading", HostTool::ReadLargeOutput.name(), range),
        ("Find", HostTool::SearchLargeOutput.name(), pattern),
    ];
    if can_query {
        let query = json!({"filename": filename, "query": "<jq filter>"});
        calls.push(("Query", HostTool::QueryLargeOutput.name(), query));
    }
    notice_with_calls(&what, &preview(head, omitted, tail), &calls)
}

/// Returns the note after a range that was too long to be read at once.
pub fn read_cut(last: usize) -> String {
    format!("\n\n[Truncated after character {last}. Continue with start={}.]", last + 1)
}

/// Returns the note after lines that were too long to be read at once.
pub fn lines_cut(last: u64) -> String {
    format!("\n\n[Truncated after line {last}. Continue with first_line={}.]", last.saturating_add(1))
}

/// Returns the note after a part of a line that was too long to be read at once.
pub fn line_cut(line: u64, next: usize) -> String {
    format!("\n\n[Truncated within line {line}. Continue with start={next}.]")
}

/// The text of a search without matches.
pub const NO_MATCHES: &str = "No matches found for the given pattern.";

/// Returns the note after a search that reached the maximum number of results.
pub fn search_full(results: usize) -> String {
    format!("\n[Stopped after {results} results; there are more. Narrow the pattern, or raise max_results.]")
}

/// Returns the note after a search whose results do not fit.
pub fn search_cut() -> String {
    "\n[Truncated. Narrow the pattern, or lower max_results.]".to_owned()
}

/// Returns the note after a search that timed out.
pub fn search_late(seconds: u64, searched: usize) -> String {
    format!("\n[Stopped after {seconds} s, at character {searched}. Use a simpler pattern.]")
}

/// Returns the note after the results of a query that do not fit.
pub fn query_cut() -> String {
    "\n[Truncated. Narrow the filter, for example with a slice such as `.[0:20]`.]".to_owned()
}

/// Returns the note after the results of a query that failed later.
pub fn query_failed(reason: &str) -> String {
    format!("\n[Stopped here: {reason}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_name_what_they_take_and_cost_little() {
        let check = |tool: HostTool, properties: &[&str], required: &[&str], tokens: usize| {
            let definition = tool.definition();
            let schema = &definition.input_schema;
            let names: Vec<&String> = schema["properties"].as_object().expect("properties").keys().collect();
            assert_eq!(names, properties);
            assert_eq!(schema["required"], json!(required));
            let cost = crate::estimate_tokens(&definition.to_json().to_string());
            assert!(cost <= tokens, "{} costs {cost}", definition.name);
        };
        let all = "filename operation start end pattern case_sensitive max_results query compact raw";
        let all: Vec<&str> = all.split(' ').collect();
        check(HostTool::SearchLargeOutput, &all, &["filename", "operation"], 340);
        check(HostTool::ReadLargeOutput, &["filename", "start", "end"], &["filename"], 140);
        check(HostTool::QueryLargeOutput, &["filename", "query", "compact", "raw"], &["filename", "query"], 170);
    }

    #[test]
    fn a_notice_shows_what_it_has() {
        let aside = OffloadedOutput {
            tool: "list",
            filename: "f.json",
            path: "/o/f.json",
            chars: 5,
            tokens: 2,
            is_json: true,
            can_query: true,
            head: "[1,2]",
            tail: "",
            omitted: 0,
        };
        let expected = "The output of `list` is too long to show (JSON, 5 characters, about 2 tokens). \
                        The full output is in the file `f.json` (/o/f.json).\n\n[1,2]\n\n\
                        Continue reading: read_large_output {\"filename\":\"f.json\",\"start\":5,\"end\":5}\n\
                        Find: search_large_output {\"filename\":\"f.json\",\"operation\":\"search\",\
                        \"pattern\":\"<regular expression>\"}\n\
                        Query: query_large_output {\"filename\":\"f.json\",\"query\":\"<jq filter>\"}";
        assert_eq!(offload_notice(&aside), expected);
        let nothing = OffloadedOutput { chars: 0, head: "", ..aside };
        assert!(offload_notice(&nothing).contains("\"start\":1,\"end\":1"));
    }
}
