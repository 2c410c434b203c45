//! Providers, models, and what each of them can do.

use std::fmt;

use crate::wire::Wire;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, or a compatible endpoint.
    OpenAi,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Gemini.
    Gemini,
    /// MiniMax, by its Anthropic-compatible endpoint.
    MiniMax,
    /// MiniMax, by its OpenAI-compatible endpoint.
    MiniMaxChat,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Anthropic, Self::OpenAi, Self::OpenAiResponses, Self::Gemini, Self::MiniMax, Self::MiniMaxChat];

    /// The name that people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::MiniMax => "minimax",
            Self::MiniMaxChat => "minimax-chat",
        }
    }

    /// How it writes conversations.
    pub fn wire(self) -> Wire {
        match self {
            Self::Anthropic | Self::MiniMax => Wire::Anthropic,
            Self::OpenAi | Self::MiniMaxChat => Wire::Chat,
            Self::OpenAiResponses => Wire::Responses,
            Self::Gemini => Wire::Gemini,
        }
    }

    /// Where it is reached unless told otherwise.
    pub fn base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::MiniMax => "https://api.minimax.io/anthropic",
            Self::MiniMaxChat => "https://api.minimax.io/v1",
        }
    }

    /// The environment variables that hold its key and another base URL.
    pub fn variables(self) -> Variables {
        match self {
            Self::Anthropic => Variables { keys: &["ANTHROPIC_API_KEY"], base_urls: &["ANTHROPIC_BASE_URL"] },
            Self::OpenAi | Self::OpenAiResponses => {
                Variables { keys: &["OPENAI_API_KEY"], base_urls: &["OPENAI_BASE_URL"] }
            }
            Self::Gemini => Variables {
                keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                base_urls: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
            },
            // The two endpoints have different paths, so that one base URL cannot serve both.
            Self::MiniMax => Variables { keys: &["MINIMAX_API_KEY"], base_urls: &["MINIMAX_BASE_URL"] },
            Self::MiniMaxChat => Variables { keys: &["MINIMAX_API_KEY"], base_urls: &["MINIMAX_CHAT_BASE_URL"] },
        }
    }

    /// Tools that one request may define. Where a provider names no limit, as many as any
    /// takes.
    pub fn max_tools(self) -> usize {
        match self {
            Self::OpenAi => 128,
            Self::Gemini => 512,
            _ => 10_000,
        }
    }
}

/// The environment variables of a provider. Of several, the first one that is set counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variables {
    /// Those that hold the key.
    pub keys: &'static [&'static str],
    /// Those that hold another base URL.
    pub base_urls: &'static [&'static str],
}

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    /// Who serves it.
    pub provider: Provider,
    /// What it is called there.
    pub name: String,
}

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It has no provider or no name.
    #[error("`{0}` is not of the form PROVIDER/MODEL; providers are {names}", names = provider_names())]
    Form(String),
    /// Its provider is not known here.
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
    /// Reads `provider/model`.
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

    /// Whether it understands `defer_loading` and references to tools.
    pub(crate) fn knows_references(&self) -> Support {
        let name = self.name.to_lowercase();
        match self.provider {
            Provider::Anthropic if is_any(&name, ANTHROPIC_SEARCH) => Support::Documented,
            Provider::Anthropic if anthropic_version(&name).is_some_and(|version| version >= FIRST_WITH_SEARCH) => {
                Support::Likely
            }
            _ => Support::Unknown,
        }
    }

    /// Whether it can be given a search that the client carries out.
    pub(crate) fn knows_client_search(&self) -> Support {
        let name = self.name.to_lowercase();
        let is_newer = openai_version(&name).is_some_and(|version| version >= (5, 4)) && !name.contains("nano");
        if self.provider == Provider::OpenAiResponses && is_newer { Support::Documented } else { Support::Unknown }
    }

    /// Whether it refuses to be told which tool to use.
    pub(crate) fn refuses_forced_choice(&self) -> bool {
        let name = self.name.to_lowercase();
        self.provider == Provider::Anthropic && is_any(&name, &["fable-5-1", "mythos-5-1", "opus-5-5", "sonnet-5-5"])
    }

    /// Whether its thoughts are bound to everything that was said before them.
    pub(crate) fn binds_thinking(&self) -> bool {
        let name = self.name.to_lowercase();
        let is_newer = anthropic_version(&name).is_some_and(|version| version > (5, 5));
        let is_known = is_any(&name, &["fable-5-1", "mythos-5-1", "opus-5-5"]);
        self.provider == Provider::Anthropic && (is_known || is_newer)
    }

    /// Whether it refuses calls in a history that carry no signature.
    pub(crate) fn signs_calls(&self) -> bool {
        let name = self.name.to_lowercase();
        let is_older = ["gemini-1", "gemini-2"].iter().any(|older| name.contains(older));
        self.provider == Provider::Gemini && !is_older
    }
}

/// Whether a model understands something, as far as that can be known without asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// Its documentation says so.
    Documented,
    /// It is newer than models of its family that do.
    Likely,
    /// Nothing says so.
    Unknown,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.as_str(), self.name)
    }
}

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

/// The version in a name such as `gpt-5.4-mini`.
fn openai_version(name: &str) -> Option<(u32, u32)> {
    let rest = &name[name.find("gpt-")? + 4..];
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
    let major = digits(rest)?;
    let minor = rest.split_once('.').filter(|(head, _)| head.parse::<u32>().is_ok()).and_then(|(_, tail)| digits(tail));
    Some((major, minor.unwrap_or(0)))
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
        use Support::{Documented, Likely, Unknown};
        let check = |text: &str, references: Support, client_search: Support, refuses: bool| {
            let model = Model::parse(text).expect("a model");
            let found = (model.knows_references(), model.knows_client_search(), model.refuses_forced_choice());
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
