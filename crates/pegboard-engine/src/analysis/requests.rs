//! Boundaries between the requests of a query.

/// Returns whether a sentence or clause ends between two words.
pub fn ends_clause(gap: &str) -> bool {
    ends_sentence(gap) || gap.contains(['，', '、']) || (gap.contains(',') && gap.contains(char::is_whitespace))
}

/// Returns whether a sentence ends between two words.
pub fn ends_sentence(gap: &str) -> bool {
    let has_space = gap.contains(char::is_whitespace);
    gap.chars().any(|c| match c {
        '.' | '?' | '!' | ';' => has_space,
        '。' | '？' | '！' | '；' | '\n' => true,
        _ => false,
    })
}

/// Words that join parts of one request as well as requests.
const JOINING: [&str; 3] = ["and", "y", "и"];

/// Words that begin a further step.
const STEPS: [&str; 7] = ["then", "also", "plus", "afterwards", "finally", "additionally", "luego"];

/// Returns whether a further request may begin at `word`.
pub fn begins_request(word: &str) -> bool {
    is_one_of(word, &JOINING) || is_one_of(word, &STEPS)
}

/// Returns whether the clause `text` begins as a further step: `and then the bill`.
pub fn begins_step(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.find(|word| !is_one_of(word, &JOINING)).is_some_and(|word| is_one_of(word, &STEPS))
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.iter().any(|other| word.eq_ignore_ascii_case(other))
}
