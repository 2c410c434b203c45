//! Why there are no vectors.

use std::time::Duration;

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// HTTP cannot be set up.
    #[error("cannot create an HTTP client")]
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
            Self::Refused { status: 300..=399, .. } => {
                Some("it points elsewhere, where the key does not go along; put the last address into `url`")
            }
            Self::Refused { status: 400 | 422, .. } => {
                Some("is it an embedding model, and does it take `dimensions`, if they are set?")
            }
            Self::Refused { status: 401 | 403, .. } => Some("put the key into `key`, better as `${VARIABLE}`"),
            Self::Refused { status: 404, .. } => {
                Some("is the model there under this name (`ollama pull MODEL`), and does `url` end with `/v1`?")
            }
            Self::Refused { status: 429, .. } => Some("the endpoint limits how often it may be asked"),
            Self::Refused { status: 500..=599, .. } => Some("its own log says why; is the model loaded?"),
            Self::Dimensions { .. } => Some(
                "the model has changed under its name; `serve` embeds the tools again, and so does everybody once the \
                 folder `embeddings` in the state folder is removed",
            ),
            Self::Garbled(_) => Some("is this an OpenAI-compatible `/v1/embeddings`, and an embedding model?"),
            _ => None,
        }
    }

    /// Whether it may be about one of the texts that were sent: others, fewer or shorter ones may
    /// pass. Some endpoints fail as a whole over a text that is too long, or send zeros for it.
    pub(super) fn may_be_a_text(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422 | 424 | 500..=599, .. } | Self::Garbled(_))
    }
}
