//! Misplaced keys that would restrict something at another place of the file.
//!
//! Unknown top-level keys are ignored, because the file may be shared with another program. These
//! are the exception: ignoring a misplaced `filter` would open what it was meant to close.

use pegboard_config::{
    document::{Node, Problems},
    keys::{did_you_mean, is_comment},
};
use pegboard_core::naming::{edit_distance, fold};

/// A word, its other spellings, and the place where Pegboard reads it.
struct Guarded {
    /// The spellings, folded, the usual one first.
    words: &'static [&'static str],
    hint: &'static str,
}

const GUARDED: [Guarded; 4] = [
    Guarded {
        words: &["middleware", "middlewares"],
        hint: "steps are read from the top-level `middleware`, from `httpServer.middleware` and from a server's own \
               `middleware`",
    },
    Guarded {
        words: &["security", "securityrule", "securityrules"],
        hint: "rules are read from a step of `middleware`: `{\"type\": \"security\", \"config\": {\"rules\": […]}}`",
    },
    Guarded {
        words: &["filter", "filters", "toolfilter", "toolfilters"],
        hint: "tools are filtered by `pegboard.selection`, or by a step of `middleware`: `{\"type\": \"tool_filter\", \
               …}`",
    },
    Guarded {
        words: &["auth", "auths", "authentication", "authorization", "authorisation"],
        hint: "callers of the gateway are listed in `pegboard.tokens`; credentials for a server belong in its entry",
    },
];

/// Keys of `pegboard` that restrict something, folded. At the top level they would restrict
/// nothing.
const RESTRICTING: [&str; 12] = [
    "tokens",
    "selection",
    "pinning",
    "newservers",
    "limits",
    "connections",
    "allowedhosts",
    "allowedorigins",
    "trustedproxies",
    "inheritenv",
    "processnamespace",
    "validatearguments",
];

/// Returns the right place, if `key` is a guarded word or a misspelling of one.
pub(super) fn advice(key: &str) -> Option<String> {
    let key = fold(key);
    let is_meant = |guarded: &&Guarded| guarded.words.iter().any(|word| is_slip(&key, word));
    GUARDED.iter().find(is_meant).map(|guarded| guarded.hint.to_owned())
}

/// Returns whether `key` is `word`, or a misspelling that is plausible for its length.
fn is_slip(key: &str, word: &str) -> bool {
    match word.len() {
        0..6 => key == word || is_swapped(key, word),
        6..8 => edit_distance(key, word, 1).is_some(),
        _ => edit_distance(key, word, 2).is_some(),
    }
}

/// Returns whether both have the same letters with two neighbours swapped: in a short word any
/// other mistake makes another word.
fn is_swapped(key: &str, word: &str) -> bool {
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    letters(key) == letters(word) && edit_distance(key, word, 1).is_some()
}

/// Reports an unknown top-level key that must not be ignored.
pub(super) fn check_root_key(entry: &Node<'_>, problems: &mut Problems) {
    let key = entry.key();
    if is_comment(key) {
        return;
    }
    let is_long = key.chars().nth(4).is_some();
    let near = || did_you_mean(key, ["mcpServers", "middleware", "pegboard"]).filter(|_| is_long);
    let http = || edit_distance(&fold(key), "httpserver", 2).map(|_| "did you mean `httpServer`?".to_owned());
    let misplaced = || RESTRICTING.contains(&fold(key).as_str()).then(|| format!("move it to `pegboard.{key}`"));
    if let Some(hint) = advice(key).or_else(misplaced).or_else(near).or_else(http) {
        problems.push(entry.problem("is not known").hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_and_slips_are_guarded() {
        let check = |key: &str, expected: bool| assert_eq!(advice(key).is_some(), expected, "{key}");
        for key in ["middleware", "Middleware", "middlewares", "middle_ware", "midleware", "middelware"] {
            check(key, true);
        }
        for key in ["security", "SECURITY", "securty", "securityRules", "secuirty"] {
            check(key, true);
        }
        for key in ["filter", "filters", "Filter", "fliter", "toolFilter", "tool_filter", "filterr"] {
            check(key, true);
        }
        for key in ["auth", "Auth", "auths", "atuh", "authentication", "authorization"] {
            check(key, true);
        }
        for key in ["author", "path", "theme", "inputs", "editor.fontSize", "preferences", "oauthAccount", "fonts"] {
            check(key, false);
        }
    }
}
