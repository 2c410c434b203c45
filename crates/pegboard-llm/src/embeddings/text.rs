//! The text of a tool that is embedded.

use pegboard_core::{
    Tool,
    schema::{self, SchemaText},
};
use serde_json::Value;

/// Maximum length of a description. Small models read about 250 tokens, and the beginning matters
/// most.
const DESCRIPTION: usize = 800;

/// Maximum number of parameters.
const PARAMETERS: usize = 24;

/// Maximum length of the text in bytes.
const ALL: usize = 1_500;

/// Returns the text of a tool: its server, its name in words, its description, and its parameters.
pub fn tool_text(tool: &Tool) -> String {
    let mut text = String::new();
    if let Some(server) = tool.server_name() {
        push_words(&mut text, server);
    }
    // What models call it may carry the server's name again.
    push_words(&mut text, tool.bare_name());
    text.push(':');
    for part in [tool.title(), Some(tool.description()), tool.search_hint()].into_iter().flatten() {
        let part = part.trim();
        if !part.is_empty() {
            text.push(' ');
            text.push_str(&part[..part.floor_char_boundary(DESCRIPTION)]);
        }
    }
    let parameters = parameters(tool);
    if !parameters.is_empty() {
        text.push_str(&format!(" ({})", parameters.join(", ")));
    }
    text.truncate(text.floor_char_boundary(ALL));
    text
}

/// Returns the names of its parameters, in words.
fn parameters(tool: &Tool) -> Vec<String> {
    let Some(schema) = tool.input_schema() else { return Vec::new() };
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Vec::new() };
    let mut names = Vec::new();
    schema::visit(&schema, &mut |found| {
        if let SchemaText::ParameterName(name) = found
            && names.len() < PARAMETERS
        {
            let mut words = String::new();
            push_words(&mut words, name);
            names.push(words);
        }
    });
    names
}

/// Appends the words of an identifier to a text, in lower case: `createPullRequest` and
/// `create_pull_request` become `create pull request`.
fn push_words(text: &mut String, name: &str) {
    let mut before = None;
    let mut is_new = !text.is_empty();
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_alphanumeric() {
            is_new = !text.is_empty();
            before = None;
            continue;
        }
        let is_upper = |letter: Option<char>| letter.is_some_and(char::is_uppercase);
        let is_lower = |letter: Option<char>| letter.is_some_and(char::is_lowercase);
        let is_hump =
            letter.is_uppercase() && before.is_some() && (!is_upper(before) || is_lower(letters.peek().copied()));
        if is_new || is_hump {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
        (before, is_new) = (Some(letter), false);
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::{Catalog, LoadLimits, load};

    use super::*;

    #[track_caller]
    fn check(tool: &str, expected: &str) {
        let tools = load::parse("t.jsonl", tool.as_bytes(), &LoadLimits::default()).expect("a tool").tools;
        let (catalog, _) = Catalog::from_tools(tools);
        assert_eq!(tool_text(catalog.iter().next().expect("a tool")), expected);
    }

    #[test]
    fn tools_in_a_sentence() {
        check(r#"{"name": "createPullRequest"}"#, "create pull request:");
        check(
            r#"{"name": "HTTPGet_v2", "server": "my-api", "description": " Fetches a page. ", "title": "Fetch"}"#,
            "my api http get v2: Fetch Fetches a page.",
        );
        check(
            r#"{"name": "search", "inputSchema": {"type": "object", "properties": {"maxResults": {"type": "integer"}, "q": {"description": "x"}}}}"#,
            "search: (max results, q)",
        );
        check(r#"{"name": "поискФайлов", "description": "ищет"}"#, "поиск файлов: ищет");
    }

    #[test]
    fn long_texts_are_cut() {
        let tool = format!(r#"{{"name": "a", "description": "{}"}}"#, "é".repeat(3000));
        let tools = load::parse("t.jsonl", tool.as_bytes(), &LoadLimits::default()).expect("a tool").tools;
        let (catalog, _) = Catalog::from_tools(tools);
        assert_eq!(tool_text(catalog.iter().next().expect("a tool")).len(), 3 + DESCRIPTION);
    }
}
