//! Providers, models, and what each of them can do.

use std::fmt;

use crate::wire::profile::Capabilities;
pub use crate::wire::{profile::Variables, providers::Provider};

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    /// The provider that serves it.
    pub provider: Provider,
    /// Its name at the provider.
    pub name: String,
}

/// A text is not the name of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider or the name is missing.
    #[error("`{0}` is not of the form PROVIDER/MODEL; providers are {names}", names = provider_names())]
    Form(String),
    /// The provider is unknown.
    #[error(
        "unknown provider `{0}`; providers are {names}. A local model is `openai/MODEL` with `OPENAI_BASE_URL`",
        names = provider_names()
    )]
    Provider(String),
}

fn provider_names() -> String {
    Provider::ALL.map(Provider::as_str).join(", ")
}

impl Model {
    /// Parses `PROVIDER/MODEL`.
    ///
    /// # Errors
    /// When the provider is unknown or the model is missing.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let parts = text.split_once('/').filter(|(provider, name)| !provider.is_empty() && !name.is_empty());
        let (provider, name) = parts.ok_or_else(|| ModelError::Form(text.to_owned()))?;
        let known = Provider::ALL.into_iter().find(|one| one.as_str() == provider);
        let provider = known.ok_or_else(|| ModelError::Provider(provider.to_owned()))?;
        Ok(Self { provider, name: name.to_owned() })
    }

    /// Returns what the model can do and what it demands, as far as that is known.
    pub(crate) fn capabilities(&self) -> Capabilities {
        (self.provider.profile().capabilities)(&self.name.to_lowercase())
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.as_str(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_wrong() {
        let check = |text: &str, expected: &str| {
            let error = Model::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        };
        check("gpt-5", "`gpt-5` is not of the form PROVIDER/MODEL; providers are anthropic, openai,");
        check("openai/", "`openai/` is not of the form");
        check("/gpt-5", "`/gpt-5` is not of the form");
        check("ollama/llama3", "unknown provider `ollama`; providers are anthropic,");
    }

    #[test]
    fn what_models_can_do() {
        use crate::wire::profile::Support::{self, Documented, Likely, Unknown};
        let check = |text: &str, references: Support, client_search: Support, refuses: bool| {
            let model = Model::parse(text).expect("a model");
            let can = model.capabilities();
            let found = (can.references, can.client_search, can.refuses_forced_choice);
            assert_eq!(found, (references, client_search, refuses), "{text}");
            assert_eq!(model.to_string(), text);
        };
        check("anthropic/claude-haiku-4-5", Documented, Unknown, false);
        check("anthropic/claude-opus-4-5-20251101", Documented, Unknown, false);
        check("anthropic/claude-opus-4-1", Unknown, Unknown, false);
        check("anthropic/claude-opus-4-20250514", Unknown, Unknown, false);
        check("anthropic/claude-3-7-sonnet-20250219", Unknown, Unknown, false);
        check("anthropic/claude-fable-5-1", Documented, Unknown, true);
        check("anthropic/claude-opus-5.5", Documented, Unknown, true);
        check("anthropic/claude-sonnet-5", Likely, Unknown, false);
        check("anthropic/claude-haiku-5-5-20261001", Likely, Unknown, false);
        check("anthropic/claude-saga-6", Likely, Unknown, false);
        check("anthropic/anthropic.claude-opus-6-v1:0", Likely, Unknown, false);
        check("anthropic/my-own-model-9", Unknown, Unknown, false);
        check("minimax/claude-haiku-4-5", Unknown, Unknown, false);
        check("openai-responses/gpt-5.4", Unknown, Documented, false);
        check("openai-responses/gpt-5.4-nano", Unknown, Unknown, false);
        check("openai-responses/gpt-5.3-codex", Unknown, Unknown, false);
        check("openai-responses/gpt-6-astra", Unknown, Documented, false);
        check("openai/gpt-6", Unknown, Unknown, false);
        check("gemini/gemini-3-pro", Unknown, Unknown, false);
    }

    #[test]
    fn texts_that_name_no_model() {
        for text in ["", "gpt-5", "anthropic/", "nobody/x"] {
            assert!(Model::parse(text).is_err(), "{text}");
        }
    }
}
