//! What Anthropic's models can do.

use crate::wire::profile::{Capabilities, Support};

/// Models with tool search, as their documentation lists them. There is nothing to ask for
/// it; newer models are taken to have it until they refuse it.
const ANTHROPIC_SEARCH: &[&str] = &[
    "fable-5",
    "mythos-5",
    "opus-5",
    "opus-4-8",
    "opus-4-7",
    "opus-4-6",
    "opus-4-5",
    "sonnet-4-6",
    "sonnet-4-5",
    "haiku-4-5",
];

/// The first version of Anthropic's models with tool search.
const FIRST_WITH_SEARCH: (u32, u32) = (4, 5);

/// Returns what a model can do.
pub(super) fn capabilities(name: &str) -> Capabilities {
    let version = anthropic_version(name);
    let references = if is_any(name, ANTHROPIC_SEARCH) {
        Support::Documented
    } else if version.is_some_and(|version| version >= FIRST_WITH_SEARCH) {
        Support::Likely
    } else {
        Support::Unknown
    };
    let is_newer = version.is_some_and(|version| version > (5, 5));
    Capabilities {
        references,
        refuses_forced_choice: is_any(name, &["fable-5-1", "mythos-5-1", "opus-5-5", "sonnet-5-5"]),
        binds_thinking: is_newer || is_any(name, &["fable-5-1", "mythos-5-1", "opus-5-5"]),
        ..Capabilities::default()
    }
}

/// The version in a name such as `claude-opus-4-5-20251101` or `claude-3-5-sonnet`. Longer
/// numbers are dates.
fn anthropic_version(name: &str) -> Option<(u32, u32)> {
    let rest = &name[name.find("claude")? + "claude".len()..];
    let number = |part: &&str| if part.len() <= 2 { part.parse::<u32>().ok() } else { None };
    let mut parts =
        rest.split(|letter: char| !letter.is_ascii_alphanumeric()).skip_while(|part| number(part).is_none());
    let major = number(&parts.next()?)?;
    Some((major, parts.next().as_ref().and_then(number).unwrap_or(0)))
}

/// Whether one of the parts is in the name, as a whole: `opus-4-5` is not in `opus-4-50`.
fn is_any(name: &str, parts: &[&str]) -> bool {
    let name = name.replace('.', "-");
    parts.iter().any(|part| {
        name.match_indices(part).any(|(at, _)| !name[at + part.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}
