//! Redaction: keeping secrets out of what is said about a server, and of what it says itself.

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

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// A line of a longer secret, such as a key in a file, counts by itself from here on.
const SHORTEST_LINE: usize = 16;

/// The values that a server is configured with and that nobody else is to see: its environment,
/// its headers, what was filled in from variables and files, and what looks like a secret in its
/// command line.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    own: Arc<SecretFilter>,
    shared: Shared,
}

/// Values that are hidden in the output of every server: a program that inherits variables of
/// this process may have secrets of other servers among them.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<RwLock<Arc<SecretFilter>>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.own.values().len())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} values)", self.filter().values().len())
    }
}

impl Shared {
    /// Hides these from now on.
    pub(crate) fn add<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        let mut filter = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = filter.values().len();
        let all = filter.values().iter().cloned().chain(secrets.into_iter().flat_map(forms));
        let more = SecretFilter::new(all.collect());
        if more.values().len() != known {
            *filter = Arc::new(more);
        }
    }

    /// Hides what was filled in for a server, and what it is let in with. Not all of its
    /// environment: most of that is words that others may use.
    pub(crate) fn add_of(&self, config: &ServerConfig) {
        self.add(config.secrets.iter().chain(&config.plain_secrets));
        if let TransportConfig::Http { url, headers, .. } = &config.transport {
            self.add(headers.iter().map(|(_, value)| value));
            self.add(&parts_of(url));
        }
    }

    fn filter(&self) -> Arc<SecretFilter> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Redactor {
    /// What is to be hidden of this server.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        Self::with(config, Shared::default())
    }

    /// The same, and what nobody may tell.
    pub(crate) fn with(config: &ServerConfig, shared: Shared) -> Self {
        let secrets = config.secrets.iter().chain(&config.plain_secrets);
        let mut values: Vec<String> = secrets.flat_map(forms).collect();
        match &config.transport {
            TransportConfig::Stdio { env, .. } => values.extend(env.iter().flat_map(|(_, value)| forms(value))),
            TransportConfig::Http { url, headers, .. } => {
                values.extend(headers.iter().flat_map(|(_, value)| forms(value)));
                values.extend(parts_of(url).iter().flat_map(forms));
            }
            TransportConfig::Local(_) => {}
        }
        Self { own: Arc::new(SecretFilter::new(values)), shared }
    }

    /// Only what nobody may tell.
    pub(crate) fn default_with(shared: Shared) -> Self {
        Self { own: Arc::default(), shared }
    }

    /// `text` with a space in the place of each secret, for the analysis of its words.
    pub(crate) fn without(&self, text: String) -> String {
        match self.replaced(&text, " ") {
            Cow::Borrowed(_) => text,
            Cow::Owned(replaced) => replaced,
        }
    }

    /// `text` with a mark in the place of each secret, in whatever form it appears.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.replaced(text, HIDDEN)
    }

    /// `text` without its own secrets as they are written, and not in other forms. What is
    /// derived from it stays the same when more forms become known.
    pub(crate) fn redact_literally(&self, text: &str) -> String {
        let hide = |text: String, value: &String| text.replace(value.as_str(), HIDDEN);
        self.own.values().iter().fold(text.to_owned(), hide)
    }

    fn replaced<'a>(&self, text: &'a str, mark: &str) -> Cow<'a, str> {
        let mut found = Vec::new();
        self.own.find(text, &mut found);
        self.shared.filter().find(text, &mut found);
        replace_ranges(text, found, mark)
    }

    /// [`redact`](Self::redact) for who owns the text.
    pub(crate) fn redacted(&self, text: String) -> String {
        match self.redact(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => redacted,
        }
    }
}

/// What a secret looks like where it is told: whole, by its lines, and as a token without the
/// scheme in front of it.
fn forms(secret: &Secret) -> Vec<String> {
    let value = secret.expose();
    let lines = value.lines().filter(|line| line.len() >= SHORTEST_LINE);
    let token = value.split_once(' ').map(|(_, token)| token.trim());
    [value].into_iter().chain(lines).chain(token).map(str::to_owned).collect()
}

/// The parts of an address that let somebody in: the password, and the values of its query.
fn parts_of(url: &str) -> Vec<Secret> {
    let Ok(url) = reqwest::Url::parse(url) else { return Vec::new() };
    let written = url.query().into_iter().flat_map(|query| query.split('&'));
    let written = written.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned());
    let meant = url.query_pairs().map(|(_, value)| value.into_owned());
    let password = url.password().map(str::to_owned);
    written.chain(meant).chain(password).map(Secret::new).collect()
}
