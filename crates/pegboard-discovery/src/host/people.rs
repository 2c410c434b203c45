//! What servers keep beside their tools, and the person at the other end.

use serde_json::{Value, json};

pub(super) fn prompt() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "The server that has the prompt"},
            "name": {"type": "string", "description": "The prompt's name there"},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "What the prompt asks to be filled in"
            }
        },
        "required": ["server", "name"]
    });
    ("Fetch one of the prompts that a server keeps: instructions for a task, written by whoever runs it.", schema)
}

pub(super) fn resource() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "The server that has the resource"},
            "uri": {"type": "string", "description": "The resource's URI there"}
        },
        "required": ["server", "uri"]
    });
    ("Read one of the resources that a server keeps: a file, a record, a page.", schema)
}

pub(super) fn ask() -> (&'static str, Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What you need to know, in full"},
            "options": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from"}
        },
        "required": ["question"]
    });
    ("Ask the person you work for, and wait for the answer. For decisions that are theirs, not for chat.", schema)
}

/// Entries of one kind that the prompt lists; what is left out is counted.
const MAX_LISTED: usize = 50;

/// Characters of a name or URI in the prompt; a longer one is left out.
const MAX_NAME: usize = 200;

/// Characters of one description in the prompt.
const MAX_DESCRIPTION: usize = 160;

/// Something that a server keeps beside its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whose it is.
    pub server: String,
    /// Its name or URI there.
    pub key: String,
    /// What it is.
    pub description: String,
}

/// What the system prompt says of prompts and resources; nothing where there are none.
pub fn kept_section(prompts: &[Kept], resources: &[Kept]) -> String {
    let list = |title: &str, how: &str, kept: &[Kept]| {
        let mut text = format!("## {title}\n\n{how}");
        // A name is data: one that would not fit on a line is none.
        let is_named = |entry: &&Kept| entry.key.chars().count() <= MAX_NAME && !entry.key.contains(char::is_control);
        for entry in kept.iter().filter(is_named).take(MAX_LISTED) {
            let description: String =
                crate::prompt::one_line(&entry.description).chars().take(MAX_DESCRIPTION).collect();
            let about = if description.is_empty() { String::new() } else { format!(": {description}") };
            text.push_str(&format!("\n- {} (server {}){about}", entry.key, entry.server));
        }
        if kept.len() > MAX_LISTED {
            text.push_str(&format!("\n- and {} more", kept.len() - MAX_LISTED));
        }
        text
    };
    let mut sections = Vec::new();
    if !prompts.is_empty() {
        sections.push(list("Prompts", "Servers keep these prompts; `get_prompt` fetches one.", prompts));
    }
    if !resources.is_empty() {
        sections.push(list("Resources", "Servers keep these resources; `get_resource` reads one.", resources));
    }
    sections.join("\n\n")
}
