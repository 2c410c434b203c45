//! Texts of clients, fit to be repeated.

/// Something that a client sent, fit to be sent back.
pub(crate) fn shorten(text: &str) -> String {
    pegboard_core::text::brief(text, 200)
}
