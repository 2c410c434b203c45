//! Texts for prompts.

use std::collections::BTreeMap;

use pegboard_core::{Catalog, Selection, Tool};

/// Words of a generated category.
const MAX_CATEGORY_WORDS: usize = 8;

/// Words that a phrase does not end with.
const OPEN_WORDS: [&str; 18] = [
    "a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "of", "on", "or", "plus", "the", "to", "under",
    "with",
];

/// A section of a system prompt: how to find tools, and what there is.
pub(crate) fn section(how: &str, categories: &[String]) -> String {
    let mut text = format!("## Finding tools\n\n{how}");
    if !categories.is_empty() {
        text.push_str("\n\nThere are tools for:\n");
        text.push_str(&categories.iter().map(|category| format!("- {category}")).collect::<Vec<_>>().join("\n"));
    }
    text
}

/// `text` without line breaks and runs of spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One line for each server: its name and what it is about, in catalog order.
pub(crate) fn categories(catalog: &Catalog, selection: &Selection) -> Vec<String> {
    let category = |server: &str, description: &str, tools: &[&Tool]| {
        let about = purpose(description);
        let about = if about.is_empty() { verbs(server, tools, 4).join(", ") } else { about };
        if about.is_empty() { server.to_owned() } else { format!("{server} ({about})") }
    };
    by_server(catalog, selection)
        .into_iter()
        .map(|(server, description, tools)| category(&server, &description, &tools))
        .collect()
}

/// What a server is for, in a few words: the beginning of its first sentence, up to the end of a phrase. Headings,
/// and talk about the text itself, say nothing of it.
fn purpose(description: &str) -> String {
    let is_prose = |line: &&str| {
        let is_marked = line.starts_with(['#', '-', '*', '|', '`', '<', '=']);
        !line.is_empty() && !is_marked && !line.to_lowercase().contains("instruction")
    };
    let line = description.lines().map(str::trim).find(is_prose).unwrap_or_default();
    let sentence = line.split_once(". ").map_or(line, |(sentence, _)| sentence);
    let all: Vec<&str> = sentence.split_whitespace().collect();
    let mut words = &all[..all.len().min(MAX_CATEGORY_WORDS)];
    if words.len() < all.len() {
        let is_end = |word: &&str| word.ends_with([',', ';', ':']);
        // A phrase of one word says less than a sentence that breaks off.
        match words.iter().rposition(is_end) {
            Some(end) if end > 0 => words = &words[..=end],
            _ => {}
        }
    }
    while let [before @ .., last] = words
        && OPEN_WORDS.contains(&last.to_lowercase().as_str())
    {
        words = before;
    }
    words.join(" ").trim_end_matches(['.', ',', ';', ':']).to_owned()
}

/// The visible tools of each server that has any: name, description, tools.
pub(crate) fn by_server<'a>(catalog: &'a Catalog, selection: &Selection) -> Vec<(String, String, Vec<&'a Tool>)> {
    let mut servers: Vec<(String, String, Vec<&Tool>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
        let Some(server) = tool.server() else { continue };
        let place = *places.entry(server.name.as_str()).or_insert_with(|| {
            servers.push((server.name.clone(), server.description.clone(), Vec::new()));
            servers.len() - 1
        });
        servers[place].2.push(tool);
    }
    servers
}

/// The first words of the tools' names that occur most, most frequent first. The server's own name in front of
/// them tells nothing.
pub(crate) fn verbs(server: &str, tools: &[&Tool], most: usize) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools {
        let bare = tool.name().rsplit("__").next().unwrap_or(tool.name());
        let mut words = name_words(bare).filter(|word| word.len() > 1 && *word != server.to_lowercase());
        if let Some(verb) = words.next() {
            *counts.entry(verb).or_default() += 1;
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.into_iter().take(most).map(|(verb, _)| verb).collect()
}

/// The words of a name in lower case: `list_files`, `listFiles` and `list-files` have the same.
fn name_words(name: &str) -> impl Iterator<Item = String> {
    name.split(|c: char| !c.is_alphanumeric()).flat_map(|part| {
        let mut words: Vec<String> = Vec::new();
        let mut was_lower = false;
        for c in part.chars() {
            if words.is_empty() || c.is_uppercase() && was_lower {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
            was_lower = c.is_lowercase();
        }
        words
    })
}

/// `template` with each key replaced by its value, in one pass: what a value contains is
/// not looked at again.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((at, key, value)) =
        values.iter().filter_map(|(key, value)| Some((rest.find(key)?, *key, *value))).min_by_key(|(at, _, _)| *at)
    {
        text.push_str(&rest[..at]);
        text.push_str(value);
        rest = &rest[at + key.len()..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use pegboard_core::RawTool;

    use super::*;

    #[test]
    fn purposes_end_with_a_phrase() {
        let check = |description: &str, expected: &str| assert_eq!(purpose(description), expected, "{description}");
        check("", "");
        check("Notes.", "Notes");
        check(
            "Team chat in a Slack workspace: channels, direct messages, files",
            "Team chat in a Slack workspace: channels",
        );
        check("A web browser under remote control, plus web search and pages", "A web browser under remote control");
        check("One two three four five six seven of the nine ten", "One two three four five six seven");
        check("Reads mail. Sends mail too.", "Reads mail");
        check("# Everything Server – Server Instructions\n\nAudience: These instructions are for you.\n", "");
        check("# Title\n\nKeeps notes\nfor you", "Keeps notes");
    }

    #[test]
    fn verbs_are_not_the_name_of_the_server() {
        let check = |server: &str, names: &[&str], expected: &[&str]| {
            let raw = names.iter().map(|name| RawTool { name: (*name).to_owned(), ..RawTool::default() });
            let (catalog, _) = Catalog::from_tools(raw.collect());
            let tools: Vec<&Tool> = catalog.iter().map(|tool| &**tool).collect();
            assert_eq!(verbs(server, &tools, 3), expected, "{names:?}");
        };
        check("git", &["git_log", "git_diff", "git_diff_staged"], &["diff", "log"]);
        check("fetch", &["fetch"], &[]);
        check("notion", &["API-post-page", "API-get-user"], &["api"]);
        check("x", &["ListInvoices", "listCustomers", "s__create"], &["list", "create"]);
    }
}
