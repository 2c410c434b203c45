//! Texts for prompts.

use pegboard_core::{Catalog, Selection};

use crate::about::Servers;

/// Words that do not end a phrase.
const OPEN_WORDS: [&str; 20] = [
    "a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "its", "of", "on", "or", "plus", "the", "through",
    "to", "under", "with",
];

/// Open words that also end a sentence, as in "log in".
const PARTICLES: [&str; 5] = ["by", "in", "on", "through", "under"];

/// Abbreviations whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 3] = ["e.g", "i.e", "vs"];

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

/// Returns the first paragraph of prose in a Markdown text, on one line and without emphasis.
/// Headings, lists, tables, tags and code blocks are skipped.
pub(crate) fn first_paragraph(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut is_code = false;
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        if is_fence {
            is_code = !is_code;
        }
        if !is_fence && !is_code && is_prose(line) {
            lines.push(line);
        } else if !is_code && is_rule(line) {
            // The lines above were a heading.
            lines.clear();
        } else if !lines.is_empty() {
            break;
        }
    }
    one_line(&lines.join(" ").replace("**", "").replace('`', ""))
}

/// Returns whether a line of Markdown is text of a paragraph.
fn is_prose(line: &str) -> bool {
    let is_item = ["- ", "* ", "+ ", "• "].iter().any(|mark| line.starts_with(mark)) || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "))
    };
    // A line in bold is a heading too.
    let is_bold = |line: &str| line.strip_prefix("**").is_some_and(|rest| rest.find("**") == Some(rest.len() - 2));
    let is_bold = is_bold(line) || line.strip_suffix(':').is_some_and(is_bold);
    !line.is_empty() && !line.starts_with(['#', '|', '<', '>']) && !is_rule(line) && !is_item && !is_bold
}

/// Returns whether a line of Markdown underlines a heading or separates sections.
fn is_rule(line: &str) -> bool {
    !line.is_empty() && ['=', '-', '*', '_'].iter().any(|mark| line.chars().all(|c| c == *mark))
}

/// Returns the first sentence of a paragraph, without its final punctuation.
pub(crate) fn first_sentence(paragraph: &str) -> &str {
    let is_end = |at: &usize| {
        let before = paragraph[..*at].rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
        !ABBREVIATIONS.contains(&before.to_lowercase().as_str())
    };
    let stop = paragraph.match_indices(". ").map(|(at, _)| at).find(is_end);
    let end = [stop, paragraph.find('。')].into_iter().flatten().min();
    paragraph[..end.unwrap_or(paragraph.len())].trim_end_matches('.')
}

/// Returns the beginning of a sentence in at most `most` words, up to a word that begins another
/// phrase; empty if fewer than three words were left.
pub(crate) fn complete_phrase(sentence: &str, most: usize) -> String {
    const LEAST: usize = 3;
    const MARKS: [char; 3] = [',', ';', ':'];
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let is_open = |word: &str| OPEN_WORDS.contains(&word.trim_end_matches(MARKS).to_lowercase().as_str());
    let end = if words.len() <= most {
        // Words that end nothing are dropped.
        let is_unfinished = sentence.ends_with(MARKS);
        let is_final = |word: &str| !is_open(word) || !is_unfinished && PARTICLES.contains(&word);
        let end = words.iter().rposition(|word| is_final(word)).map_or(0, |last| last + 1);
        if end < words.len() && end < LEAST { 0 } else { end }
    } else {
        // What an article begins belongs to the verb in front of it.
        let is_joint = |word: &str| is_open(word) && !["a", "an", "its", "the"].contains(&word);
        let is_closed = |words: &[&str]| {
            let count = |mark: char| words.iter().map(|word| word.matches(mark).count()).sum::<usize>();
            count('(') == count(')')
        };
        let is_end = |end: &usize| {
            let is_last = words[end - 1].ends_with(MARKS) || is_joint(words[*end]);
            is_last && !is_open(words[end - 1]) && is_closed(&words[..*end])
        };
        (LEAST..=most).rev().find(is_end).unwrap_or_default()
    };
    words[..end].join(" ").trim_end_matches(MARKS).to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_prose_on_one_line() {
        let check = |text: &str, expected: &str| assert_eq!(first_paragraph(text), expected, "{text}");
        check("Reads\nfiles.\n\nMore.", "Reads files.");
        check("# Files\n## Reading\n\nReads `files`.", "Reads files.");
        check("Files\nand folders\n===\nReads **files**.", "Reads files.");
        check("**Files:**\nReads files.", "Reads files.");
        check("- one\n- two\n\n1. three\n\nReads files.", "Reads files.");
        check("```sh\nls\n```\n---\nReads files.\n- all", "Reads files.");
        check("<usecase>\nReads files.\n</usecase>", "Reads files.");
        check("**Reads** files **quickly**", "Reads files quickly");
        check("3 tools for files", "3 tools for files");
        check("# Files", "");
    }

    #[test]
    fn sentences_do_not_end_with_an_abbreviation() {
        assert_eq!(first_sentence("Reads files (e.g. logs). Writes too."), "Reads files (e.g. logs)");
        assert_eq!(first_sentence("读取文件。写入文件"), "读取文件");
    }

    #[test]
    fn phrases_do_not_end_with_an_open_word() {
        let check = |sentence: &str, expected: &str| assert_eq!(complete_phrase(sentence, 6), expected, "{sentence}");
        check("Reads files and", "");
        check("Reads files of users, and the", "Reads files of users");
        check("Reads files of users with:", "Reads files of users");
        check("Log in", "Log in");
        check("One place to sign in:", "One place to sign");
        check("Reads", "Reads");
        check("Searches the web (text and images) and stores pages", "Searches the web (text and images)");
        check("Searches the web (text and all images) and pages", "");
    }
}
