//! Parsers of responses, for the fuzz targets only.

use super::{EmbeddingError, answer, refusal};

/// Parses the vectors of `count` texts in an endpoint's response.
///
/// # Errors
/// If the response is invalid.
pub fn embeddings(body: &[u8], count: usize, dimensions: Option<usize>) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    answer::read(body, count, dimensions)
}

/// Returns the reported message of an endpoint's refusal to embed `text`, if there is one.
pub fn refusal_without(body: &[u8], text: &str) -> Option<String> {
    Some(refusal::without(&refusal::message(body)?, text))
}
