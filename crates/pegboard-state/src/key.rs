//! The secret of an installation, and what is made with it.

use std::io;

use rustls::crypto::{
    hash::Hash,
    ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    tls13::{Hkdf, OkmBlock},
};

use super::folder::Folder;

/// The file of the key.
const FILE: &str = "key";

/// Bytes of a key, and of everything that is made with it.
pub(crate) const BYTES: usize = 32;

/// Random bytes that an installation keeps for itself.
///
/// A configuration holds tokens and passwords, and its fingerprint is the name of a file. A
/// plain hash of them could be tried out by whoever sees that name: most of a configuration
/// is well known, and many passwords are short. With a key that only the owner can read,
/// there is nothing to try out; a backup or a listing of the folder without it says nothing.
/// The same key seals the content, so that a file that was not written here is not believed.
pub(crate) struct Key([u8; BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key([hidden])")
    }
}

impl Key {
    /// The key of a folder; a new one where there is none, or none that can be one.
    pub(crate) fn of(folder: &Folder) -> io::Result<Self> {
        match read(folder)? {
            Some(key) => Ok(key),
            None => {
                let mut bytes = [0; BYTES];
                getrandom::fill(&mut bytes).map_err(io::Error::other)?;
                // Another program may have been first; then its key counts.
                if !folder.add(FILE, &bytes)? && read(folder)?.is_none() {
                    folder.replace(FILE, &bytes)?;
                }
                read(folder)?.ok_or_else(|| io::Error::other("cannot save the key"))
            }
        }
    }

    /// Whether a folder has a key.
    pub(crate) fn is_in(folder: &Folder) -> io::Result<bool> {
        Ok(read(folder)?.is_some())
    }

    /// The same one for everybody, which protects nothing.
    #[cfg(fuzzing)]
    pub(crate) fn always() -> Self {
        Self([7; BYTES])
    }

    /// HMAC-SHA-256 of the parts. Each is preceded by its length, so that no two lists of
    /// parts are the same bytes; `purpose` keeps apart what is made for different ends.
    pub(crate) fn sign<'a>(&self, purpose: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; BYTES] {
        let mut message = Vec::new();
        for part in [purpose.as_bytes()].into_iter().chain(parts) {
            message.extend_from_slice(&(part.len() as u64).to_le_bytes());
            message.extend_from_slice(part);
        }
        first_bytes(hkdf().hmac_sign(&OkmBlock::new(&self.0), &message).as_ref())
    }
}

/// SHA-256, for what is too long to be copied into a message.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    first_bytes(hash().hash(bytes).as_ref())
}

fn read(folder: &Folder) -> io::Result<Option<Key>> {
    match folder.read(FILE, BYTES) {
        Ok(bytes) => Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(Key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn first_bytes(bytes: &[u8]) -> [u8; BYTES] {
    let mut first = [0; BYTES];
    let length = bytes.len().min(BYTES);
    first[..length].copy_from_slice(&bytes[..length]);
    first
}

// The cryptography that speaks TLS is linked anyway; one of its suites names its hash and
// its HMAC, and there is no need for a second implementation of either.

fn hkdf() -> &'static dyn Hkdf {
    suite().hkdf_provider
}

fn hash() -> &'static dyn Hash {
    suite().common.hash_provider
}

fn suite() -> &'static rustls::Tls13CipherSuite {
    TLS13_CHACHA20_POLY1305_SHA256.tls13().expect("a suite that is called TLS 1.3 is one")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second case of RFC 4231 has a key of four bytes; HMAC fills keys up with zeros.
    #[test]
    fn it_is_hmac_with_sha_256() {
        let tag = hkdf().hmac_sign(&OkmBlock::new(b"Jefe"), b"what do ya want for nothing?");
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn parts_and_purposes_are_kept_apart() {
        let key = Key([7; BYTES]);
        let sign = |purpose, parts: &[&[u8]]| key.sign(purpose, parts.iter().copied());
        assert_eq!(sign("a", &[b"x", b"y"]), sign("a", &[b"x", b"y"]));
        assert_ne!(sign("a", &[b"x", b"y"]), sign("a", &[b"xy"]));
        assert_ne!(sign("a", &[b"x"]), sign("b", &[b"x"]));
        assert_ne!(sign("a", &[b"x"]), Key([8; BYTES]).sign("a", [b"x".as_slice()]));
        assert_eq!(format!("{key:?}"), "Key([hidden])");
    }
}
