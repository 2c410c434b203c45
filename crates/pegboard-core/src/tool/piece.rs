//! Texts that most tools contain twice: in their definition, and on their own.

use serde_json::value::RawValue;

/// Number of bytes by which positions are found. A search for a whole schema would first have to
/// preprocess all of it.
const HEAD: usize = 32;

/// Maximum number of positions that are compared; a definition may contain very many with the same
/// beginning.
const PLACES: usize = 8;

/// A text of a tool. If its definition contains the same bytes, only their position is stored.
#[derive(Debug)]
pub(super) enum Piece {
    /// A place in the definition.
    Within { start: u32, end: u32 },
    /// A text of its own.
    Apart(Box<str>),
}

impl Piece {
    /// Stores `text`, which may be a part of `definition`.
    pub(super) fn new(text: impl Into<Box<str>> + AsRef<str>, definition: Option<&RawValue>) -> Self {
        Self::within(text.as_ref(), definition).unwrap_or_else(|| Self::Apart(text.into()))
    }

    /// Returns the position of `text`. Equal bytes are interchangeable, wherever in the definition
    /// they are.
    fn within(text: &str, definition: Option<&RawValue>) -> Option<Self> {
        let whole = definition?.get();
        let head = &text[..text.floor_char_boundary(HEAD)];
        let mut places = whole.match_indices(head).map(|(start, _)| start).take(PLACES);
        let start = places.find(|start| whole[*start..].starts_with(text))?;
        let end = u32::try_from(start + text.len()).ok()?;
        Some(Self::Within { start: u32::try_from(start).ok()?, end })
    }

    /// Returns the text; `definition` is the one that the piece was created with.
    pub(super) fn get<'a>(&'a self, definition: Option<&'a RawValue>) -> &'a str {
        match self {
            Self::Within { start, end } => {
                definition.and_then(|whole| whole.get().get(*start as usize..*end as usize)).unwrap_or_default()
            }
            Self::Apart(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `text` is the same afterwards, and held on its own only if it has to be.
    #[track_caller]
    fn check(text: &str, definition: Option<&str>, is_apart: bool) {
        let definition: Option<Box<RawValue>> = definition.map(|json| serde_json::from_str(json).expect("JSON"));
        let piece = Piece::new(text, definition.as_deref());
        assert_eq!(piece.get(definition.as_deref()), text);
        assert_eq!(matches!(piece, Piece::Apart(_)), is_apart, "{text}");
    }

    #[test]
    fn what_the_definition_contains_is_not_held_twice() {
        let definition = r#"{"description":"Größe: \"ä\"","inputSchema":{ "type": "object" }}"#;
        check("Größe: ", Some(definition), false);
        check(r#"{ "type": "object" }"#, Some(definition), false);
        check("", Some(definition), false);
        let long = "long ".repeat(100);
        check(&long, Some(&format!(r#"{{"a":"{}","b":"{long}"}}"#, "long ".repeat(20))), false);
        check("Größe: \"ä\"", Some(definition), true);
        check(r#"{"type":"object"}"#, Some(definition), true);
        check("Größe", None, true);
    }
}
