//! Vectors of texts by somebody else's model, from any OpenAI-compatible endpoint.
//!
//! [`Embeddings`] is the client alone. An [`Embedder`] is what a search stands on: it knows
//! vectors from before (a [`Cache`] on disk for tools, memory for queries), leaves an endpoint
//! alone that does not answer, and counts. [`Embedded`] puts it under a ranker, embeds the tools
//! of every catalog that comes by, and is asked for the vectors of queries through
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
    ranker::Embedded,
    settings::EndpointSettings,
    text::tool_text,
};
