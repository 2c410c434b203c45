//! The kind of a line, from its beginning.

/// The kind of a line outside of code. A number is how many bytes of the line are its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Heading(usize),
    Bullet(usize),
    Number(usize),
    Rule,
    /// The line above a block of code.
    Fence(Fence),
    /// A line that may be part of a table.
    Row,
    Text,
}

/// The beginning of a block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) mark: char,
    pub(super) length: usize,
    pub(super) indent: usize,
    pub(super) language: String,
    /// Number of block quotes around it.
    pub(super) quotes: usize,
}

impl Fence {
    /// Returns whether a line that begins like this may be the end of the block.
    pub(super) fn may_end_at(&self, begun: &str) -> bool {
        begun.trim().chars().all(|c| c == self.mark)
    }

    /// Returns whether a whole line is the end of the block.
    pub(super) fn ends_at(&self, line: &str) -> bool {
        self.may_end_at(line) && line.trim().len() >= self.length
    }
}

/// Whether a line begins with the mark of a block quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    Undecided,
    /// It does, with so many bytes.
    Mark(usize),
    None,
}

/// Maximum number of digits of a list number; a longer one is text.
const MAX_DIGITS: usize = 9;

/// Maximum level of headings.
const MAX_HASHES: usize = 6;

/// Minimum number of characters of a fence or a rule.
const MIN_MARKS: usize = 3;

/// Returns the indent of a line in columns.
pub(super) fn indent(line: &str) -> usize {
    let spaces = line.chars().take_while(|c| c.is_whitespace());
    spaces.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// Returns whether a line is in a block quote.
pub(super) fn quote(begun: &str, is_whole: bool) -> Quote {
    let rest = begun.trim_start();
    let before = begun.len() - rest.len();
    match (rest.strip_prefix('>'), rest) {
        (Some(""), _) | (None, "") if !is_whole => Quote::Undecided,
        (Some(text), _) => Quote::Mark(before + 1 + usize::from(text.starts_with(' '))),
        (None, _) => Quote::None,
    }
}

/// Returns the kind of a line that begins like this; `None` while more of it is needed.
pub(super) fn kind(begun: &str, is_whole: bool) -> Option<Kind> {
    let rest = begun.trim_start();
    let before = begun.len() - rest.len();
    let Some(first) = rest.chars().next() else { return is_whole.then_some(Kind::Text) };
    match first {
        '|' => is_whole.then_some(Kind::Row),
        '#' => heading(rest, before, is_whole),
        '`' | '~' => fence(rest, first, indent(begun), is_whole),
        '-' | '*' | '_' | '+' => bullet_or_rule(rest, first, before, is_whole),
        '0'..='9' => number(rest, before, is_whole),
        _ => Some(Kind::Text),
    }
}

fn heading(rest: &str, before: usize, is_whole: bool) -> Option<Kind> {
    let text = rest.trim_start_matches('#');
    let hashes = rest.len() - text.len();
    if hashes > MAX_HASHES {
        return Some(Kind::Text);
    }
    match text.chars().next() {
        None if !is_whole => None,
        Some(' ') => Some(Kind::Heading(before + hashes + 1)),
        _ => Some(Kind::Text),
    }
}

fn fence(rest: &str, mark: char, indent: usize, is_whole: bool) -> Option<Kind> {
    let info = rest.trim_start_matches(mark);
    let length = rest.len() - info.len();
    let is_fence = length >= MIN_MARKS && !(mark == '`' && info.contains('`'));
    match (is_fence, is_whole) {
        // All of the line is needed for the language.
        (true, false) => None,
        (false, false) if info.is_empty() => None,
        (false, _) => Some(Kind::Text),
        (true, true) => {
            let language = info.split_whitespace().next().unwrap_or_default().to_owned();
            Some(Kind::Fence(Fence { mark, length, indent, language, quotes: 0 }))
        }
    }
}

fn bullet_or_rule(rest: &str, mark: char, before: usize, is_whole: bool) -> Option<Kind> {
    let may_be_rule = rest.chars().all(|c| c == mark || c == ' ');
    if may_be_rule && !is_whole {
        return None;
    }
    let marks = rest.chars().filter(|c| *c == mark).count();
    let is_item = mark != '_' && rest[1..].starts_with(' ');
    Some(match (may_be_rule && marks >= MIN_MARKS && mark != '+', is_item) {
        (true, _) => Kind::Rule,
        (false, true) => Kind::Bullet(before + 2),
        (false, false) => Kind::Text,
    })
}

fn number(rest: &str, before: usize, is_whole: bool) -> Option<Kind> {
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = rest.len() - after.len();
    if digits > MAX_DIGITS {
        return Some(Kind::Text);
    }
    match after.as_bytes() {
        [] | [b'.' | b')'] if !is_whole => None,
        [b'.' | b')', b' ', ..] => Some(Kind::Number(before + digits + 2)),
        _ => Some(Kind::Text),
    }
}
