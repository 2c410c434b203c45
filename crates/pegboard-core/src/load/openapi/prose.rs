//! Texts for people, written in Markdown and HTML, made fit for searching and for models.

use crate::text;

/// Tags that are removed. Others may be placeholders, such as `<id>`, which readers need.
const TAGS: [&str; 43] = [
    "a",
    "b",
    "blockquote",
    "br",
    "center",
    "code",
    "dd",
    "del",
    "details",
    "div",
    "dl",
    "dt",
    "em",
    "font",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
];

/// Tags within a line; any other tag separates words.
const INLINE: [&str; 15] =
    ["a", "b", "code", "del", "em", "font", "i", "kbd", "s", "small", "span", "strong", "sub", "sup", "u"];

const ENTITIES: [(&str, &str); 6] =
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];

/// Bytes that are searched for the end of a tag, of a link's text and of its address.
const MAX_MARKUP_BYTES: usize = 2000;

/// Brackets that turn out to be text; after so many the rest is taken as it is, because every
/// one of them is a search for its end.
const MAX_FAILURES: usize = 50;

/// The summary, then the description unless it begins with the same words.
pub(super) fn description(summary: &str, description: &str, is_deprecated: bool, most: usize) -> String {
    let (summary, description) = (plain(summary, most), plain(description, most));
    let stem = summary.trim_end_matches('.');
    let repeats = description.get(..stem.len()).is_some_and(|start| start.eq_ignore_ascii_case(stem));
    let mut whole = match (summary.is_empty() || repeats, description.is_empty()) {
        (true, _) => description,
        (false, true) => summary,
        (false, false) if summary.ends_with(['.', '!', '?', ':']) => format!("{summary} {description}"),
        (false, false) => format!("{summary}. {description}"),
    };
    let says_so = whole.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("deprecated"));
    if is_deprecated && !says_so {
        whole.insert_str(0, if whole.is_empty() { "Deprecated." } else { "Deprecated. " });
    }
    text::bounded(&whole, most).into_owned()
}

/// The first paragraph of a text that is more than a heading.
pub(super) fn first_paragraph(markdown: &str, most: usize) -> String {
    let start = &markdown[..markdown.floor_char_boundary(MAX_MARKUP_BYTES.saturating_mul(4))];
    let paragraphs = start.replace("\r\n", "\n");
    let paragraph = paragraphs.split("\n\n").find(|part| !part.trim().is_empty() && !part.trim().starts_with('#'));
    plain(paragraph.unwrap_or_default(), most)
}

/// `markdown` without tags, addresses of links, headings' signs and blank lines, in at most
/// `most` bytes.
pub(super) fn plain(markdown: &str, most: usize) -> String {
    // Whatever is removed is removed from a text that is not longer than needed.
    let start = &markdown[..markdown.floor_char_boundary(most.saturating_mul(4))];
    let mut text = without_markup(start);
    if text.contains('&') {
        text = ENTITIES.iter().fold(text, |text, (entity, character)| text.replace(entity, character));
    }
    text::bounded(&joined_lines(&text::clean(&text)), most).into_owned()
}

/// The text with every paragraph and every item of a list on one line, without blank lines and
/// the signs of headings.
fn joined_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_new = true;
    for line in text.lines() {
        let is_heading = line.trim_start().starts_with('#');
        let words = line.trim().trim_start_matches('#').split_whitespace();
        let starts_item = line.trim_start().starts_with(['-', '*', '+', '|', '>'])
            || line.trim_start().starts_with("```")
            || line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ");
        let mut separator = if is_new || is_heading || starts_item { "\n" } else { " " };
        is_new = is_heading || line.trim().is_empty();
        for word in words {
            if !joined.is_empty() {
                joined.push_str(separator);
            }
            joined.push_str(word);
            separator = " ";
        }
    }
    joined
}

/// Removes tags, addresses of links, and signs of bold text.
fn without_markup(text: &str) -> String {
    let mut failures = 0;
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '[', '!', '*']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let markup = tag(rest).or_else(|| link(rest)).or_else(|| emphasis(rest));
        failures += usize::from(markup.is_none() && rest.starts_with(['<', '[']));
        if failures > MAX_FAILURES {
            break;
        }
        let (shown, after) = markup.unwrap_or(rest.split_at(1));
        plain.push_str(shown);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// What is shown of a tag at the start of `text`, and the text after it.
fn tag(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('<')?;
    if let Some(comment) = text.strip_prefix("!--") {
        return within(comment).find("-->").map(|end| ("", &comment[end + 3..]));
    }
    let end = within(text).find('>')?;
    let (inner, after) = (&text[..end], &text[end + 1..]);
    if inner.starts_with("http://") || inner.starts_with("https://") {
        return Some((inner, after));
    }
    let name = inner.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next()?.to_ascii_lowercase();
    let is_tag = TAGS.contains(&name.as_str());
    is_tag.then(|| (if INLINE.contains(&name.as_str()) { "" } else { "\n\n" }, after))
}

/// The text of a link or image at the start of `text`, and what comes after it.
fn link(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('!').unwrap_or(text).strip_prefix('[')?;
    let end = closing(inner, '[', ']')?;
    let (shown, after) = (&inner[..end], &inner[end + 1..]);
    if let Some(address) = after.strip_prefix('(') {
        return closing(address, '(', ')').map(|end| (shown, &address[end + 1..]));
    }
    let label = after.strip_prefix('[')?;
    closing(label, '[', ']').map(|end| (shown, &label[end + 1..]))
}

/// The signs of bold text, which stand inside words and beside them.
fn emphasis(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("**").map(|after| ("", after))
}

/// The place of the bracket that closes the one before `text`.
fn closing(text: &str, opening: char, closing: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in within(text).char_indices() {
        match c {
            c if c == opening => depth += 1,
            c if c == closing && depth == 0 => return Some(at),
            c if c == closing => depth -= 1,
            _ => {}
        }
    }
    None
}

fn within(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MARKUP_BYTES)]
}
