//! Parsers of this crate, for the fuzz targets alone.

use std::ops::Range;

use serde_json::{Value, value::RawValue};

use crate::{code, server_results, unescape};

/// What a model reads of a result: as one of a tool, a prompt and a resource.
pub fn read_result(result: Box<RawValue>) -> [String; 3] {
    let (prompt, resource) = (server_results::prompt(&result), server_results::resource(&result));
    [server_results::tool(result).text, prompt.text, resource.text]
}

/// The text that a JSON string stands for.
pub fn unescape(json: String, place: Range<usize>) -> String {
    unescape::in_place(json, place)
}

/// The arguments that a program sends.
///
/// # Errors
/// Why they are none, in words.
pub fn arguments(body: &[u8], max_values: usize) -> Result<Value, String> {
    code::parse_arguments(body, max_values)
}
