//! Texts for prompts.

use pegboard_core::{Catalog, Selection};

use crate::about::Servers;

/// Words that do not end a phrase.
const OPEN_WORDS: [&str; 20] = [
    "a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "its", "of", "on", "or", "plus", "the", "through",
    "to", "under", "with",
];

/// Returns a section of a system prompt: how to find tools, and the categories.
pub(crate) fn section(how: &str, categories: &[String]) -> String {
    let mut text = format!("## Finding tools\n\n{how}");
    if !categories.is_empty() {
        text.push_str("\n\nThere are tools for:\n");
        text.push_str(&categories.iter().map(|category| format!("- {category}")).collect::<Vec<_>>().join("\n"));
    }
    text
}

/// Returns `text` without line breaks and runs of spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns one line for each server: its name and category, in catalog order.
pub(crate) fn categories(catalog: &Catalog, selection: &Selection) -> Vec<String> {
    let servers = Servers::new(catalog, selection);
    servers.all.iter().map(|server| servers.category(server)).collect()
}

/// Returns the first sentence of a text, without its final punctuation.
pub(crate) fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let line = text.split_once("\n\n").map_or(text, |(paragraph, _)| paragraph);
    let ends = [". ", ".\n", "。"].iter().filter_map(|end| line.find(end));
    line[..ends.min().unwrap_or(line.len())].trim_end_matches('.')
}

/// Returns the beginning of a sentence in at most `most` words, up to a word that begins another
/// phrase; empty if fewer than three words were left.
pub(crate) fn complete_phrase(sentence: &str, most: usize) -> String {
    const LEAST: usize = 3;
    let words: Vec<&str> = sentence.split_whitespace().collect();
    if words.len() <= most {
        return words.join(" ").trim_end_matches([',', ';', ':']).to_owned();
    }
    let is_open = |word: &str| OPEN_WORDS.contains(&word.to_lowercase().as_str());
    // What an article begins belongs to the verb in front of it.
    let is_joint = |word: &str| is_open(word) && !["a", "an", "its", "the"].contains(&word);
    let is_end =
        |end: &usize| !is_open(words[end - 1]) && (is_joint(words[*end]) || words[end - 1].ends_with([',', ';', ':']));
    let end = (LEAST..=most).rev().find(is_end).unwrap_or_default();
    words[..end].join(" ").trim_end_matches([',', ';', ':']).to_owned()
}

/// Returns `template` with each key replaced by its value, in one pass: values are not expanded
/// again.
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
