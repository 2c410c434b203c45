//! Counts tokens: exactly with the feature `tokenizer`, and otherwise by estimate.

use crate::error::CliError;

/// Counts the tokens of texts.
pub(super) struct Tokenizer {
    #[cfg(feature = "tokenizer")]
    bpe: tiktoken_rs::CoreBPE,
}

#[cfg(feature = "tokenizer")]
impl Tokenizer {
    /// Loads the o200k tokenizer, which takes a moment.
    pub(super) fn load() -> Result<Self, CliError> {
        let bpe = tiktoken_rs::o200k_base();
        Ok(Self { bpe: bpe.map_err(|error| CliError::new(format!("cannot load the tokenizer: {error}")))? })
    }

    pub(super) fn count(&self, text: &str) -> usize {
        self.bpe.encode_ordinary(text).len()
    }
}

#[cfg(not(feature = "tokenizer"))]
impl Tokenizer {
    /// Warns that all counts are estimates.
    pub(super) fn load() -> Result<Self, CliError> {
        crate::error::warn("token counts are estimates: this program was built without the feature `tokenizer`");
        Ok(Self {})
    }

    #[expect(clippy::unused_self, reason = "the same call counts exactly in other builds")]
    pub(super) fn count(&self, text: &str) -> usize {
        pegboard_discovery::estimate_tokens(text)
    }
}
