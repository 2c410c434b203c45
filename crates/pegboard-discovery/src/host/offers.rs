//! Prompts and resources of servers, and questions to the user.

use pegboard_core::text;
use serde_json::{Value, json};

use super::HostTool;

pub(super) fn prompt() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "Server that has the prompt"},
            "name": {"type": "string", "description": "Name of the prompt on the server"},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Arguments of the prompt"
            }
        },
        "required": ["server", "name"]
    });
    ("Fetch a prompt of a server: instructions for a task, written by the server's author.", schema)
}

pub(super) fn resource() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "Server that has the resource"},
            "uri": {"type": "string", "description": "URI of the resource on the server"}
        },
        "required": ["server", "uri"]
    });
    ("Read a resource of a server: a file, a record, a page.", schema)
}

pub(super) fn ask() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "The complete question"},
            "options": {"type": "array", "items": {"type": "string"}, "description": "Suggested answers"}
        },
        "required": ["question"]
    });
    (
        "Ask the user a question and wait for the answer. Use it for decisions that the user must make, not for chat.",
        schema,
    )
}

/// Maximum number of entries of one kind that the prompt lists; more are only counted by server.
const MAX_LISTED: usize = 8;

/// Maximum number of characters of a name or URI in the prompt; a longer one is left out.
const MAX_NAME: usize = 200;

/// Maximum number of characters of a description in the prompt.
const MAX_DESCRIPTION: usize = 160;

/// A prompt or resource of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOffer {
    /// The name of the server.
    pub server: String,
    /// The name or URI at the server.
    pub key: String,
    /// The description.
    pub description: String,
}

/// Returns the section of the system prompt about prompts and resources; empty if there are none.
pub fn offers_section(prompts: &[ServerOffer], resources: &[ServerOffer]) -> String {
    let list = |title: &str, how: &str, kept: &[ServerOffer]| {
        let mut text = format!("## {title}\n\n{how}");
        // A name is data: one that does not fit on a line is left out.
        let is_named =
            |entry: &&ServerOffer| entry.key.chars().count() <= MAX_NAME && !entry.key.contains(char::is_control);
        for entry in kept.iter().filter(is_named) {
            let description = crate::prompt::one_line(&entry.description);
            let description = text::excerpt(&description, MAX_DESCRIPTION);
            let about = if description.is_empty() { String::new() } else { format!(": {description}") };
            text.push_str(&format!("\n- {} (server {}){about}", entry.key, entry.server));
        }
        text
    };
    let section = |title: &str, tool: HostTool, kept: &[ServerOffer]| {
        let tool = tool.name();
        let what = title.to_lowercase();
        if kept.len() <= MAX_LISTED {
            return list(title, &format!("The servers have these {what}; fetch one at a time with `{tool}`."), kept);
        }
        let servers = counts(kept).into_iter().map(|(server, count)| format!("{server} {count}"));
        let servers = servers.collect::<Vec<_>>().join(", ");
        format!("## {title}\n\nThe servers have {what}: {servers}. Fetch one at a time with `{tool}`.")
    };
    let mut sections = Vec::new();
    if !prompts.is_empty() {
        sections.push(section("Prompts", HostTool::GetPrompt, prompts));
    }
    if !resources.is_empty() {
        sections.push(section("Resources", HostTool::GetResource, resources));
    }
    sections.join("\n\n")
}

/// Counts the entries of each server, in the order of the servers.
fn counts(kept: &[ServerOffer]) -> Vec<(&str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for entry in kept {
        match counts.iter_mut().find(|(server, _)| *server == entry.server) {
            Some((_, count)) => *count += 1,
            None => counts.push((&entry.server, 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_name_the_tool_that_fetches() {
        let kept =
            ServerOffer { server: "docs".to_owned(), key: "greet".to_owned(), description: "Greets.".to_owned() };
        let text = offers_section(std::slice::from_ref(&kept), &vec![kept.clone(); MAX_LISTED + 1]);
        assert!(text.contains("fetch one at a time with `get_prompt`.\n- greet (server docs): Greets."), "{text}");
        assert!(text.ends_with("Fetch one at a time with `get_resource`."), "{text}");
    }
}
