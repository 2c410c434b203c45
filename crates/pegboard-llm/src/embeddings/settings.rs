//! Which endpoint, which model, and how long to wait for it.

use std::time::Duration;

use pegboard_upstream::config::Secret;

/// An endpoint and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Where it is, as in `https://api.openai.com/v1`; `/embeddings` is put behind it.
    pub url: String,
    /// The model to ask for.
    pub model: String,
    /// What is sent as `Authorization: Bearer …`.
    pub key: Option<Secret>,
    /// How long vectors are to be, where the model leaves a choice.
    pub dimensions: Option<usize>,
    /// How long a request for vectors of tools may take.
    pub timeout: Duration,
    /// How long a search waits for the vector of its query, in all.
    pub query_timeout: Duration,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// What some models want in front of a query, such as `query: `.
    pub query_prefix: String,
    /// What they want in front of a text that is searched, such as `passage: `.
    pub document_prefix: String,
}

impl EndpointSettings {
    /// An endpoint with the usual times, without a key and without prefixes.
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

    /// The address that is asked. People write it with and without its last part.
    pub(super) fn endpoint(&self) -> String {
        let base = self.url.trim_end_matches('/');
        if base.ends_with("/embeddings") { base.to_owned() } else { format!("{base}/embeddings") }
    }

    /// The address for people: without a name, a password or a query, which may be secret.
    pub(super) fn shown(&self) -> String {
        let endpoint = self.endpoint();
        let Some((scheme, rest)) = endpoint.split_once("://") else { return endpoint };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}/{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |url: &str, endpoint: &str, shown: &str| {
            let settings = EndpointSettings::new(url, "m");
            assert_eq!((settings.endpoint().as_str(), settings.shown().as_str()), (endpoint, shown));
        };
        check("http://h/v1", "http://h/v1/embeddings", "http://h/v1/embeddings");
        check("http://h:1/v1/embeddings/", "http://h:1/v1/embeddings", "http://h:1/v1/embeddings");
        check("http://me:secret@h/v1", "http://me:secret@h/v1/embeddings", "http://h/v1/embeddings");
        check("http://h?key=secret/v1", "http://h?key=secret/v1/embeddings", "http://h/");
    }
}
