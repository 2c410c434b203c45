//! The client of an endpoint.

use std::{
    iter,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use pegboard_core::text::brief;
use reqwest::{Response, header::RETRY_AFTER, redirect};
use serde_json::json;

use super::{EmbeddingError, EndpointSettings, answer};

/// Texts in one request. Some endpoints take no more unless they are told to.
const BATCH: usize = 32;

/// Bytes of the texts in one request.
const BATCH_BYTES: usize = 256 << 10;

/// So much of a text is sent; models look at little more than this.
pub(super) const MAX_TEXT: usize = 8 << 10;

/// How often a text that is refused is cut to half its length.
const HALVINGS: usize = 3;

/// A larger answer is refused.
const MAX_ANSWER: usize = 64 << 20;

/// So much of a refusal is told.
const MAX_REFUSAL: usize = 300;

/// How long to wait before a request is made again, unless the endpoint names a time.
const PAUSE: Duration = Duration::from_millis(250);

/// If the endpoint names a longer time than this, it is not waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An endpoint that turns texts into vectors.
#[derive(Debug)]
pub struct Embeddings {
    http: reqwest::Client,
    url: String,
    settings: EndpointSettings,
    /// Whether it has ever sent vectors. One that has, and refuses a text, means that text.
    has_answered: AtomicBool,
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
        Ok(Self { http, url: settings.endpoint(), settings, has_answered: AtomicBool::new(false) })
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
            for vector in self.embed_batch(&texts[vectors.len()..]).await? {
                vectors.push(vector.ok_or_else(|| EmbeddingError::Garbled("a text that it does not take".to_owned()))?);
            }
        }
        let length = vectors.first().map_or(0, Vec::len);
        match vectors.iter().find(|vector| vector.len() != length) {
            Some(other) => Err(EmbeddingError::Dimensions { expected: length, found: other.len() }),
            None => Ok(vectors),
        }
    }

    /// Vectors of as many of the first texts as go into one request; `None` for those that the
    /// endpoint does not take, however short they are made.
    ///
    /// # Errors
    /// When it fails, or takes none of them and has never taken any.
    pub async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Option<Vec<f32>>>, EmbeddingError> {
        let texts: Vec<&str> = texts.iter().take(batch_len(texts)).map(|text| cut(text, MAX_TEXT)).collect();
        let mut vectors = vec![None; texts.len()];
        // Ranges that are still to be sent. One that is refused is sent in halves, so that
        // neither a text that is too long nor a limit on their number stops the others.
        let mut ranges: Vec<Range<usize>> = iter::once(0..texts.len()).collect();
        let mut refusal = None;
        while let Some(range) = ranges.pop().filter(|range| !range.is_empty()) {
            let sent = if range.len() == 1 {
                self.shortened(texts[range.start]).await
            } else {
                self.request(&texts[range.clone()]).await
            };
            match sent {
                Ok(found) => vectors[range].iter_mut().zip(found).for_each(|(place, vector)| *place = Some(vector)),
                Err(error) if error.is_about_input() => {
                    let middle = range.start + range.len() / 2;
                    if range.len() > 1 {
                        ranges.extend([middle..range.end, range.start..middle]);
                    }
                    refusal = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match refusal {
            Some(error) if !self.has_answered.load(Ordering::Relaxed) => Err(error),
            _ => Ok(vectors),
        }
    }

    /// One text, shorter each time that it is refused.
    async fn shortened(&self, text: &str) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        let mut sent = self.request(&[text]).await;
        for halving in 1..=HALVINGS {
            let shorter = cut(text, text.len() >> halving);
            match sent {
                Err(error) if error.is_about_input() && !shorter.trim().is_empty() => {
                    sent = self.request(&[shorter]).await;
                }
                sent => return sent,
            }
        }
        sent
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
            return Err(EmbeddingError::Refused { status: status.as_u16(), message: self.refusal(&body) });
        }
        let body = self.body(response, MAX_ANSWER).await?;
        let vectors = answer::read(&body, texts.len(), self.settings.dimensions)?;
        self.has_answered.store(true, Ordering::Relaxed);
        Ok(vectors)
    }

    async fn send(&self, texts: &[&str]) -> Result<Response, EmbeddingError> {
        let mut body = json!({"model": self.settings.model, "input": texts, "encoding_format": "float"});
        if let Some(dimensions) = self.settings.dimensions {
            body["dimensions"] = dimensions.into();
        }
        let mut request = self.http.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key.expose());
        }
        request.body(body.to_string()).send().await.map_err(|error| self.broken(error))
    }

    async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, EmbeddingError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            if body.len() + chunk.len() > most {
                return Err(EmbeddingError::Garbled(format!("it is larger than {most} bytes")));
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

    /// What a refusal says, for people. Some repeat the key that they do not know.
    fn refusal(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let parsed: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let message = parsed.as_ref().and_then(|json| {
            let places = ["/error/message", "/error", "/message", "/detail"];
            places.iter().find_map(|place| json.pointer(place).and_then(serde_json::Value::as_str))
        });
        let mut message = message.unwrap_or(&text).to_owned();
        if let Some(key) = self.settings.key.as_ref().map(|key| key.expose()).filter(|key| !key.is_empty()) {
            message = message.replace(key, "[hidden]");
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
    Some(Duration::from_secs(seconds)).filter(|pause| *pause <= LONGEST_PAUSE)
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
