//! The client of an endpoint.

use std::{iter, ops::Range, time::Duration};

use pegboard_core::{text::brief, vectors::MAX_DIMENSIONS};
use reqwest::{Response, header::RETRY_AFTER, redirect};
use serde_json::json;

use super::{
    EmbeddingError, EndpointSettings, answer,
    refusal::{self, HIDDEN},
};

/// Texts in one request. Some endpoints accept no more by default.
pub(super) const BATCH: usize = 32;

/// Bytes of the texts in one request.
const BATCH_BYTES: usize = 256 << 10;

/// So much of a text is sent; models look at little more than this.
pub(super) const MAX_TEXT: usize = 8 << 10;

/// How often a text that is refused is cut to half its length.
const HALVINGS: usize = 3;

/// It is not cut to less: nothing is too long then, and what is left would mean something else.
const SHORTEST: usize = 64;

/// A text that no endpoint has a reason to reject. An endpoint that accepts it and rejects another
/// text means that text.
const PROBE: &str = "tool";

/// So many requests may fail in a row before it is asked for the probe again.
const PATIENCE: usize = 16;

/// Bytes of an answer beside its numbers.
const FRAME: usize = 64 << 10;

/// Bytes of a number in an answer, with what is around it. A larger answer is refused.
const NUMBER: usize = 32;

/// The longest message of a refusal that is reported, in characters.
const MAX_REFUSAL: usize = 300;

/// How long to wait before a request is made again, unless the endpoint names a time.
const PAUSE: Duration = Duration::from_millis(250);

/// If the endpoint names a longer time than this, it is not waited for.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// An endpoint that turns texts into vectors.
#[derive(Debug)]
pub struct Embeddings {
    http: reqwest::Client,
    settings: EndpointSettings,
}

/// What became of the texts of one request.
#[derive(Debug, Default)]
pub struct Batch {
    /// One for each text; `None` for those that the endpoint does not take, however short they
    /// are made.
    pub vectors: Vec<Option<Vec<f32>>>,
    /// What it said last about one that it did not take as it was.
    pub refusal: Option<EmbeddingError>,
    /// Whether it has sent any vector, so that what it refused was about a text.
    pub(super) has_answered: bool,
}

impl Embeddings {
    /// A client of this endpoint.
    ///
    /// # Errors
    /// When HTTP cannot be set up.
    pub fn new(settings: EndpointSettings) -> Result<Self, EmbeddingError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            // A key goes to the address that it was made for.
            .redirect(redirect::Policy::none())
            .build()
            .map_err(EmbeddingError::Http)?;
        Ok(Self { http, settings })
    }

    /// How it is asked.
    pub fn settings(&self) -> &EndpointSettings {
        &self.settings
    }

    /// One vector for each text, in their order, all of one length.
    ///
    /// # Errors
    /// When the endpoint refuses or sends something else.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let mut vectors = Vec::with_capacity(texts.len());
        while vectors.len() < texts.len() {
            let batch = self.embed_batch(&texts[vectors.len()..]).await?;
            let refused = || EmbeddingError::Garbled("the endpoint rejected a text".to_owned());
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

    /// Vectors of as many of the first texts as go into one request, as far as the endpoint
    /// takes them.
    ///
    /// # Errors
    /// When it is the endpoint that fails and not one of the texts.
    pub async fn embed_batch(&self, texts: &[String]) -> Result<Batch, EmbeddingError> {
        let mut batch = Batch::default();
        self.embed_into(texts, &mut batch).await?;
        Ok(batch)
    }

    /// [`embed_batch`](Self::embed_batch) for those who may not wait for the end: what came
    /// until then is in `batch`.
    pub(super) async fn embed_into(&self, texts: &[String], batch: &mut Batch) -> Result<(), EmbeddingError> {
        let texts: Vec<&str> = texts.iter().take(batch_len(texts)).map(|text| cut(text, MAX_TEXT)).collect();
        *batch = Batch { vectors: vec![None; texts.len()], ..Batch::default() };
        // Ranges that are still to be sent. One that is refused is sent in halves, so that
        // neither a bad text, nor one that is too long, nor a limit on their number stops the
        // others.
        let mut ranges: Vec<Range<usize>> = iter::once(0..texts.len()).collect();
        let mut patience = 0;
        while let Some(range) = ranges.pop().filter(|range| !range.is_empty()) {
            match self.request(&texts[range.clone()]).await {
                Ok(found) => {
                    (batch.has_answered, patience) = (true, PATIENCE);
                    batch.vectors[range].iter_mut().zip(found).for_each(|(place, vector)| *place = Some(vector));
                }
                Err(error) if error.may_concern_text() => {
                    // An endpoint that refuses everything is not asked for each text.
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

    /// The length of its vectors.
    ///
    /// # Errors
    /// When it fails.
    pub(super) async fn dimensions(&self) -> Result<usize, EmbeddingError> {
        Ok(self.request(&[PROBE]).await?.first().map_or(0, Vec::len))
    }

    /// A text that was refused, shorter each time that it is refused again; `None` if it is not
    /// taken at all.
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

    /// One request, made again once if the endpoint is busy.
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
                return Err(EmbeddingError::Garbled(format!("over the limit of {most} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn broken(&self, error: reqwest::Error) -> EmbeddingError {
        if error.is_timeout() && !error.is_connect() {
            return EmbeddingError::Slow(self.settings.timeout);
        }
        EmbeddingError::Unreachable(error.without_url())
    }

    /// What a refusal says, for people. Some repeat the key that they do not know, or the texts.
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

/// How long to wait before the request is made again, if that is worth it.
fn pause(response: &Response) -> Option<Duration> {
    let status = response.status();
    if status.as_u16() != 429 && !status.is_server_error() {
        return None;
    }
    let Some(named) = response.headers().get(RETRY_AFTER) else { return Some(PAUSE) };
    let seconds: u64 = named.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|pause| *pause <= MAX_BACKOFF)
}

/// How many of the first texts go into one request.
fn batch_len(texts: &[String]) -> usize {
    let mut bytes = 0;
    let fits = |text: &&String| {
        bytes += text.len().min(MAX_TEXT);
        bytes <= BATCH_BYTES
    };
    texts.iter().take(BATCH).take_while(fits).count()
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests;
