//! Short texts that clients keep for us: sealed, so that nobody else can read or change them.

use std::io;

use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    error::Unspecified,
};

use crate::key::Key;

/// Seals contents with authenticated encryption, under a key that is made for one purpose.
pub struct Sealer(LessSafeKey);

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer([hidden])")
    }
}

impl Sealer {
    /// The sealer of a purpose. What one sealer has sealed, no other one opens.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn new(key: &Key, purpose: &str) -> io::Result<Self> {
        let own = key.sign("sealer", [purpose.as_bytes()]);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &own).map_err(failed)?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals `content`. Only someone who names the same `owner` opens it.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn seal(&self, owner: &[u8], content: &[u8]) -> io::Result<Vec<u8>> {
        // Chosen at random: few enough are sealed with one key that none comes twice.
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let mut body = content.to_vec();
        let nonced = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(nonced, Aad::from(owner), &mut body).map_err(failed)?;
        Ok([&nonce[..], &body].concat())
    }

    /// Opens what was sealed for `owner`; `None` if it was not sealed here, or for another owner.
    pub fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut body = body.to_vec();
        let content = self.0.open_in_place(nonce, Aad::from(owner), &mut body).ok()?;
        Some(content.to_vec())
    }
}

/// `ring` does not say why.
fn failed(_: Unspecified) -> io::Error {
    io::Error::other("the content cannot be sealed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_opens_for_its_owner_alone() {
        let key = Key::random().expect("a key");
        let sealer = Sealer::new(&key, "tasks").expect("a sealer");
        let sealed = sealer.seal(b"ann", b"content").expect("sealed");
        assert_eq!(sealer.open(b"ann", &sealed).as_deref(), Some(&b"content"[..]));
        assert_eq!(
            Sealer::new(&key, "tasks").expect("a sealer").open(b"ann", &sealed).as_deref(),
            Some(&b"content"[..])
        );
        assert_eq!(sealer.open(b"bob", &sealed), None);
        assert_eq!(Sealer::new(&key, "other").expect("a sealer").open(b"ann", &sealed), None);
        let other = Key::random().expect("a key");
        assert_eq!(Sealer::new(&other, "tasks").expect("a sealer").open(b"ann", &sealed), None);
        assert_ne!(sealer.seal(b"ann", b"content").expect("sealed"), sealed);
        assert!(!sealed.windows(7).any(|part| part == b"content"));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(sealer.open(b"ann", &changed), None, "byte {at}");
            assert_eq!(sealer.open(b"ann", &sealed[..at]), None, "cut at {at}");
        }
    }
}
