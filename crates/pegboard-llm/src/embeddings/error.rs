//! Errors of embeddings endpoints.

use std::time::Duration;

/// Why vectors are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Http(#[source] reqwest::Error),
    /// The endpoint could not be reached, or the connection broke.
    #[error("cannot reach the endpoint")]
    Unreachable(#[source] reqwest::Error),
    /// The request timed out.
    #[error("the endpoint did not respond within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The endpoint rejected the request.
    #[error("the endpoint answered with HTTP status {status}{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message of the endpoint after a colon; empty if there is none.
        message: String,
    },
    /// The response does not contain valid vectors.
    #[error("invalid response from the endpoint: {0}")]
    InvalidResponse(String),
    /// The vectors have another length than those of the tools.
    #[error("the endpoint's vectors have {found} dimensions; those of the tools have {expected}")]
    Dimensions {
        /// The length of the known vectors.
        expected: usize,
        /// The length of the new vectors.
        found: usize,
    },
}

impl EmbeddingError {
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable(_) => {
                Some("check that it is running and that `url` is correct; for Ollama it ends with `:11434/v1`")
            }
            Self::Timeout(_) => {
                Some("a model that is loaded on demand is slow at first; raise `queryTimeout` or `timeout`")
            }
            Self::Refused { status: 300..=399, .. } => {
                Some("it redirects to another address, to which the key is not sent; set `url` to the final address")
            }
            Self::Refused { status: 400 | 422, .. } => {
                Some("check that it is an embedding model, and that it supports `dimensions` if they are set")
            }
            Self::Refused { status: 401 | 403, .. } => Some("set the API key in `key`, preferably as `${VARIABLE}`"),
            Self::Refused { status: 404, .. } => Some(
                "check that the model exists under this name (`ollama pull MODEL`), and that `url` ends with `/v1`",
            ),
            Self::Refused { status: 429, .. } => Some("the endpoint has a rate limit"),
            Self::Refused { status: 500..=599, .. } => Some("check its log, and that the model is loaded"),
            Self::Dimensions { .. } => Some(
                "the model behind this name has changed; `pegboard serve` embeds the tools again, other commands do \
                 after you remove the folder `embeddings` in the state folder",
            ),
            Self::InvalidResponse(_) => {
                Some("check that it is an OpenAI-compatible `/v1/embeddings` endpoint with an embedding model")
            }
            _ => None,
        }
    }

    /// Returns whether the error may be about one of the texts, so that other, fewer or shorter
    /// ones may succeed. Some endpoints fail as a whole over a text that is too long, or send zeros
    /// for it.
    pub(super) fn may_concern_text(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422 | 424 | 500..=599, .. } | Self::InvalidResponse(_))
    }
}
