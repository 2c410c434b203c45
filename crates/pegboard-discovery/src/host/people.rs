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

/// Entries of one kind that the prompt lists; more are only counted, by server.
const MAX_LISTED: usize = 8;

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
        for entry in kept.iter().filter(is_named) {
            let description: String =
                crate::prompt::one_line(&entry.description).chars().take(MAX_DESCRIPTION).collect();
            let about = if description.is_empty() { String::new() } else { format!(": {description}") };
            text.push_str(&format!("\n- {} (server {}){about}", entry.key, entry.server));
        }
        text
    };
    let section = |title: &str, kept: &[Kept]| {
        let what = title.to_lowercase();
        if kept.len() <= MAX_LISTED {
            return list(title, &format!("Servers have these {what}; a tool fetches them one by one."), kept);
        }
        let servers = counts(kept).into_iter().map(|(server, count)| format!("{server} {count}"));
        let servers = servers.collect::<Vec<_>>().join(", ");
        format!("## {title}\n\nServers have {what}: {servers}. A tool fetches them one by one.")
    };
    let mut sections = Vec::new();
    if !prompts.is_empty() {
        sections.push(section("Prompts", prompts));
    }
    if !resources.is_empty() {
        sections.push(section("Resources", resources));
    }
    sections.join("\n\n")
}

/// How many entries each server has, in the order of the servers.
fn counts(kept: &[Kept]) -> Vec<(&str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for entry in kept {
        match counts.iter_mut().find(|(server, _)| *server == entry.server) {
            Some((_, count)) => *count += 1,
            None => counts.push((&entry.server, 1)),
        }
    }
    counts
}
