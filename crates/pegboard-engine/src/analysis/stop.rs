//! Stop words.

/// Returns whether a folded token is a stop word.
///
/// Stop words are indexed like any other word. A query ignores them while its other words find
/// something, and uses them otherwise, so that they cannot lose a hit.
pub fn is_stop_word(token: &str) -> bool {
    STOP_WORDS.binary_search(&token).is_ok()
}

/// Sorted, for the binary search.
const STOP_WORDS: &[&str] = &[
    "a", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "here", "hers", "him", "his", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "kindly", "ll", "may", "me", "might", "mine", "must", "my", "not",
    "of", "on", "or", "our", "ours", "please", "re", "s", "shall", "she", "should", "so", "some", "such", "t", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "us", "ve", "very",
    "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with",
    "would", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_for_the_search() {
        assert!(STOP_WORDS.is_sorted_by(|a, b| a < b));
        assert!(is_stop_word("the") && is_stop_word("a") && is_stop_word("yours") && !is_stop_word("issue"));
    }
}
