//! Markdown on a terminal, piece by piece as a model writes it.
//!
//! What is shown is what was written, in colours: marks are taken out where a terminal has a style
//! for them, and everything else stays. A line begins to be shown as soon as it is known what kind
//! of line it is.

use anstyle::{AnsiColor, Style};

const HEADING: Style = Style::new().bold().underline();
const BOLD: Style = Style::new().bold();
const ITALIC: Style = Style::new().italic();
const CODE: Style = AnsiColor::Cyan.on_default();

/// Characters at the beginning of a line that can decide what kind it is.
const MAX_MARK: usize = 12;

/// A text that is being written.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// What has come of a line whose kind is not known yet; `None` in the middle of one.
    begun: Option<String>,
    is_started: bool,
    in_fence: bool,
    is_heading: bool,
    is_bold: bool,
    is_italic: bool,
    is_code: bool,
    /// A `*` whose meaning the next character decides.
    star: bool,
    last: Option<char>,
}

impl Markdown {
    /// The next piece, ready to be shown.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        for c in piece.chars() {
            self.take(c, &mut shown);
        }
        shown
    }

    /// What was held back, at the end of the text.
    pub(super) fn finish(&mut self) -> String {
        let mut shown = String::new();
        if let Some(begun) = self.begun.take() {
            self.begin(&begun, &mut shown);
        }
        self.settle_star(None, &mut shown);
        self.end_line(&mut shown);
        *self = Self::default();
        shown
    }

    fn take(&mut self, c: char, shown: &mut String) {
        if !self.is_started {
            (self.is_started, self.begun) = (true, Some(String::new()));
        }
        if let Some(mut begun) = self.begun.take() {
            if c != '\n' {
                begun.push(c);
            }
            if c != '\n' && is_undecided(&begun) {
                self.begun = Some(begun);
                return;
            }
            self.begin(&begun, shown);
            if c == '\n' {
                self.end_line(shown);
                shown.push('\n');
            }
            return;
        }
        if c == '\n' {
            self.settle_star(None, shown);
            self.end_line(shown);
            shown.push('\n');
        } else {
            self.inline(c, shown);
        }
    }

    /// Begins a line of which enough is known.
    fn begin(&mut self, begun: &str, shown: &mut String) {
        let rest = begun.trim_start();
        let indent = &begun[..begun.len() - rest.len()];
        self.last = None;
        if rest.starts_with("```") || rest.starts_with("~~~") {
            self.in_fence = !self.in_fence;
            shown.push_str(&format!("{CODE}{begun}{CODE:#}"));
            return;
        }
        if self.in_fence {
            shown.push_str(&format!("{CODE}{begun}"));
            return;
        }
        let hashes = rest.chars().take_while(|c| *c == '#').count();
        if (1..=6).contains(&hashes) && rest[hashes..].starts_with(' ') {
            self.is_heading = true;
            shown.push_str(&HEADING.to_string());
            return rest[hashes + 1..].chars().for_each(|c| self.inline(c, shown));
        }
        let bullet = ["- ", "* ", "+ "].iter().find_map(|mark| rest.strip_prefix(mark));
        if let Some(item) = bullet {
            shown.push_str(&format!("{indent}• "));
            return item.chars().for_each(|c| self.inline(c, shown));
        }
        begun.chars().for_each(|c| self.inline(c, shown));
    }

    /// A character in the middle of a line.
    fn inline(&mut self, c: char, shown: &mut String) {
        if self.in_fence {
            return shown.push(c);
        }
        if self.star {
            if c == '*' {
                self.star = false;
                self.is_bold = !self.is_bold;
                return self.restyle(shown);
            }
            self.settle_star(Some(c), shown);
        }
        match c {
            '`' => {
                self.is_code = !self.is_code;
                self.restyle(shown);
            }
            '*' if !self.is_code => self.star = true,
            c => {
                shown.push(c);
                self.last = Some(c);
            }
        }
    }

    /// Decides about a single `*`: emphasis beside a word, a star elsewhere.
    fn settle_star(&mut self, next: Option<char>, shown: &mut String) {
        if !std::mem::take(&mut self.star) {
            return;
        }
        let opens = next.is_some_and(|next| !next.is_whitespace());
        let closes = self.last.is_some_and(|last| !last.is_whitespace());
        if (self.is_italic && closes) || (!self.is_italic && opens && !closes) {
            self.is_italic = !self.is_italic;
            self.restyle(shown);
        } else {
            shown.push('*');
            self.last = Some('*');
        }
    }

    /// Goes over to the style of now.
    fn restyle(&self, shown: &mut String) {
        shown.push_str(&format!("{}", anstyle::Reset));
        let styles = [(self.is_heading, HEADING), (self.is_bold, BOLD), (self.is_italic, ITALIC), (self.is_code, CODE)];
        styles.iter().filter(|(is_on, _)| *is_on).for_each(|(_, style)| shown.push_str(&style.to_string()));
    }

    /// Ends the styles of a line; none goes beyond it.
    fn end_line(&mut self, shown: &mut String) {
        let is_styled = self.is_heading || self.is_bold || self.is_italic || self.is_code || self.in_fence;
        if is_styled {
            shown.push_str(&format!("{}", anstyle::Reset));
        }
        (self.is_heading, self.is_bold, self.is_italic, self.is_code) = (false, false, false, false);
        self.begun = Some(String::new());
    }
}

/// Whether more of a line is needed to know its kind.
fn is_undecided(begun: &str) -> bool {
    let rest = begun.trim_start();
    if begun.chars().count() > MAX_MARK {
        return false;
    }
    rest.is_empty() || rest.chars().all(|c| matches!(c, '#' | '-' | '*' | '+' | '`' | '~')) && rest.len() < 7
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in pieces of every size is shown alike, and without styles it reads so.
    fn check(text: &str, expected: &str) {
        let whole = {
            let mut markdown = Markdown::default();
            markdown.push(text) + &markdown.finish()
        };
        for size in 1..8 {
            let mut markdown = Markdown::default();
            let letters: Vec<char> = text.chars().collect();
            let pieces = letters.chunks(size).map(|piece| markdown.push(&piece.iter().collect::<String>()));
            let shown: String = pieces.collect();
            assert_eq!(shown + &markdown.finish(), whole, "pieces of {size}: {text}");
        }
        assert_eq!(anstream::adapter::strip_str(&whole).to_string(), expected, "{whole:?}");
    }

    #[test]
    fn marks_become_styles() {
        check("plain words\n", "plain words\n");
        check("# Title\nand **bold**, *soft* and `code`", "Title\nand bold, soft and code");
        check("- one\n  * two\n+ three", "• one\n  • two\n• three");
        check("2 * 3 * 4 and a*b", "2 * 3 * 4 and a*b");
        check(
            "```rust\nlet a = *b;\n# not a title\n```\nafter *it*",
            "```rust\nlet a = *b;\n# not a title\n```\nafter it",
        );
        check("#hash and -dash", "#hash and -dash");
        check("**open\nnext", "open\nnext");
        check("`a * b` stays", "a * b stays");
        check("", "");
        check("\n\n", "\n\n");
        check("***both***", "both");
    }

    #[test]
    fn words_are_shown_as_they_come() {
        let mut markdown = Markdown::default();
        assert_eq!(markdown.push("Hel"), "Hel");
        assert_eq!(markdown.push("lo **wor"), format!("lo {}{BOLD}wor", anstyle::Reset));
    }
}
