//! Masking of secrets and of control characters in findings.

use pegboard_core::{Secret, text::excerpt};
use pegboard_upstream::{HIDDEN, SecretFilter, config::TransportConfig};

use super::{CheckedConfig, finding::Finding};
use crate::clients::{secrets, show::printable_line, variables};

/// Maximum number of characters of a text.
const LONGEST: usize = 400;

/// The secrets of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Mask(SecretFilter);

impl Mask {
    /// Collects all secrets: values given to servers, values of variables, and values that look
    /// like secrets. A server may print what it was started with.
    pub(super) fn of(checked_config: &CheckedConfig) -> Self {
        let mut hidden = Vec::new();
        for server in &checked_config.config.servers {
            let pairs: &[(String, Secret)] = match &server.transport {
                TransportConfig::Stdio { env, .. } => env,
                TransportConfig::Http { headers, .. } => headers,
                TransportConfig::Local(_) => &[],
            };
            hidden.extend(pairs.iter().map(|(_, value)| value.expose().to_owned()));
        }
        hidden.extend(checked_config.config.gateway.tokens.iter().map(|token| token.secret.expose().to_owned()));
        for (_, server) in &checked_config.written {
            hidden.extend(secrets::texts(server));
            let names = server.texts().into_iter().flat_map(variables::required_variables);
            hidden.extend(names.filter_map(|name| std::env::var(name).ok()));
        }
        Self::new(&hidden)
    }

    fn new(texts: &[String]) -> Self {
        // `Bearer x` is a secret because of `x`.
        let token = |text: &'_ String| text.split_once(' ').map(|(_, token)| token.trim().to_owned());
        let values = texts.iter().flat_map(|text| [Some(text.clone()), token(text)]).flatten();
        let is_path = |text: &str| text.starts_with(['/', '~', '.']) && text.contains('/');
        let hidden = values.filter(|value| !is_path(value));
        Self(SecretFilter::new(hidden.collect()))
    }

    /// Masks and sanitizes a finding.
    pub(super) fn clean(&self, finding: &mut Finding) {
        finding.texts().for_each(|text| *text = self.cleaned(text));
    }

    /// Returns a text of any length without secrets.
    pub(crate) fn hide(&self, text: &str, mark: &str) -> String {
        self.0.replace(text, mark).into_owned()
    }

    fn cleaned(&self, text: &str) -> String {
        printable_line(&excerpt(&self.0.replace(text, HIDDEN), LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_control_characters_are_gone() {
        let texts = ["Bearer s3cret-token", "s3cret-token-2", "true", "/usr/local/bin", "words are missing here"];
        let mask = Mask::new(&texts.map(str::to_owned));
        let check = |text: &str, expected: &str| assert_eq!(mask.cleaned(text), expected);
        check("it got s3cret-token-2, s3cret-token", "it got [hidden], [hidden]");
        check("true in /usr/local/bin", "true in /usr/local/bin");
        check("TOKEN=abc missing FOO_TOKEN", "TOKEN=abc missing FOO_TOKEN");
        check("a\u{1b}[31mred", "a�[31mred");
        assert_eq!(mask.cleaned(&"x".repeat(1000)).chars().count(), LONGEST);
    }
}
