//! The arguments of the tools that read offloaded outputs: parsed leniently if unambiguous,
//! rejected by name otherwise.

use serde_json::Value;

use super::HostTool;

/// Number of matching lines that a search shows by default.
const DEFAULT_RESULTS: i64 = 50;
/// Maximum number of matching lines that a search shows.
const MAX_RESULTS: i64 = 1000;

/// An error in the arguments, for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// A tool that does not read outputs.
    #[error("`{0}` is not a tool that reads outputs")]
    Tool(&'static str),
    /// A parameter is not given.
    #[error("`{0}` is required")]
    Missing(&'static str),
    /// A parameter is not what it must be.
    #[error("`{name}` must be {expected}")]
    Type {
        /// The parameter.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A range begins before the first character.
    #[error("start must be 1 or greater")]
    Start,
    /// A range ends before it begins.
    #[error("end must be greater than or equal to start")]
    End,
    /// Another range begins before the first line or character.
    #[error("`{0}` must be 1 or greater")]
    First(&'static str),
    /// Another range ends before it begins.
    #[error("`{last}` must be greater than or equal to `{first}`")]
    Last {
        /// The parameter with the beginning.
        first: &'static str,
        /// The parameter with the end.
        last: &'static str,
    },
    /// Two parameters ask for different parts.
    #[error("give either `{0}` or `{1}`, not both")]
    Both(&'static str, &'static str),
}

/// The operation on an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Shows characters.
    Read {
        /// The first, counted from one.
        start: u64,
        /// The last, where one is given.
        end: Option<u64>,
    },
    /// Shows lines.
    Lines {
        /// The first, counted from one.
        first: u64,
        /// The last, where one is given.
        last: Option<u64>,
    },
    /// Shows the lines that match.
    Search {
        /// A regular expression.
        pattern: String,
        /// Whether upper and lower case differ.
        case_sensitive: bool,
        /// Lines at most.
        max_results: usize,
    },
    /// Shows what a filter gives.
    Query {
        /// A jq filter.
        filter: String,
        /// One line for each result.
        compact: bool,
        /// Strings without quotes.
        raw: bool,
    },
}

/// Parses the file and the operation.
///
/// # Errors
/// When an argument is missing or wrong.
pub fn parse(tool: HostTool, arguments: &Value) -> Result<(String, Request), ArgumentError> {
    let operation = match tool {
        HostTool::ReadLargeOutput => "read",
        HostTool::QueryLargeOutput => "query",
        HostTool::SearchLargeOutput => required(arguments, "operation")?,
        other => return Err(ArgumentError::Tool(other.name())),
    };
    let filename = required(arguments, "filename")?.to_owned();
    let request = match operation {
        "read" => read(arguments)?,
        "search" => Request::Search {
            pattern: required(arguments, "pattern")?.to_owned(),
            case_sensitive: flag(arguments, "case_sensitive")?,
            max_results: max_results(arguments)?,
        },
        "query" => Request::Query {
            filter: required(arguments, "query")?.to_owned(),
            compact: flag(arguments, "compact")?,
            raw: flag(arguments, "raw")?,
        },
        _ => return Err(ArgumentError::Type { name: "operation", expected: "`read`, `search` or `query`" }),
    };
    Ok((filename, request))
}

fn read(arguments: &Value) -> Result<Request, ArgumentError> {
    let start = integer(arguments, "start")?.unwrap_or(1);
    let end = integer(arguments, "end")?;
    let start = u64::try_from(start).ok().filter(|start| *start >= 1).ok_or(ArgumentError::Start)?;
    let end =
        end.map(|end| u64::try_from(end).ok().filter(|end| *end >= start).ok_or(ArgumentError::End)).transpose()?;
    Ok(Request::Read { start, end })
}

/// Parses a range of characters or lines.
pub(super) fn range(
    arguments: &Value,
    first: &'static str,
    last: &'static str,
) -> Result<(u64, Option<u64>), ArgumentError> {
    let start = integer(arguments, first)?.unwrap_or(1);
    let start = u64::try_from(start).ok().filter(|start| *start >= 1).ok_or(ArgumentError::First(first))?;
    let Some(end) = integer(arguments, last)? else { return Ok((start, None)) };
    let end = u64::try_from(end).ok().filter(|end| *end >= start).ok_or(ArgumentError::Last { first, last })?;
    Ok((start, Some(end)))
}

pub(super) fn max_results(arguments: &Value) -> Result<usize, ArgumentError> {
    let asked = integer(arguments, "max_results")?.unwrap_or(DEFAULT_RESULTS);
    Ok(usize::try_from(asked.clamp(1, MAX_RESULTS)).unwrap_or(1))
}

/// Returns a parameter if it is present and not `null`.
pub(super) fn given<'a>(arguments: &'a Value, name: &str) -> Option<&'a Value> {
    arguments.get(name).filter(|value| !value.is_null())
}

pub(super) fn required<'a>(arguments: &'a Value, name: &'static str) -> Result<&'a str, ArgumentError> {
    let value = given(arguments, name).ok_or(ArgumentError::Missing(name))?;
    let text = value.as_str().ok_or(ArgumentError::Type { name, expected: "a string" })?;
    if text.is_empty() { Err(ArgumentError::Missing(name)) } else { Ok(text) }
}

pub(super) fn flag(arguments: &Value, name: &'static str) -> Result<bool, ArgumentError> {
    match given(arguments, name) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(_) => Err(ArgumentError::Type { name, expected: "true or false" }),
    }
}

/// Returns an integer, also if it is spelled `5.0` or `"5"`. A number out of range is clamped.
fn integer(arguments: &Value, name: &'static str) -> Result<Option<i64>, ArgumentError> {
    let Some(value) = given(arguments, name) else { return Ok(None) };
    let whole = |number: f64| (number.is_finite() && number.fract() == 0.0).then_some(number as i64);
    let number = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => {
            let text = text.trim();
            text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().and_then(whole))
        }
        _ => None,
    };
    number.map(Some).ok_or(ArgumentError::Type { name, expected: "a whole number" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "tool_x";

    fn check(tool: HostTool, arguments: &Value, expected: Result<Request, &str>) {
        let parsed = parse(tool, arguments).map(|(file, request)| {
            assert_eq!(file, FILE);
            request
        });
        assert_eq!(parsed.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{arguments}");
    }

    #[test]
    fn ranges() {
        let check = |range: Value, expected: Result<(u64, Option<u64>), &str>| {
            let mut arguments = json!({"filename": FILE, "operation": "read"});
            for (key, value) in range.as_object().into_iter().flatten() {
                arguments[key] = value.clone();
            }
            for tool in [HostTool::ReadLargeOutput, HostTool::SearchLargeOutput] {
                check(tool, &arguments, expected.map(|(start, end)| Request::Read { start, end }));
            }
        };
        check(json!({}), Ok((1, None)));
        check(json!({"start": 5, "end": 9}), Ok((5, Some(9))));
        check(json!({"start": 5.0, "end": "9"}), Ok((5, Some(9))));
        check(json!({"start": " 5.0 ", "end": null}), Ok((5, None)));
        check(json!({"start": 7, "end": 7}), Ok((7, Some(7))));
        check(json!({"end": u64::MAX}), Ok((1, Some(i64::MAX as u64))));
        check(json!({"start": 0}), Err("start must be 1 or greater"));
        check(json!({"start": -3, "end": -9}), Err("start must be 1 or greater"));
        check(json!({"start": 5, "end": 4}), Err("end must be greater than or equal to start"));
        check(json!({"end": -1}), Err("end must be greater than or equal to start"));
        check(json!({"start": 1.5}), Err("`start` must be a whole number"));
        check(json!({"start": "one"}), Err("`start` must be a whole number"));
        check(json!({"start": "nan"}), Err("`start` must be a whole number"));
        check(json!({"end": [1]}), Err("`end` must be a whole number"));
        check(json!({"end": true}), Err("`end` must be a whole number"));
    }

    #[test]
    fn searches_and_queries() {
        use HostTool::{QueryLargeOutput as Query, SearchLargeOutput as Search};
        let search =
            |case_sensitive, max_results| Ok(Request::Search { pattern: "a+".to_owned(), case_sensitive, max_results });
        let with = |more: Value| {
            let mut arguments = json!({"filename": FILE, "operation": "search", "pattern": "a+"});
            for (key, value) in more.as_object().into_iter().flatten() {
                arguments[key] = value.clone();
            }
            arguments
        };
        check(Search, &with(json!({})), search(false, 50));
        check(Search, &with(json!({"case_sensitive": "True", "max_results": "7"})), search(true, 7));
        check(Search, &with(json!({"max_results": 0})), search(false, 1));
        check(Search, &with(json!({"max_results": 1e9})), search(false, 1000));
        check(Search, &with(json!({"case_sensitive": 1})), Err("`case_sensitive` must be true or false"));
        check(Search, &with(json!({"pattern": 3})), Err("`pattern` must be a string"));
        check(Search, &with(json!({"pattern": ""})), Err("`pattern` is required"));
        check(Search, &with(json!({"operation": "grep"})), Err("`operation` must be `read`, `search` or `query`"));
        check(Search, &with(json!({"operation": "query"})), Err("`query` is required"));
        check(Search, &json!({"filename": FILE}), Err("`operation` is required"));
        check(Search, &json!(null), Err("`operation` is required"));
        check(Query, &json!({"query": "."}), Err("`filename` is required"));
        check(Query, &json!({"filename": ["a"], "query": "."}), Err("`filename` must be a string"));
        let query = Request::Query { filter: ".".to_owned(), compact: true, raw: false };
        check(Query, &json!({"filename": FILE, "query": ".", "compact": true, "operation": "read"}), Ok(query));
        check(HostTool::AskHuman, &json!({}), Err("`ask_human` is not a tool that reads outputs"));
    }
}
