//! Fingerprints of server configurations, which name the files of a server.

use std::fmt;

use pegboard_core::Secret;
use pegboard_mcp::era::Era;
use pegboard_state::{BYTES, Key};

use crate::{
    config::{HttpKind, ServerConfig, TransportConfig},
    redact::Redactor,
};

/// A keyed hash of how a configuration reaches a server. Another configuration has another
/// fingerprint, and a fingerprint reveals nothing about the configuration; see [`Key`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; BYTES]);

impl Fingerprint {
    /// Returns the fingerprint of a configuration. Names, descriptions and limits are not part of
    /// it, because they do not change the lists of the server.
    pub(crate) fn of(config: &ServerConfig, key: &Key) -> Option<Self> {
        let mut parts: Vec<&[u8]> = Vec::new();
        let folder;
        match &config.transport {
            TransportConfig::Stdio { command, args, env, cwd } => {
                folder = cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes().to_vec());
                parts.extend([b"stdio".as_slice(), command.as_bytes(), b"args"]);
                parts.extend(args.iter().map(String::as_bytes));
                parts.push(b"env");
                add_pairs(&mut parts, env);
                parts.push(b"cwd");
                parts.extend(folder.as_deref());
            }
            TransportConfig::Http { url, headers, kind } => {
                let kind: &[u8] = match kind {
                    HttpKind::Auto => b"auto",
                    HttpKind::Streamable => b"streamable",
                    HttpKind::Sse => b"sse",
                };
                parts.extend([b"http".as_slice(), url.as_bytes(), kind]);
                add_pairs(&mut parts, headers);
            }
            TransportConfig::Local(_) => return None,
        }
        parts.push(match config.era {
            None => b"any",
            Some(Era::Legacy) => b"legacy",
            Some(Era::Modern) => b"modern",
        });
        Some(Self(key.sign("fingerprint", parts)))
    }

    /// Returns the fingerprint of the identity of a server: its name, and its program with the
    /// arguments or its URL. Credentials are not part of it: with another token it is the same
    /// server.
    pub(crate) fn of_identity(config: &ServerConfig, key: &Key) -> Self {
        Self(key.sign("identity", identity_parts(config).iter().map(Vec::as_slice)))
    }

    /// Returns the fingerprint of a server's program with its arguments, or of its URL, independent
    /// of its name.
    pub(crate) fn of_location(config: &ServerConfig, key: &Key) -> Self {
        Self(key.sign("place", identity_parts(config).iter().skip(1).map(Vec::as_slice)))
    }

    /// Returns the bytes of the fingerprint.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether a text has the form of a fingerprint.
    pub(crate) fn is_valid(text: &str) -> bool {
        text.len() == 2 * BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }
}

/// Returns the name of a server, followed by its program with the arguments or its URL.
fn identity_parts(config: &ServerConfig) -> Vec<Vec<u8>> {
    // Only substituted values are hidden, not the whole environment: a word that also occurs
    // there must not change the identity of the server.
    let plain = match &config.transport {
        TransportConfig::Stdio { command, args, cwd, .. } => {
            TransportConfig::Stdio { command: command.clone(), args: args.clone(), env: Vec::new(), cwd: cwd.clone() }
        }
        other => other.clone(),
    };
    let redactor = Redactor::of(&ServerConfig { transport: plain, plain_secrets: Vec::new(), ..config.clone() });
    let hidden = |text: &str| redactor.redact_literally(text).into_bytes();
    let mut parts: Vec<Vec<u8>> = vec![hidden(&config.name)];
    match &config.transport {
        TransportConfig::Stdio { command, args, cwd, .. } => {
            parts.extend([b"stdio".to_vec(), hidden(command)]);
            parts.extend(args.iter().map(|arg| hidden(arg)));
            parts.push(b"cwd".to_vec());
            parts.extend(cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes().to_vec()));
        }
        TransportConfig::Http { url, .. } => parts.extend([b"http".to_vec(), hidden(url)]),
        // Local servers with different names are different servers.
        TransportConfig::Local(_) => parts.extend([b"local".to_vec(), hidden(&config.name)]),
    }
    parts
}

/// Adds pairs in the order of their names, so that their order in the file does not matter.
fn add_pairs<'a>(parts: &mut Vec<&'a [u8]>, pairs: &'a [(String, Secret)]) {
    let mut pairs: Vec<&(String, Secret)> = pairs.iter().collect();
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, value) in pairs {
        parts.extend([name.as_bytes(), value.expose().as_bytes()]);
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}
