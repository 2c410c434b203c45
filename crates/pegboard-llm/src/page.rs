//! HTML pages where JSON is expected: from a proxy, a login page, or a wrong base URL.

use pegboard_core::text::excerpt;

/// How many bytes of a text are searched.
const HEAD: usize = 4096;

/// The longest title that is reported, in characters.
const MAX_TITLE: usize = 120;

/// Returns the title of an HTML page, or `untitled`; `None` where the text is something else.
pub(crate) fn html_title(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let head = text[..text.floor_char_boundary(HEAD)].to_ascii_lowercase();
    let is_page = head.starts_with("<!doctype html") || (head.starts_with('<') && head.contains("<html"));
    if !is_page {
        return None;
    }
    let title = head.find("<title").and_then(|at| {
        let start = at + head[at..].find('>')? + 1;
        let end = start + head[start..].find('<')?;
        // Lower case has not moved anything: only ASCII was changed.
        let words: Vec<&str> = text[start..end].split_whitespace().collect();
        Some(excerpt(&words.join(" "), MAX_TITLE).into_owned())
    });
    Some(title.filter(|title| !title.is_empty()).unwrap_or_else(|| "untitled".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(html_title(text).as_deref(), expected, "{text}");
        check("<!DOCTYPE html><html><head><title>502 Bad\n Gateway</title></head>", Some("502 Bad Gateway"));
        check("\u{feff} <HTML lang=\"de\"><Title>Für Sie</Title>", Some("Für Sie"));
        check("<html><body>hello</body></html>", Some("untitled"));
        check("<?xml version=\"1.0\"?><Error/>", None);
        check("{\"a\": \"<html>\"}", None);
        check("", None);
        check(&format!("<!doctype html><title>{}", "é".repeat(5000)), Some("untitled"));
    }
}
