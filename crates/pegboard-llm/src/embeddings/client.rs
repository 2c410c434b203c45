//! The client of an embeddings endpoint.

use std::{iter, ops::Range, time::Duration};

use pegboard_core::{text::brief, vectors::MAX_DIMENSIONS};
use reqwest::{Response, header::RETRY_AFTER, redirect};
use serde_json::json;

use super::{
    EmbeddingError, EndpointSettings, answer,
    refusal::{self, HIDDEN},
};

/// Maximum number of texts in one request. Some endpoints accept no more by default.
pub(super) const BATCH: usize = 32;

/// Maximum size of the texts in one request in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Maximum length of a text in bytes; models read little more than this.
pub(super) const MAX_TEXT: usize = 8 << 10;

/// How often a rejected text is cut to half its length.
const HALVINGS: usize = 3;

/// Minimum length of a cut text: a shorter one would not be rejected for its length, and would have
/// another meaning.
const SHORTEST: usize = 64;

/// A text that no endpoint has a reason to reject. An endpoint that accepts it and rejects another
/// text means that text.
const PROBE: &str = "tool";

/// Number of consecutive failures after which the probe is sent again.
const PATIENCE: usize = 16;

/// Size of a response without its numbers.
const FRAME: usize = 64 << 10;

/// Maximum size of a number in a response, with separators. A larger response is rejected.
const NUMBER: usize = 32;

/// Maximum number of characters of a reported error message.
const MAX_REFUSAL: usize = 300;

/// Delay before a retry, unless the endpoint sends `Retry-After`.
const PAUSE: Duration = Duration::from_millis(250);

/// Maximum delay that is waited for.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// An endpoint that turns texts into vectors.
#[derive(Debug)]
pub struct Embeddings {
    http: reqwest::Client,
    settings: EndpointSettings,
}

/// The result for the texts of one request.
#[derive(Debug, Default)]
pub struct Batch {
    /// One vector for each text; `None` for those that the endpoint rejects at any length.
    pub vectors: Vec<Option<Vec<f32>>>,
    /// The last error about a text that was rejected.
    pub refusal: Option<EmbeddingError>,
    /// Whether the endpoint has sent any vector, so that its errors are about texts.
    pub(super) has_answered: bool,
}

impl Embeddings {
    /// Creates a client of this endpoint.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn new(settings: EndpointSettings) -> Result<Self, EmbeddingError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            // A key must not be sent to another address.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(EmbeddingError::Http)?;
        Ok(Self { http, settings })
    }

    /// Returns the settings of the endpoint.
    pub fn settings(&self) -> &EndpointSettings {
        &self.settings
    }

    /// Returns one vector for each text, in order, all of one length.
    ///
    /// # Errors
    /// If the endpoint rejects the request or the response is invalid.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let mut vectors = Vec::with_capacity(texts.len());
        while vectors.len() < texts.len() {
            let batch = self.embed_batch(&texts[vectors.len()..]).await?;
            let refused = || EmbeddingError::InvalidResponse("the endpoint rejected a text".to_owned());
            match batch.vectors.into_iter().collect::<Option<Vec<_>>>() {
                Some(found) => vectors.extend(found),
                None => return Err(batch.refusal.unwrap_or_else(refused)),
            }
        }
        let length = vectors.first().map_or(0, Vec::len);
        match vectors.iter().find(|vector| vector.len() != length) {
            Some(other) => Err(EmbeddingError::Dimensions { expected: length, found: other.len() }),
            None => Ok(vectors),
        }
    }

    /// Returns vectors of as many of the first texts as fit into one request, as far as the
    /// endpoint accepts them.
    ///
    /// # Errors
    /// If the endpoint fails and not one of the texts.
    pub async fn embed_batch(&self, texts: &[String]) -> Result<Batch, EmbeddingError> {
        let mut batch = Batch::default();
        self.embed_into(texts, &mut batch).await?;
        Ok(batch)
    }

    /// Runs [`embed_batch`](Self::embed_batch) for callers with a timeout: results so far are in
    /// `batch`.
    pub(super) async fn embed_into(&self, texts: &[String], batch: &mut Batch) -> Result<(), EmbeddingError> {
        let texts: Vec<&str> = texts.iter().take(batch_len(texts)).map(|text| cut(text, MAX_TEXT)).collect();
        *batch = Batch { vectors: vec![None; texts.len()], ..Batch::default() };
        // Ranges that are still to be sent. A rejected range is sent in halves, so that neither a
        // bad text, nor one that is too long, nor a limit on their number affects the others.
        let mut ranges: Vec<Range<usize>> = iter::once(0..texts.len()).collect();
        let mut patience = 0;
        while let Some(range) = ranges.pop().filter(|range| !range.is_empty()) {
            match self.request(&texts[range.clone()]).await {
                Ok(found) => {
                    (batch.has_answered, patience) = (true, PATIENCE);
                    batch.vectors[range].iter_mut().zip(found).for_each(|(place, vector)| *place = Some(vector));
                }
                Err(error) if error.may_concern_text() => {
                    // An endpoint that rejects everything is not asked about each text.
                    if patience == 0 {
                        if self.request(&[PROBE]).await.is_err() {
                            return Err(error);
                        }
                        (batch.has_answered, patience) = (true, PATIENCE);
                    }
                    patience -= 1;
                    batch.refusal = Some(error);
                    if range.len() > 1 {
                        let middle = range.start + range.len() / 2;
                        ranges.extend([middle..range.end, range.start..middle]);
                    } else {
                        batch.vectors[range.start] = self.shortened(texts[range.start]).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Requests the length of its vectors.
    ///
    /// # Errors
    /// If the request fails.
    pub(super) async fn dimensions(&self) -> Result<usize, EmbeddingError> {
        Ok(self.request(&[PROBE]).await?.first().map_or(0, Vec::len))
    }

    /// Sends a rejected text again, shorter each time; `None` if it is never accepted.
    async fn shortened(&self, text: &str) -> Result<Option<Vec<f32>>, EmbeddingError> {
        for halving in 1..=HALVINGS {
            let shorter = cut(text, text.len() >> halving);
            if shorter.len() < SHORTEST {
                break;
            }
            match self.request(&[shorter]).await {
                Ok(vectors) => return Ok(vectors.into_iter().next()),
                Err(error) if error.may_concern_text() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Sends one request, and retries once if the endpoint is busy.
    async fn request(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let mut response = self.send(texts).await?;
        if let Some(pause) = pause(&response) {
            tokio::time::sleep(pause).await;
            response = self.send(texts).await?;
        }
        let status = response.status();
        if !status.is_success() {
            let body = self.body(response, MAX_REFUSAL * 8).await.unwrap_or_default();
            return Err(EmbeddingError::Refused { status: status.as_u16(), message: self.refusal(&body, texts) });
        }
        let body = self.body(response, FRAME + texts.len() * MAX_DIMENSIONS * NUMBER).await?;
        answer::read(&body, texts.len(), self.settings.dimensions)
    }

    async fn send(&self, texts: &[&str]) -> Result<Response, EmbeddingError> {
        let mut body = json!({"model": self.settings.model, "input": texts, "encoding_format": "float"});
        if let Some(dimensions) = self.settings.dimensions {
            body["dimensions"] = dimensions.into();
        }
        let mut request = self.http.post(self.settings.endpoint()).header("content-type", "application/json");
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key.expose());
        }
        request.body(body.to_string()).send().await.map_err(|error| self.broken(error))
    }

    async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, EmbeddingError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            if body.len() + chunk.len() > most {
                return Err(EmbeddingError::InvalidResponse(format!("over the limit of {most} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn broken(&self, error: reqwest::Error) -> EmbeddingError {
        if error.is_timeout() && !error.is_connect() {
            return EmbeddingError::Timeout(self.settings.timeout);
        }
        EmbeddingError::Unreachable(error.without_url())
    }

    /// Returns the message of an error response, without the key or the texts, which some endpoints
    /// repeat.
    fn refusal(&self, body: &[u8], texts: &[&str]) -> String {
        let Some(mut message) = refusal::message(body) else { return String::new() };
        if let Some(key) = self.settings.key.as_ref().map(|key| key.expose()).filter(|key| !key.is_empty()) {
            message = message.replace(key, HIDDEN);
        }
        for text in texts {
            message = refusal::without(&message, text);
            for prefix in [&self.settings.query_prefix, &self.settings.document_prefix] {
                let bare = text.strip_prefix(prefix.as_str()).filter(|_| !prefix.is_empty());
                message = bare.map_or(message.clone(), |bare| refusal::without(&message, bare));
            }
        }
        let message = brief(message.trim(), MAX_REFUSAL);
        if message.is_empty() { message } else { format!(": {message}") }
    }
}

/// Returns the delay before a retry, if a retry is useful.
fn pause(response: &Response) -> Option<Duration> {
    let status = response.status();
    if status.as_u16() != 429 && !status.is_server_error() {
        return None;
    }
    let Some(named) = response.headers().get(RETRY_AFTER) else { return Some(PAUSE) };
    let seconds: u64 = named.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|pause| *pause <= MAX_BACKOFF)
}

/// Returns how many of the first texts fit into one request.
fn batch_len(texts: &[String]) -> usize {
    let mut bytes = 0;
    let fits = |text: &&String| {
        bytes += text.len().min(MAX_TEXT);
        bytes <= BATCH_BYTES
    };
    texts.iter().take(BATCH).take_while(fits).count()
}

/// Returns the start of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests;
