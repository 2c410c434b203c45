//! Access to the control API where no tokens are configured.
//!
//! Every program and every web page of this machine reaches a loopback address, and so does every
//! user. Without tokens, requests over TCP therefore carry a credential of this start of the
//! gateway: the secret that is written to a file of its owner, or one that the console got for a
//! single-use code.

use std::{
    fmt,
    sync::Mutex,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use pegboard_core::Secret;

use crate::lock;

/// How long a code can be exchanged.
pub(super) const CODE_LIFETIME: Duration = Duration::from_secs(3600);

/// How long a credential of a console is valid.
pub(super) const CREDENTIAL_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of codes that wait to be exchanged; the oldest make room.
const MAX_CODES: usize = 16;

/// Maximum number of credentials of consoles; the oldest make room.
const MAX_CREDENTIALS: usize = 64;

/// The system has no randomness, so that there can be no secret.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random numbers for a secret")]
pub struct NoRandomness(#[source] getrandom::Error);

/// The credentials of one start of a gateway.
pub struct ControlAccess {
    secret: Secret,
    /// A secret that the owner has chosen.
    chosen: Option<Secret>,
    codes: Mutex<Expiring>,
    credentials: Mutex<Expiring>,
}

impl fmt::Debug for ControlAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlAccess").finish_non_exhaustive()
    }
}

impl ControlAccess {
    /// Creates the secret of this start.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new() -> Result<Self, NoRandomness> {
        let secret = Secret::new(random::<32>()?);
        let codes = Mutex::new(Expiring::new(MAX_CODES, CODE_LIFETIME));
        Ok(Self {
            secret,
            chosen: None,
            codes,
            credentials: Mutex::new(Expiring::new(MAX_CREDENTIALS, CREDENTIAL_LIFETIME)),
        })
    }

    /// Accepts another secret as well, which the owner has chosen.
    #[must_use]
    pub fn accepting(mut self, chosen: Option<Secret>) -> Self {
        self.chosen = chosen;
        self
    }

    /// Returns the secret for the file of the owner.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Creates a code that can be exchanged once.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new_code(&self) -> Result<String, NoRandomness> {
        // Short enough to be copied; it is valid once, and not for long.
        let code = random::<16>()?;
        lock(&self.codes).add(code.clone(), Instant::now());
        Ok(code)
    }

    /// Exchanges a code for a credential; `None` if there is no such code any more.
    ///
    /// # Errors
    /// When the system has no randomness; the code is spent nevertheless.
    pub(super) fn exchange(&self, code: &str) -> Result<Option<String>, NoRandomness> {
        let now = Instant::now();
        if !lock(&self.codes).take(code, now) {
            return Ok(None);
        }
        let credential = random::<32>()?;
        lock(&self.credentials).add(credential.clone(), now);
        Ok(Some(credential))
    }

    /// Returns whether a text is the secret or a credential.
    pub(super) fn accepts(&self, given: &str) -> bool {
        self.is_secret(given) || lock(&self.credentials).has(given, Instant::now())
    }

    /// Returns whether a text is the secret of the owner's file, or the one that the owner has chosen.
    pub(super) fn is_secret(&self, given: &str) -> bool {
        let is_chosen = self.chosen.as_ref().is_some_and(|chosen| is_same(chosen.expose(), given));
        is_same(self.secret.expose(), given) | is_chosen
    }

    /// Forgets a credential; `false` if there is none.
    pub(super) fn forget(&self, credential: &str) -> bool {
        lock(&self.credentials).take(credential, Instant::now())
    }
}

/// Texts that are valid for some time, oldest first.
struct Expiring {
    texts: Vec<(String, Instant)>,
    most: usize,
    lifetime: Duration,
}

impl Expiring {
    fn new(most: usize, lifetime: Duration) -> Self {
        Self { texts: Vec::new(), most, lifetime }
    }

    fn expire(&mut self, now: Instant) {
        self.texts.retain(|(_, since)| now.saturating_duration_since(*since) < self.lifetime);
    }

    fn add(&mut self, text: String, now: Instant) {
        self.expire(now);
        if self.texts.len() >= self.most {
            self.texts.remove(0);
        }
        self.texts.push((text, now));
    }

    fn has(&mut self, text: &str, now: Instant) -> bool {
        self.expire(now);
        // All are compared, so that the time says nothing about the place.
        self.texts.iter().fold(false, |found, (one, _)| found | is_same(one, text))
    }

    fn take(&mut self, text: &str, now: Instant) -> bool {
        let is_there = self.has(text, now);
        self.texts.retain(|(one, _)| !is_same(one, text));
        is_there
    }
}

/// Compares two texts in constant time.
fn is_same(a: &str, b: &str) -> bool {
    let different = a.bytes().zip(b.bytes()).fold(0, |different, (a, b)| different | (a ^ b));
    a.len() == b.len() && different == 0
}

/// Returns so many random bytes as text.
fn random<const BYTES: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_exchanged_once() {
        let access = ControlAccess::new().expect("randomness");
        let code = access.new_code().expect("randomness");
        assert!(!access.accepts(&code) && access.exchange("wrong").expect("randomness").is_none());
        let credential = access.exchange(&code).expect("randomness").expect("a credential");
        assert!(access.accepts(&credential) && !access.is_secret(&credential));
        assert!(access.exchange(&code).expect("randomness").is_none());
        assert!(access.accepts(access.secret().expose()) && !access.accepts(""));
        assert!(access.forget(&credential) && !access.accepts(&credential) && !access.forget(&credential));
        let access = access.accepting(Some(Secret::new("a secret of the owner")));
        assert!(access.is_secret("a secret of the owner") && !access.accepts("a secret of another"));
        assert!(!format!("{access:?}").contains(access.secret().expose()));
    }

    #[test]
    fn texts_expire_and_the_oldest_make_room() {
        let mut texts = Expiring::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        texts.add("a".to_owned(), at(0));
        texts.add("b".to_owned(), at(5));
        assert!(texts.has("a", at(9)) && !texts.has("a", at(10)) && texts.has("b", at(10)));
        texts.add("c".to_owned(), at(10));
        texts.add("d".to_owned(), at(11));
        assert_eq!(["b", "c", "d"].map(|text| texts.has(text, at(12))), [false, true, true]);
        assert!(texts.take("c", at(12)) && !texts.take("c", at(12)));
    }
}
