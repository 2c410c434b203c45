//! Why there are no vectors.

use std::time::Duration;

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// HTTP cannot be set up.
    #[error("cannot set up HTTP")]
    Http(#[source] reqwest::Error),
    /// The endpoint could not be reached, or the connection broke.
    #[error("cannot reach the endpoint")]
    Unreachable(#[source] reqwest::Error),
    /// It took too long.
    #[error("the endpoint did not answer within {} s", .0.as_secs_f32())]
    Slow(Duration),
    /// It refuses.
    #[error("the endpoint answered with HTTP status {status}{message}")]
    Refused {
        /// The status.
        status: u16,
        /// What it says, behind a colon; nothing if it says nothing.
        message: String,
    },
    /// What it sent are no vectors.
    #[error("the endpoint's answer is unusable: {0}")]
    Garbled(String),
    /// Its vectors have another length than those of the tools.
    #[error("the endpoint's vectors have {found} dimensions, those of the tools {expected}")]
    Dimensions {
        /// Of the vectors that were known.
        expected: usize,
        /// Of those that came now.
        found: usize,
    },
}

impl EmbeddingError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable(_) => Some("is it running, and is `url` right? For Ollama it ends with `:11434/v1`"),
            Self::Slow(_) => Some(
                "a model that is loaded on demand is slow at first; `queryTimeout` and `timeout` say how long to wait",
            ),
            Self::Refused { status: 401 | 403, .. } => Some("put the key into `key`, better as `${VARIABLE}`"),
            Self::Refused { status: 404, .. } => {
                Some("is the model there under this name (`ollama pull MODEL`), and does `url` end with `/v1`?")
            }
            Self::Refused { status: 429, .. } => Some("the endpoint limits how often it may be asked"),
            Self::Garbled(_) => Some("is this an OpenAI-compatible `/v1/embeddings`, and an embedding model?"),
            _ => None,
        }
    }

    /// Whether it is about what was sent rather than about who sent it: fewer or shorter texts
    /// may pass.
    pub(super) fn is_about_input(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422, .. })
    }
}
