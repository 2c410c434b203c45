//! Where one request of a query ends and the next begins.

/// Whether a sentence or clause ends between two words.
pub fn ends_clause(gap: &str) -> bool {
    let has_space = gap.contains(char::is_whitespace);
    gap.chars().any(|c| match c {
        '.' | '?' | '!' | ';' | ',' => has_space,
        '。' | '？' | '！' | '；' | '，' | '、' | '\n' => true,
        _ => false,
    })
}

/// Whether `word` begins a further request.
pub fn begins_request(word: &str) -> bool {
    ["and", "then", "also", "plus", "afterwards", "finally", "additionally", "y", "luego", "и"]
        .iter()
        .any(|connector| word.eq_ignore_ascii_case(connector))
}
