//! Parsers of this crate, for the fuzz targets only.

use std::ops::Range;

use serde_json::{Value, value::RawValue};

use crate::{code, server_results, unescape};

/// Returns the text of a result for the model: as the result of a tool, a prompt and a resource.
pub fn read_result(result: Box<RawValue>) -> [String; 3] {
    let (prompt, resource) = (server_results::read_prompt(&result), server_results::read_resource(&result));
    [server_results::read_tool_result(result).text, prompt.text, resource.text]
}

/// Unescapes a JSON string in its buffer.
pub fn unescape(json: String, place: Range<usize>) -> String {
    unescape::unescape_in_place(json, place)
}

/// Parses the arguments that a program sends.
///
/// # Errors
/// The message of the error.
pub fn arguments(body: &[u8], max_values: usize) -> Result<Value, String> {
    code::parse_arguments(body, max_values)
}
