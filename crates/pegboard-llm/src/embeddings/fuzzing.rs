//! What reads the answers of endpoints, for the fuzz targets alone.

use super::{EmbeddingError, answer, refusal};

/// The vectors of `count` texts in an endpoint's answer.
///
/// # Errors
/// When it is none.
pub fn embeddings(body: &[u8], count: usize, dimensions: Option<usize>) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    answer::read(body, count, dimensions)
}

/// Returns the reported message of an endpoint's refusal to embed `text`, if there is one.
pub fn refusal_without(body: &[u8], text: &str) -> Option<String> {
    Some(refusal::without(&refusal::message(body)?, text))
}
