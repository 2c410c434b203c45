//! Vectors of texts, from any OpenAI-compatible endpoint.

use std::time::Duration;

use pegboard_upstream::config::Secret;
use serde::Deserialize;
use serde_json::json;

/// Texts in one request; more are sent in several.
const BATCH: usize = 256;

/// A larger answer is refused.
const MAX_ANSWER: usize = 64 << 20;

/// An endpoint that turns texts into vectors.
#[derive(Debug)]
pub struct Embeddings {
    http: reqwest::Client,
    url: String,
    key: Option<Secret>,
    model: String,
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// HTTP cannot be set up.
    #[error("cannot set up HTTP")]
    Http(#[source] reqwest::Error),
    /// The endpoint could not be reached.
    #[error("cannot reach the endpoint")]
    Unreachable(#[source] reqwest::Error),
    /// It refuses.
    #[error("the endpoint answered with HTTP status {0}")]
    Refused(u16),
    /// What it sent are no vectors.
    #[error("the endpoint's answer is unusable: {0}")]
    Garbled(String),
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl Embeddings {
    /// An endpoint under `base_url` (as in `https://api.openai.com/v1`).
    ///
    /// # Errors
    /// When HTTP cannot be set up.
    pub fn new(base_url: &str, model: &str, key: Option<Secret>) -> Result<Self, EmbeddingError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().timeout(Duration::from_secs(60));
        let http = builder.build().map_err(EmbeddingError::Http)?;
        let url = format!("{}/embeddings", base_url.trim_end_matches('/'));
        Ok(Self { http, url, key, model: model.to_owned() })
    }

    /// One vector for each text, in their order, all of one length.
    ///
    /// # Errors
    /// When the endpoint refuses or sends something else.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            vectors.extend(self.batch(batch).await?);
        }
        let length = vectors.first().map_or(0, Vec::len);
        if length == 0 && !texts.is_empty() || vectors.iter().any(|vector| vector.len() != length) {
            return Err(EmbeddingError::Garbled("vectors of different lengths".to_owned()));
        }
        Ok(vectors)
    }

    async fn batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let mut request = self.http.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let told = |error: reqwest::Error| EmbeddingError::Unreachable(error.without_url());
        let mut response = request.body(body.to_string()).send().await.map_err(told)?;
        if !response.status().is_success() {
            return Err(EmbeddingError::Refused(response.status().as_u16()));
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(told)? {
            if answer.len() + chunk.len() > MAX_ANSWER {
                return Err(EmbeddingError::Garbled(format!("it is larger than {MAX_ANSWER} bytes")));
            }
            answer.extend_from_slice(&chunk);
        }
        let answer: Answer =
            serde_json::from_slice(&answer).map_err(|error| EmbeddingError::Garbled(error.to_string()))?;
        place(answer.data, texts.len())
    }
}

/// The vectors in the order of their texts.
fn place(items: Vec<Item>, count: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for item in items {
        match vectors.get_mut(item.index) {
            Some(place @ None) => *place = Some(item.embedding),
            _ => return Err(EmbeddingError::Garbled(format!("a vector for text {}", item.index))),
        }
    }
    let missing = || EmbeddingError::Garbled("a text without a vector".to_owned());
    vectors.into_iter().map(|vector| vector.ok_or_else(missing)).collect()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers one request with spaces without end.
    async fn talk(listener: TcpListener) {
        let Ok((mut socket, _)) = listener.accept().await else { return };
        let mut request = [0; 4096];
        let _ = socket.read(&mut request).await;
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        let spaces = vec![b' '; 1 << 20];
        while socket.write_all(&spaces).await.is_ok() {}
    }

    #[tokio::test]
    async fn answers_without_end_are_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(talk(listener));
        let endpoint = Embeddings::new(&url, "model", None).expect("an endpoint");
        let error = endpoint.embed(&["text".to_owned()]).await.expect_err("too much");
        assert!(error.to_string().contains("larger than"), "{error}");
    }
}
