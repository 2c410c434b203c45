//! The settings of an embeddings endpoint.

use std::{fmt, time::Duration};

use pegboard_core::Secret;

/// The address, model and timeouts of an endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The base URL, as in `https://api.openai.com/v1`; `/embeddings` is appended.
    pub url: String,
    /// The model.
    pub model: String,
    /// The key in `Authorization: Bearer …`.
    pub key: Option<Secret>,
    /// The requested length of vectors, for models with a choice.
    pub dimensions: Option<usize>,
    /// Timeout of a request for vectors of tools.
    pub timeout: Duration,
    /// Timeout for the vectors of a query, in total.
    pub query_timeout: Duration,
    /// Timeout of a connection.
    pub connect_timeout: Duration,
    /// The prefix of queries that some models need, such as `query: `.
    pub query_prefix: String,
    /// The prefix of searched texts that some models need, such as `passage: `.
    pub document_prefix: String,
}

impl EndpointSettings {
    /// Creates settings with the default timeouts, without a key and without prefixes.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            model: model.into(),
            key: None,
            dimensions: None,
            timeout: Duration::from_secs(60),
            query_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            query_prefix: String::new(),
            document_prefix: String::new(),
        }
    }

    /// Returns the URL of requests. Users write the base URL with and without its last part.
    pub(super) fn endpoint(&self) -> String {
        let (base, query) = self.url.find(['?', '#']).map_or((self.url.as_str(), ""), |at| self.url.split_at(at));
        let base = base.trim_end_matches('/');
        let last = if base.ends_with("/embeddings") { "" } else { "/embeddings" };
        format!("{base}{last}{query}")
    }

    /// Returns the URL for messages: without user name, password and query, which may be secret.
    pub(super) fn redacted_url(&self) -> String {
        let endpoint = self.endpoint();
        let Some((scheme, rest)) = endpoint.split_once("://") else { return "…".to_owned() };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}/{path}")
    }
}

impl fmt::Debug for EndpointSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EndpointSettings");
        shown.field("url", &self.redacted_url()).field("model", &self.model).field("dimensions", &self.dimensions);
        shown.field("timeout", &self.timeout).field("query_timeout", &self.query_timeout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embeddings::Embeddings;

    #[test]
    fn addresses() {
        let check = |url: &str, endpoint: &str, shown: &str| {
            let settings = EndpointSettings::new(url, "m");
            assert_eq!((settings.endpoint().as_str(), settings.redacted_url().as_str()), (endpoint, shown));
        };
        check("http://h/v1", "http://h/v1/embeddings", "http://h/v1/embeddings");
        check("http://h:1/v1/embeddings/", "http://h:1/v1/embeddings", "http://h:1/v1/embeddings");
        check("http://me:secret@h/v1", "http://me:secret@h/v1/embeddings", "http://h/v1/embeddings");
        check("http://h?key=secret/v1", "http://h/embeddings?key=secret/v1", "http://h/embeddings");
        let azure = "https://h/openai/deployments/d";
        check(
            &format!("{azure}/?api-version=2024-10-21"),
            &format!("{azure}/embeddings?api-version=2024-10-21"),
            &format!("{azure}/embeddings"),
        );
        check("https://h/v1/embeddings?v=1", "https://h/v1/embeddings?v=1", "https://h/v1/embeddings");
    }

    #[test]
    fn secrets_are_not_shown() {
        let settings = EndpointSettings::new("http://me:hunter2@h/v1?key=hunter2", "m");
        let settings = EndpointSettings { key: Some(Secret::new("hunter2")), ..settings };
        let client = Embeddings::new(settings).expect("a client");
        assert!(!format!("{client:?}").contains("hunter2"), "{client:?}");
    }
}
