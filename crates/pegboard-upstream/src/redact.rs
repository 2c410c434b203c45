//! Keeping secrets out of what is said about a server, and of what it says itself.

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, RwLock},
};

use crate::config::{Secret, ServerConfig, TransportConfig};

/// What stands in the place of a secret.
const HIDDEN: &str = "[hidden]";

/// Shorter values are words and numbers that stand everywhere.
const SHORTEST: usize = 6;

/// A line of a longer secret, such as a key in a file, counts by itself from here on.
const SHORTEST_LINE: usize = 16;

/// The values that a server is configured with and that nobody else is to see: its environment,
/// its headers, and what was filled in from variables and files.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    own: Arc<[String]>,
    shared: Shared,
}

/// Values that no server may tell: a program inherits our environment, and with it what is meant
/// for others.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<RwLock<Arc<[String]>>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.own.len())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} values)", self.values().len())
    }
}

impl Shared {
    /// Hides these from now on.
    pub(crate) fn add<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let more = secrets.into_iter().flat_map(forms);
        *values = in_order(values.iter().cloned().chain(more).collect()).into();
    }

    /// Hides what was filled in for a server, and what it is let in with. Not all of its
    /// environment: most of that is words that others may use.
    pub(crate) fn add_of(&self, config: &ServerConfig) {
        self.add(&config.secrets);
        if let TransportConfig::Http { url, headers, .. } = &config.transport {
            self.add(headers.iter().map(|(_, value)| value));
            self.add(&parts_of(url));
        }
    }

    fn values(&self) -> Arc<[String]> {
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
        let mut values: Vec<String> = config.secrets.iter().flat_map(forms).collect();
        match &config.transport {
            TransportConfig::Stdio { env, .. } => values.extend(env.iter().flat_map(|(_, value)| forms(value))),
            TransportConfig::Http { url, headers, .. } => {
                values.extend(headers.iter().flat_map(|(_, value)| forms(value)));
                values.extend(parts_of(url).iter().flat_map(forms));
            }
            TransportConfig::Local(_) => {}
        }
        Self { own: in_order(values).into(), shared }
    }

    /// Only what nobody may tell.
    pub(crate) fn default_with(shared: Shared) -> Self {
        Self { own: Arc::default(), shared }
    }

    /// `text` with nothing in their place, for who looks at its words.
    pub(crate) fn without(&self, mut text: String) -> String {
        for value in self.own.iter().chain(self.shared.values().iter()) {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), " ");
            }
        }
        text
    }

    /// `text` without them.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for value in self.own.iter().chain(self.shared.values().iter()) {
            if redacted.contains(value.as_str()) {
                redacted = Cow::Owned(redacted.replace(value.as_str(), HIDDEN));
            }
        }
        redacted
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

/// Those that are worth hiding, the longest first: one may be part of another.
fn in_order(mut values: Vec<String>) -> Vec<String> {
    values.retain(|value| value.trim().len() >= SHORTEST);
    values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    values.dedup();
    values
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HttpKind;

    fn secrets(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
    }

    #[test]
    fn a_program() {
        let env = secrets(&[("KEY", "s3cret-value"), ("MODE", "prod"), ("PEM", "---\nabcdefghijklmnopqrst\n---")]);
        let transport = TransportConfig::Stdio { command: "x".to_owned(), args: Vec::new(), env, cwd: None };
        let mut config = ServerConfig::new("s", transport);
        config.secrets = vec![Secret::new("s3cret-value-and-more")];
        let redactor = Redactor::of(&config);
        let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected, "{text}");
        check("nothing here in prod", "nothing here in prod");
        check("KEY=s3cret-value;s3cret-value", "KEY=[hidden];[hidden]");
        check("arg s3cret-value-and-more", "arg [hidden]");
        check("a line: abcdefghijklmnopqrst", "a line: [hidden]");
        assert_eq!(format!("{redactor:?}"), "Redactor(4 values)");
    }

    #[test]
    fn what_is_meant_for_others() {
        let shared = Shared::default();
        let config = |env: &[(&str, &str)], filled: &str| {
            let transport =
                TransportConfig::Stdio { command: "x".to_owned(), args: Vec::new(), env: secrets(env), cwd: None };
            ServerConfig { secrets: vec![Secret::new(filled)], ..ServerConfig::new("s", transport) }
        };
        let redactor = Redactor::with(&config(&[("MODE", "production")], "own-s3cret"), shared.clone());
        // Later on, as when a configuration changes.
        shared.add_of(&config(&[("LEVEL", "verbose")], "other-s3cret"));
        shared.add(&[Secret::new("client-s3cret")]);
        let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected, "{text}");
        check("own-s3cret other-s3cret client-s3cret", "[hidden] [hidden] [hidden]");
        check("production, verbose", "[hidden], verbose");
        assert_eq!(format!("{shared:?}"), "Shared(2 values)");
    }

    #[test]
    fn a_remote_server() {
        let url = "https://ada:pa55word@example.com/mcp?key=t%2Fo%2Fk%2Fe%2Fn&page=2".to_owned();
        let headers = secrets(&[("Authorization", "Bearer abcdef123")]);
        let transport = TransportConfig::Http { url, headers, kind: HttpKind::Auto };
        let redactor = Redactor::of(&ServerConfig::new("s", transport));
        let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected, "{text}");
        check("token abcdef123 is wrong", "token [hidden] is wrong");
        check("got Bearer abcdef123", "got [hidden]");
        check("t/o/k/e/n, t%2Fo%2Fk%2Fe%2Fn and pa55word on page 2", "[hidden], [hidden] and [hidden] on page 2");
    }
}
