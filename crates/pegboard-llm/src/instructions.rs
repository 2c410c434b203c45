//! The section of the system prompt about finding tools.

use pegboard_discovery::Session;

use crate::{delivery::Delivery, wire::Wire};

/// Returns the section of the system prompt about finding tools.
pub(crate) fn instructions(session: &Session, wire: Wire, delivery: Delivery) -> String {
    let search = wire.format().search_name();
    match delivery {
        Delivery::Native => native(session, search),
        Delivery::ClientNative => {
            let own = session.search_name().filter(|own| *own != search);
            own.map_or_else(|| session.prompt(), |own| renamed(&session.prompt(), own, search))
        }
        Delivery::Inject | Delivery::Reference | Delivery::Constant => session.prompt(),
    }
}

/// Returns the section for a request with the provider's search in place of the dialect's tools.
fn native(session: &Session, search: &str) -> String {
    if session.native().deferred.is_empty() {
        return String::new();
    }
    session.native_prompt(&format!(
        "Most tools are not loaded. Find them with {search}, and call what it has found; found tools stay. Search \
         again, with other words, before you say that there is no tool for something."
    ))
}

/// Returns `text` with another name for the search. Lists of tools and categories stay.
fn renamed(text: &str, own: &str, other: &str) -> String {
    let is_word = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if line.starts_with("- ") {
            lines.push(line.to_owned());
            continue;
        }
        let (mut new, mut rest) = (String::new(), line);
        while let Some(at) = rest.find(own) {
            let (before, behind) = (&rest[..at], &rest[at + own.len()..]);
            let last = before.chars().last().or_else(|| new.chars().last());
            let is_valid_name = !is_word(last) && !is_word(behind.chars().next());
            new.push_str(before);
            new.push_str(if is_valid_name { other } else { own });
            rest = behind;
        }
        new.push_str(rest);
        lines.push(new);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_itself_is_replaced() {
        let check = |text: &str, expected: &str| assert_eq!(renamed(text, "Find", "tool_search"), expected);
        check("Use Find(select:x).\nFind, Find", "Use tool_search(select:x).\ntool_search, tool_search");
        check("FindFile, a_Find and Finds stay", "FindFile, a_Find and Finds stay");
        check("- Find: of a server", "- Find: of a server");
        check("FindFind", "FindFind");
    }
}
