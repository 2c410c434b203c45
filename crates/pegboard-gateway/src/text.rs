//! Texts of clients in messages.

/// Returns a text of a client, shortened for a message.
pub(crate) fn shorten(text: &str) -> String {
    pegboard_core::text::brief(text, 200)
}
