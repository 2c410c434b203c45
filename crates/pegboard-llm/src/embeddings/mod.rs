//! Vectors of texts from any OpenAI-compatible embeddings endpoint.
//!
//! [`Embeddings`] is the client alone. An [`Embedder`] adds what searches need: a
//! [`Cache`] on disk for tools and memory for queries, circuit breakers and counters.
//! [`EmbeddingRanker`] wraps a ranker, embeds the tools of every catalog, and is the source of the
//! vectors of queries through
//! [`Ranker::vector_source`](pegboard_core::Ranker::vector_source).

mod answer;
mod cache;
mod client;
mod embedder;
mod error;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod once;
mod queries;
mod ranker;
mod recent;
mod refusal;
mod settings;
mod text;
mod upkeep;

pub use self::{
    cache::{Cache, Fingerprint},
    client::{Batch, Embeddings},
    embedder::Embedder,
    error::EmbeddingError,
    ranker::EmbeddingRanker,
    settings::EndpointSettings,
    text::tool_text,
};
