//! Output shared by the commands about clients.

use std::{
    io::{IsTerminal, stdout},
    path::Path,
};

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use pegboard_core::text::excerpt;

/// The table's width if the terminal does not report one.
const WIDTH_WITHOUT_TERMINAL: u16 = 100;

/// Maximum number of characters of a name or note.
const MAX_SHOWN: usize = 200;

/// Marks where the table may break a path; it has no width, and no printable text contains it.
const BREAK: char = '\u{200b}';

/// Renders a plain table that wraps long cells, because half of a path or of a reason is useless.
/// Returns an empty string without rows.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals say that they have no columns at all.
    if !stdout().is_terminal() || table.width().is_none_or(|width| width == 0) {
        table.set_width(WIDTH_WITHOUT_TERMINAL);
    }
    table.set_header(head.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for row in rows {
        let cell = |(text, title): (String, &&str)| match *title {
            "SERVER" => Cell::new(text).fg(Color::Cyan),
            "FILE" => Cell::new(breakable_path(&text)).set_delimiter(BREAK),
            _ => Cell::new(text),
        };
        table.add_row(row.into_iter().zip(head).map(cell));
    }
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
    let mut text = table.trim_fmt().replace(BREAK, "");
    text.push('\n');
    text
}

/// Returns a path with [`BREAK`] after each separator, also those of Windows.
fn breakable_path(path: &str) -> String {
    path.replace('/', &format!("/{BREAK}")).replace('\\', &format!("\\{BREAK}"))
}

/// Returns a path with `~` for the home folder.
pub(crate) fn shorten_path(path: &Path, home: Option<&Path>) -> String {
    let text = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest).to_string_lossy().into_owned(),
        None => path.to_string_lossy().into_owned(),
    };
    printable_line(&text)
}

/// Returns the beginning of an untrusted text, safe to show on a terminal.
pub(crate) fn printable(text: &str) -> String {
    printable_line(&excerpt(text, MAX_SHOWN))
}

/// Returns an untrusted text of any length as one safe line: no control characters, and no changes
/// of the text direction.
pub(crate) fn printable_line(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// Quotes a path for a shell.
pub(crate) fn quote_path(path: &Path) -> String {
    let text = printable_line(&path.to_string_lossy());
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-~:\\".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_break_between_their_parts() {
        let path = "~/.config/Some Client/User/globalStorage/vendor.extension/settings/mcp_settings.json";
        let note = "a note that is long enough to leave little room for the path of the file beside it";
        for path in [path.to_owned(), path.replace('/', "\\")] {
            let row = ["x", &path, note].map(str::to_owned).to_vec();
            let shown = table(&["CLIENT", "FILE", "NOTES"], vec![row]);
            assert!(!shown.contains(BREAK), "{shown:?}");
            let parts: Vec<&str> = path.split_inclusive(['/', '\\']).collect();
            let lines: Vec<&str> = shown.lines().skip(1).collect();
            assert!(lines.len() > 1, "{shown}");
            let is_missing = |part: &&&str| !lines.iter().any(|line| line.contains(**part));
            let missing: Vec<&&str> = parts.iter().filter(is_missing).collect();
            assert!(missing.is_empty(), "{missing:?} in\n{shown}");
        }
    }

    #[test]
    fn texts_of_others_cannot_break_the_screen() {
        assert_eq!(printable("a\u{1b}[31m\u{202e}b\r\n\u{9b}é"), "a�[31m�b���é");
        assert_eq!(printable(&"x".repeat(1000)).chars().count(), MAX_SHOWN);
        assert_eq!(quote_path(Path::new("/a b/it's")), r"'/a b/it'\''s'");
        assert_eq!(shorten_path(Path::new("/home/ada/x"), Some(Path::new("/home/ada"))), "~/x");
        assert_eq!(shorten_path(Path::new("/home/adam/x"), Some(Path::new("/home/ada"))), "/home/adam/x");
        assert_eq!(table(&["A"], Vec::new()), "");
    }
}
