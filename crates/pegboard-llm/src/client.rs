//! The HTTP client of a provider.

use std::{env, time::Duration};

use pegboard_core::{Secret, text::excerpt};
use pegboard_mcp::sse::SseReader;
use reqwest::{Response, StatusCode, header::HeaderMap};
use serde_json::Value;

use crate::{
    causes::with_causes,
    conversation::Conversation,
    model::Provider,
    page, refusal,
    rules::RuleError,
    wire::{Delta, Request, Retry, Turn, Wire, WireError},
};

/// The largest answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// The largest streamed answer, in bytes: events add to what they carry.
const MAX_STREAM: usize = 4 * MAX_ANSWER;

/// How much of a stream without events is kept to find out what it is.
const MAX_HEAD: usize = 4096;

/// The longest message of a refusal that is reported, in characters.
const MAX_REFUSAL: usize = 2000;

/// Timeouts and retries of requests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long to wait for the next data of the provider.
    pub timeout: Duration,
    /// How often a request is retried when the provider is overloaded or unreachable.
    pub max_retries: u32,
    /// The delay before the first retry; it doubles. A `retry-after` header takes precedence.
    pub initial_backoff: Duration,
    /// The longest delay, also of a `retry-after` header.
    pub max_backoff: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(300),
            max_retries: 4,
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(60),
        }
    }
}

/// The client cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No key was found.
    #[error("no API key for {provider}: `{variable}` is not set")]
    NoKey {
        /// The provider.
        provider: &'static str,
        /// The variable that would hold it.
        variable: &'static str,
    },
    /// A variable does not hold a URL.
    #[error("`{variable}` must begin with `http://` or `https://`")]
    BaseUrl {
        /// The variable.
        variable: &'static str,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create an HTTP client")]
    Http(#[source] reqwest::Error),
}

/// A request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The provider rejected the request.
    #[error("the provider answered with HTTP status {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The message of the provider.
        message: String,
    },
    /// The provider could not be reached.
    #[error("cannot reach the provider at {origin}")]
    Unreachable {
        /// The scheme, host and port that were tried.
        origin: String,
        /// The reason.
        source: reqwest::Error,
    },
    /// The provider sent no data for this long.
    #[error("no data from the provider for {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The answer is not a turn.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The answer is an HTML page.
    #[error("the provider answered with an HTML page (`{title}`), not with JSON; check the base URL")]
    Page {
        /// Its title.
        title: String,
    },
    /// The answer has no body.
    #[error("the provider answered with an empty body")]
    Empty,
    /// The answer is not valid.
    #[error("invalid response from the provider: {0}")]
    Invalid(String),
}

impl SendError {
    /// Whether the provider rejected the content of the request, so that only another request may
    /// be accepted.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 422, .. })
    }

    /// Whether it is a refusal with the cause that `about` recognises.
    fn is_about(&self, provider: Provider, about: fn(Provider, &str) -> bool) -> bool {
        matches!(self, Self::Refused { message, .. } if self.is_refusal() && about(provider, message))
    }

    /// Whether the same request may succeed later.
    fn is_retryable(&self, wire: Wire) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(status, 408 | 409 | 429 | 500..=599),
            Self::Unreachable { .. } | Self::Empty | Self::Wire(WireError::Incomplete) => true,
            Self::Wire(WireError::Reported { kind, .. }) => wire.format().is_overload(kind),
            _ => false,
        }
    }
}

/// The next turn of a conversation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The provider would refuse the request.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The request was sent and failed.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// The client of one provider.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    provider: Provider,
    base_url: String,
    key: Option<Secret>,
    headers: Vec<(String, Secret)>,
    settings: Settings,
}

impl Client {
    /// Creates a client of `provider` with this key.
    ///
    /// # Errors
    /// When the HTTP client cannot be created.
    pub fn new(provider: Provider, key: Secret) -> Result<Self, ClientError> {
        Self::with_key(provider, Some(key))
    }

    /// Creates a client without a key, for endpoints that need none.
    ///
    /// # Errors
    /// When the HTTP client cannot be created.
    pub fn without_key(provider: Provider) -> Result<Self, ClientError> {
        Self::with_key(provider, None)
    }

    fn with_key(provider: Provider, key: Option<Secret>) -> Result<Self, ClientError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(15)).tcp_nodelay(true);
        let http =
            http.user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION"))).build().map_err(ClientError::Http)?;
        let base_url = provider.base_url().to_owned();
        Ok(Self { http, provider, base_url, key, headers: Vec::new(), settings: Settings::default() })
    }

    /// Creates a client with key and base URL from the environment variables that
    /// [`Provider::variables`] names. An OpenAI-compatible endpoint at another base URL needs no
    /// key: a local model has none.
    ///
    /// # Errors
    /// When there is no key, or the base URL is not one.
    pub fn from_env(provider: Provider) -> Result<Self, ClientError> {
        Self::from_variables(provider, |name| env::var(name).ok())
    }

    fn from_variables(provider: Provider, value: impl Fn(&str) -> Option<String>) -> Result<Self, ClientError> {
        let variables = provider.variables();
        let set = |name: &&str| value(name).filter(|value| !value.is_empty());
        let base = variables.base_urls.iter().find_map(|name| Some((*name, set(name)?)));
        let is_url = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        if let Some((variable, _)) = base.as_ref().filter(|(_, url)| !is_url(url)) {
            return Err(ClientError::BaseUrl { variable });
        }
        let may_lack_key = provider.profile().is_key_optional && base.is_some();
        let key = variables.keys.iter().find_map(set).map(Secret::new);
        if key.is_none() && !may_lack_key {
            return Err(ClientError::NoKey { provider: provider.as_str(), variable: variables.keys[0] });
        }
        let client = Self::with_key(provider, key)?;
        Ok(match base {
            Some((variable, url)) => client.with_base_url((provider.profile().adapt_base_url)(variable, url)),
            None => client,
        })
    }

    /// Sets the base URL, for a compatible endpoint or a proxy.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into().trim_end_matches('/').to_owned();
        self
    }

    /// Adds a header to every request.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: Secret) -> Self {
        self.headers.push((name.into(), value));
        self
    }

    /// Sets timeouts and retries.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sends a request and waits for the whole answer.
    ///
    /// # Errors
    /// When the provider rejects the request, cannot be reached, or sends an invalid answer.
    pub async fn send(&self, request: &Request) -> Result<Turn, SendError> {
        self.send_with_retries(request, request.is_streamed, &mut |_| {}).await
    }

    /// Sends a request and passes every piece of the answer, and every retry, to `on_delta`. After
    /// text or thinking a failure is not retried; before it an incomplete stream is, so that the
    /// same [`Delta::Call`] may come twice. Only the calls of the returned turn may be executed.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn stream(&self, request: &Request, mut on_delta: impl FnMut(Delta) + Send) -> Result<Turn, SendError> {
        self.send_with_retries(request, true, &mut on_delta).await
    }

    async fn send_with_retries(
        &self,
        request: &Request,
        is_streamed: bool,
        on_delta: &mut (dyn FnMut(Delta) + Send + '_),
    ) -> Result<Turn, SendError> {
        let wire = self.provider.wire();
        let mut has_shown = false;
        let mut failures = 0;
        loop {
            let mut pass = |delta| {
                let is_shown = match &delta {
                    // Some endpoints begin with an empty piece.
                    Delta::Text(text) | Delta::Thinking(text) if text.is_empty() => return,
                    Delta::Text(_) | Delta::Thinking(_) => true,
                    Delta::Call(_) | Delta::Retry(_) => false,
                };
                has_shown |= is_shown;
                on_delta(delta);
            };
            match self.send_once(request, is_streamed, &mut pass).await {
                Err((error, asked))
                    if error.is_retryable(wire) && !has_shown && failures < self.settings.max_retries =>
                {
                    let pause = self.retry_delay(failures, asked);
                    tracing::debug!(provider = self.provider.as_str(), %error, retry_in = ?pause, "request retried");
                    failures += 1;
                    on_delta(Delta::Retry(Retry {
                        number: failures,
                        most: self.settings.max_retries,
                        delay: pause,
                        reason: with_causes(&error),
                    }));
                    tokio::time::sleep(pause).await;
                }
                other => return other.map_err(|(error, _)| error),
            }
        }
    }

    /// Sends the next request of a conversation and adds the turn to it. A request that the provider
    /// rejects because of cache breakpoints, thinking or the delivery is retried without these; a
    /// changed delivery is in [`Conversation::choice`]. If the retry fails as well, the conversation
    /// stays as it was, and the first error is returned.
    ///
    /// # Errors
    /// As [`send`](Self::send), and when the provider would refuse the request.
    pub async fn next_turn(
        &self,
        conversation: &mut Conversation,
        mut on_delta: Option<&mut (dyn FnMut(Delta) + Send)>,
    ) -> Result<Turn, TurnError> {
        let error = match self.attempt(conversation, &mut on_delta).await {
            Err(TurnError::Send(error)) if error.is_refusal() => error,
            other => return other,
        };
        let before = conversation.snapshot();
        if error.is_about(self.provider, refusal::is_about_cache) && conversation.disable_cache() {
            tracing::warn!(model = %conversation.model(), %error, "request retried without cache breakpoints");
            match self.attempt(conversation, &mut on_delta).await {
                Ok(turn) => return Ok(turn),
                Err(_) => conversation.restore(before),
            }
        }
        let before = conversation.snapshot();
        if error.is_about(self.provider, refusal::is_about_thinking) && conversation.omit_thinking() {
            tracing::warn!(model = %conversation.model(), %error, "request retried without thinking");
            match self.attempt(conversation, &mut on_delta).await {
                Ok(turn) => return Ok(turn),
                Err(_) => conversation.restore(before),
            }
        }
        let before = conversation.snapshot();
        // A model that may not support a delivery at all may reject it with any message.
        let may_be_delivery =
            conversation.choice().is_tentative || error.is_about(self.provider, refusal::is_about_delivery);
        if may_be_delivery && conversation.fall_back() {
            match self.attempt(conversation, &mut on_delta).await {
                Ok(turn) => return Ok(turn),
                Err(_) => conversation.restore(before),
            }
        }
        Err(error.into())
    }

    async fn attempt(
        &self,
        conversation: &mut Conversation,
        on_delta: &mut Option<&mut (dyn FnMut(Delta) + Send)>,
    ) -> Result<Turn, TurnError> {
        let request = conversation.request(on_delta.is_some())?;
        let turn = match on_delta {
            Some(on_delta) => self.stream(&request, &mut **on_delta).await?,
            None => self.send(&request).await?,
        };
        conversation.record_turn(&turn);
        Ok(turn)
    }

    fn retry_delay(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let own = self.settings.initial_backoff.saturating_mul(1 << failures.min(10));
        asked.unwrap_or(own).min(self.settings.max_backoff)
    }

    async fn send_once(
        &self,
        request: &Request,
        is_streamed: bool,
        on_delta: &mut (dyn FnMut(Delta) + Send + '_),
    ) -> Result<Turn, (SendError, Option<Duration>)> {
        let wire = self.provider.wire();
        let url = format!("{}{}", self.base_url, wire.path(&request.model, is_streamed));
        let mut post = self.http.post(url).header("content-type", "application/json").headers(self.headers());
        for (name, value) in &self.headers {
            post = post.header(name, value.expose());
        }
        let sent = post.body(wire.encode(request, is_streamed)).send();
        let response =
            self.with_timeout(sent).await.and_then(|sent| sent.map_err(unreachable)).map_err(|error| (error, None))?;
        let (status, asked) = (response.status(), retry_after(response.headers()));
        if !status.is_success() {
            return Err((self.refusal(status, response).await, asked));
        }
        let answer =
            if is_streamed { self.read_stream(wire, response, on_delta).await } else { self.read_json(response).await };
        answer.and_then(|answer| Ok(wire.read_turn(&answer)?)).map_err(|error| (error, asked))
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: String| {
            if let Ok(mut value) = reqwest::header::HeaderValue::try_from(value) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        };
        let key = self.key.as_ref().map(Secret::expose);
        self.provider.wire().format().headers(key).into_iter().for_each(|(name, value)| put(name, value));
        headers
    }

    async fn with_timeout<T>(&self, work: impl Future<Output = T>) -> Result<T, SendError> {
        tokio::time::timeout(self.settings.timeout, work).await.map_err(|_| SendError::TimedOut(self.settings.timeout))
    }

    async fn refusal(&self, status: StatusCode, response: Response) -> SendError {
        let body = self.read_text(response).await.unwrap_or_default();
        SendError::Refused { status: status.as_u16(), message: refusal_message(&body) }
    }

    async fn read_text(&self, mut response: Response) -> Result<String, SendError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.with_timeout(response.chunk()).await?.map_err(unreachable)? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(SendError::Invalid(format!("over the limit of {MAX_ANSWER} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        String::from_utf8(body).map_err(|_| SendError::Invalid("not UTF-8".to_owned()))
    }

    async fn read_json(&self, response: Response) -> Result<Value, SendError> {
        let body = self.read_text(response).await?;
        serde_json::from_str(&body).map_err(|error| not_json(&body, &error))
    }

    async fn read_stream(
        &self,
        wire: Wire,
        mut response: Response,
        on_delta: &mut (dyn FnMut(Delta) + Send + '_),
    ) -> Result<Value, SendError> {
        let mut collector = wire.format().collector();
        let mut reader = SseReader::new(MAX_ANSWER);
        let (mut total, mut head, mut has_events) = (0, Vec::new(), false);
        // A broken connection ends the answer; the collector knows whether it is complete.
        let is_broken = loop {
            let chunk = match self.with_timeout(response.chunk()).await? {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break false,
                Err(_) => break true,
            };
            total += chunk.len();
            if head.len() < MAX_HEAD {
                head.extend_from_slice(&chunk);
            }
            if total > MAX_STREAM {
                return Err(SendError::Invalid(format!("over the limit of {MAX_STREAM} bytes")));
            }
            let events = reader.push(&chunk).map_err(|error| SendError::Invalid(error.to_string()))?;
            for event in events.into_iter().filter(|event| !event.data.is_empty() && event.data != "[DONE]") {
                let Ok(data) = serde_json::from_str::<Value>(&event.data) else {
                    return Err(SendError::Invalid("an event is not JSON".to_owned()));
                };
                // Some endpoints name their events in the data alone.
                let kind = data.get("type").and_then(Value::as_str).unwrap_or(&event.kind).to_owned();
                has_events = true;
                collector.event(&kind, &data)?.into_iter().for_each(&mut *on_delta);
            }
        };
        if !has_events {
            let head = String::from_utf8_lossy(&head);
            if head.trim().is_empty() && !is_broken {
                return Err(SendError::Empty);
            }
            if let Some(title) = page::html_title(&head) {
                return Err(SendError::Page { title });
            }
        }
        Ok(collector.finish()?)
    }
}

/// Returns the error for an answer that is not JSON.
fn not_json(body: &str, error: &serde_json::Error) -> SendError {
    if body.trim().is_empty() {
        return SendError::Empty;
    }
    match page::html_title(body) {
        Some(title) => SendError::Page { title },
        None => SendError::Invalid(error.to_string()),
    }
}

/// Returns the message in the body of a refusal. Compatible endpoints use different fields.
fn refusal_message(body: &str) -> String {
    if body.trim().is_empty() {
        return "(empty body)".to_owned();
    }
    if let Some(title) = page::html_title(body) {
        return format!("an HTML page (`{title}`)");
    }
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let message = ["/error/message", "/error", "/message", "/detail"];
    let message = message.iter().find_map(|place| value.pointer(place)?.as_str()).unwrap_or(body);
    excerpt(message, MAX_REFUSAL).into_owned()
}

/// Returns the error without the path and query of the URL, which may hold a secret.
fn unreachable(error: reqwest::Error) -> SendError {
    let origin = error.url().map_or_else(|| "its address".to_owned(), |url| url.origin().ascii_serialization());
    SendError::Unreachable { origin, source: error.without_url() }
}

/// Returns the delay that the provider asks for.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Some(Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_from_variables() {
        let check = |provider: Provider, variables: &[(&str, &str)], expected: Result<(&str, bool), &str>| {
            let value = |name: &str| Some(variables.iter().find(|(key, _)| *key == name)?.1.to_owned());
            let client = Client::from_variables(provider, value);
            let found = client.map(|client| (client.base_url, client.key.is_some())).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(|(url, key)| (url.to_owned(), key)).map_err(str::to_owned), "{variables:?}");
        };
        check(Provider::OpenAi, &[("OPENAI_API_KEY", "k")], Ok(("https://api.openai.com/v1", true)));
        check(Provider::OpenAi, &[], Err("no API key for openai: `OPENAI_API_KEY` is not set"));
        let no_url = Err("`OPENAI_BASE_URL` must begin with `http://` or `https://`");
        check(Provider::OpenAi, &[("OPENAI_BASE_URL", "localhost:11434/v1")], no_url);
        check(Provider::OpenAi, &[("OPENAI_BASE_URL", "http://[::1]:11434/v1/")], Ok(("http://[::1]:11434/v1", false)));
        check(
            Provider::Anthropic,
            &[("ANTHROPIC_BASE_URL", "http://proxy")],
            Err("no API key for anthropic: `ANTHROPIC_API_KEY` is not set"),
        );
        let gemini = |name: &str, url: &str, expected: &str| {
            check(Provider::Gemini, &[("GOOGLE_API_KEY", "k"), (name, url)], Ok((expected, true)));
        };
        gemini("GEMINI_BASE_URL", "http://proxy/v1", "http://proxy/v1");
        gemini("GOOGLE_GEMINI_BASE_URL", "http://proxy/", "http://proxy/v1beta");
        gemini("GOOGLE_GEMINI_BASE_URL", "http://proxy/v1", "http://proxy/v1");
        let both = [("MINIMAX_API_KEY", "k"), ("MINIMAX_BASE_URL", "http://a"), ("MINIMAX_CHAT_BASE_URL", "http://b")];
        check(Provider::MiniMax, &both, Ok(("http://a", true)));
        check(Provider::MiniMaxChat, &both, Ok(("http://b", true)));
        check(Provider::MiniMaxChat, &both[..2], Ok(("https://api.minimax.io/v1", true)));
    }

    #[test]
    fn what_refusals_say() {
        let check = |body: &str, expected: &str| assert_eq!(refusal_message(body), expected, "{body}");
        check(r#"{"error": {"message": "no such model"}}"#, "no such model");
        check(r#"{"error": "model 'x' not found"}"#, "model 'x' not found");
        check(r#"{"object": "error", "message": "too long"}"#, "too long");
        check(r#"{"detail": "Not Found"}"#, "Not Found");
        check("upstream connect error", "upstream connect error");
        check(" ", "(empty body)");
        check("<html><title>502 Bad Gateway</title></html>", "an HTML page (`502 Bad Gateway`)");
    }
}
