//! Redaction of secrets in messages about a server and in its own output.

mod encodings;
mod filter;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

pub use self::filter::SecretFilter;
use pegboard_core::Secret;

use self::filter::replace_ranges;
use crate::config::{ServerConfig, TransportConfig};

/// The text that replaces a secret.
pub const HIDDEN: &str = "[hidden]";

/// Minimum length of a line of a longer secret, such as a key file, that is also hidden alone.
const SHORTEST_LINE: usize = 16;

/// Replaces the secrets of a server in texts: its environment, its headers, values that were
/// substituted from variables and files, and parts of its command line that look like secrets.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    own: Arc<SecretFilter>,
    shared: SharedSecrets,
}

/// Secrets that are hidden in the output of every server: a program that inherits variables of
/// this process may get secrets of other servers.
#[derive(Clone, Default)]
pub(crate) struct SharedSecrets(Arc<RwLock<Arc<SecretFilter>>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.own.values().len())
    }
}

impl std::fmt::Debug for SharedSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedSecrets({} values)", self.filter().values().len())
    }
}

impl SharedSecrets {
    /// Adds secrets to hide.
    pub(crate) fn add<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        let mut filter = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = filter.values().len();
        let all = filter.values().iter().cloned().chain(secrets.into_iter().flat_map(texts_to_hide));
        let more = SecretFilter::new(all.collect());
        if more.values().len() != known {
            *filter = Arc::new(more);
        }
    }

    /// Adds the substituted values and the credentials of a server. Its whole environment is not
    /// added, because most of it is common words.
    pub(crate) fn add_server(&self, config: &ServerConfig) {
        self.add(config.secrets.iter().chain(&config.plain_secrets));
        if let TransportConfig::Http { url, headers, .. } = &config.transport {
            self.add(headers.iter().map(|(_, value)| value));
            self.add(&url_secrets(url));
        }
    }

    fn filter(&self) -> Arc<SecretFilter> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Redactor {
    /// Creates a redactor of this server's secrets.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        Self::with_shared(config, SharedSecrets::default())
    }

    /// Creates a redactor of this server's secrets and of the shared ones.
    pub(crate) fn with_shared(config: &ServerConfig, shared: SharedSecrets) -> Self {
        let secrets = config.secrets.iter().chain(&config.plain_secrets);
        let mut values: Vec<String> = secrets.flat_map(texts_to_hide).collect();
        match &config.transport {
            TransportConfig::Stdio { env, .. } => values.extend(env.iter().flat_map(|(_, value)| texts_to_hide(value))),
            TransportConfig::Http { url, headers, .. } => {
                values.extend(headers.iter().flat_map(|(_, value)| texts_to_hide(value)));
                values.extend(url_secrets(url).iter().flat_map(texts_to_hide));
            }
            TransportConfig::Local(_) => {}
        }
        Self { own: Arc::new(SecretFilter::new(values)), shared }
    }

    /// Creates a redactor of the shared secrets only.
    pub(crate) fn only_shared(shared: SharedSecrets) -> Self {
        Self { own: Arc::default(), shared }
    }

    /// Replaces each secret in `text` by a space, for the analysis of its words.
    pub(crate) fn blank_out(&self, text: String) -> String {
        match self.replace_all(&text, " ") {
            Cow::Borrowed(_) => text,
            Cow::Owned(replaced) => replaced,
        }
    }

    /// Replaces each secret in `text`, also in encoded forms, by [`HIDDEN`].
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replace_all(text, HIDDEN)
    }

    /// Replaces the server's own secrets in `text` as they are written, not in encoded forms. Values
    /// that are derived from the result stay the same when more encoded forms are supported.
    pub(crate) fn redact_literally(&self, text: &str) -> String {
        let hide = |text: String, value: &String| text.replace(value.as_str(), HIDDEN);
        self.own.values().iter().fold(text.to_owned(), hide)
    }

    fn replace_all<'a>(&self, text: &'a str, mark: &str) -> Cow<'a, str> {
        let mut found = Vec::new();
        self.own.find(text, &mut found);
        self.shared.filter().find(text, &mut found);
        replace_ranges(text, found, mark)
    }

    /// Redacts an owned text; see [`redact`](Self::redact).
    pub(crate) fn redact_owned(&self, text: String) -> String {
        match self.redact(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => redacted,
        }
    }
}

/// Returns the texts to hide for a secret: the whole, its lines, and the token without its
/// scheme.
fn texts_to_hide(secret: &Secret) -> Vec<String> {
    let value = secret.expose();
    let lines = value.lines().filter(|line| line.len() >= SHORTEST_LINE);
    let token = value.split_once(' ').map(|(_, token)| token.trim());
    [value].into_iter().chain(lines).chain(token).map(str::to_owned).collect()
}

/// Returns the secret parts of a URL: the password, and the values of its query.
fn url_secrets(url: &str) -> Vec<Secret> {
    let Ok(url) = reqwest::Url::parse(url) else { return Vec::new() };
    let written = url.query().into_iter().flat_map(|query| query.split('&'));
    let written = written.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned());
    let meant = url.query_pairs().map(|(_, value)| value.into_owned());
    let password = url.password().map(str::to_owned);
    written.chain(meant).chain(password).map(Secret::new).collect()
}
