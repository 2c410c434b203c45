//! Names of tools and of their server.

use super::{Operation, document};
use crate::{
    naming::{ShownNames, Style},
    text,
};

/// Characters of a tool's name that every model provider accepts.
pub(super) const MAX_NAME_BYTES: usize = 64;

/// Characters of a server's name, which prefixes the names of its tools and is typed by people.
const MAX_SERVER_BYTES: usize = 32;

/// Words of a title that say no more than that it is an API.
const GENERIC: [&str; 14] = [
    "api",
    "apis",
    "http",
    "https",
    "rest",
    "restful",
    "openapi",
    "swagger",
    "spec",
    "specification",
    "public",
    "the",
    "documentation",
    "reference",
];

/// A name for each operation: its `operationId`, else its method and path. Names are unique;
/// the later of two equal ones ends in digits made of its method and path.
pub(super) fn tool_names(operations: &[Operation<'_>], most: usize) -> ShownNames {
    let style = Style { is_prefixed: false, limit: MAX_NAME_BYTES.min(most), ..Style::default() };
    let items: Vec<(String, String)> = operations
        .iter()
        .map(|operation| (format!("{} {}", operation.method, operation.path), wanted(operation)))
        .collect();
    ShownNames::new(&style, items.iter().map(|(place, name)| (place.as_str(), name.as_str())))
}

fn wanted(operation: &Operation<'_>) -> String {
    let id = document::text_of(&operation.fields(), "operationId").map(|id| tidy(&id));
    id.filter(|id| !id.is_empty()).unwrap_or_else(|| of_path(operation.method, &operation.path))
}

/// `get_v2_droplets_by_id` for `GET /v2/droplets/{id}`.
fn of_path(method: &str, path: &str) -> String {
    let mut name = method.to_owned();
    for part in path.split('/') {
        let part = part.replace('{', " by ");
        let word = tidy(part.trim());
        if !word.is_empty() {
            name.push('_');
            name.push_str(&word);
        }
    }
    name
}

/// `id` with every run of other characters as one `_`. Letters of other alphabets stay here, so
/// that names that differ in them alone are distinguished later.
fn tidy(id: &str) -> String {
    let is_safe = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(is_safe) {
        return id.to_owned();
    }
    let parts: Vec<&str> = id.split(|c| !is_safe(c)).filter(|part| !part.is_empty()).collect();
    parts.join("_").trim_matches('_').to_owned()
}

/// A short name in lower case, made of the API's title, else of the file's name.
pub(super) fn server_name(title: &str, source: &str, most: usize) -> String {
    let file = source.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let words = [words_of(title), words_of(stem)].into_iter().find(|words| !words.is_empty());
    let name = words.unwrap_or_else(|| vec!["api".to_owned()]).join("-");
    let end = name.floor_char_boundary(MAX_SERVER_BYTES.min(most));
    // Half a word looks like a mistake, unless it is the only one.
    let cut =
        if end < name.len() && !name[end..].starts_with('-') { name[..end].rfind('-').unwrap_or(end) } else { end };
    name[..cut].to_owned()
}

/// The words of a title in lower case, without notes in parentheses, versions and generic words.
fn words_of(title: &str) -> Vec<String> {
    let title = text::line(title).to_lowercase();
    let main = title.split(['(', '[']).next().unwrap_or_default();
    let is_version = |word: &str| {
        let digits = word.strip_prefix('v').unwrap_or(word);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    };
    main.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !GENERIC.contains(word) && !is_version(word))
        .map(str::to_owned)
        .collect()
}
