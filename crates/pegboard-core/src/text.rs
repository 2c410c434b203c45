//! Cleaning of texts that come from outside.

/// Removes control characters except line breaks and tabs, so that a description cannot
/// drive a terminal or end a prompt section by stealth.
pub(crate) fn clean(text: String) -> String {
    remove(text, |c| is_unsafe(c) && c != '\n' && c != '\t')
}

/// Like [`clean`], for names and other single lines.
pub(crate) fn clean_line(text: String) -> String {
    remove(text, is_unsafe)
}

fn remove(text: String, unwanted: impl Fn(char) -> bool) -> String {
    if text.contains(&unwanted) { text.replace(&unwanted, "") } else { text }
}

/// Controls, and the bidirectional overrides and tag characters with which text can be
/// made to read differently from what it says.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
}
