//! Texts for prompts.

use std::collections::BTreeMap;

use pegboard_core::{Catalog, Selection, Tool};

/// Words of a generated category.
const MAX_CATEGORY_WORDS: usize = 8;

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
        let words: Vec<&str> = description.split_whitespace().take(MAX_CATEGORY_WORDS).collect();
        let about = if words.is_empty() { verbs(tools, 4).join(", ") } else { words.join(" ") };
        let about = about.trim_end_matches(['.', ',', ';', ':']);
        if about.is_empty() { server.to_owned() } else { format!("{server} ({about})") }
    };
    by_server(catalog, selection)
        .into_iter()
        .map(|(server, description, tools)| category(&server, &description, &tools))
        .collect()
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

/// The first words of the tools' names that occur most, most frequent first.
pub(crate) fn verbs(tools: &[&Tool], most: usize) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools {
        let bare = tool.name().rsplit("__").next().unwrap_or(tool.name());
        let verb: String = bare
            .chars()
            .enumerate()
            .take_while(|(at, c)| c.is_alphanumeric() && (*at == 0 || !c.is_uppercase()))
            .map(|(_, c)| c)
            .collect();
        if verb.chars().count() > 1 {
            *counts.entry(verb.to_lowercase()).or_default() += 1;
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.into_iter().take(most).map(|(verb, _)| verb).collect()
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
