//! The secret key of an installation, and its signatures.

use std::io;

use ring::{digest::SHA256, hmac};

use super::folder::Folder;

/// The name of the file with the key.
const FILE: &str = "key";

/// Number of bytes of a key and of a signature.
pub const BYTES: usize = 32;

/// The random secret key of an installation.
///
/// A configuration contains tokens and passwords, and its fingerprint is the name of a file. With a
/// plain hash, a reader of that name could guess them: most of a configuration is well known, and
/// many passwords are short. With a key that only the owner can read, guesses cannot be checked; a
/// backup or a listing of the folder without the key reveals nothing. The same key signs the
/// content, so that a file from elsewhere is not used.
pub struct Key([u8; BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key([hidden])")
    }
}

impl Key {
    /// Reads the key of a folder; creates a new one if it is missing or invalid.
    pub fn of(folder: &Folder) -> io::Result<Self> {
        match read(folder)? {
            Some(key) => Ok(key),
            None => {
                let Self(bytes) = Self::random()?;
                // Another process may have been first; then its key is used.
                if !folder.add(FILE, &bytes)? && read(folder)?.is_none() {
                    folder.replace(FILE, &bytes)?;
                }
                read(folder)?.ok_or_else(|| io::Error::other("cannot save the key"))
            }
        }
    }

    /// Returns a random key that is not stored.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }

    /// Returns whether a folder has a key.
    pub fn is_in(folder: &Folder) -> io::Result<bool> {
        Ok(read(folder)?.is_some())
    }

    /// Returns a fixed key, which protects nothing.
    #[cfg(fuzzing)]
    pub fn fixed() -> Self {
        Self([7; BYTES])
    }

    /// Returns the HMAC-SHA-256 of the parts. Each is preceded by its length, so that different lists
    /// of parts have different bytes; `purpose` separates signatures of different uses.
    pub fn sign<'a>(&self, purpose: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; BYTES] {
        let mut message = Vec::new();
        for part in [purpose.as_bytes()].into_iter().chain(parts) {
            message.extend_from_slice(&(part.len() as u64).to_le_bytes());
            message.extend_from_slice(part);
        }
        first_bytes(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), &message).as_ref())
    }
}

/// Returns the SHA-256 of data that is too long to be signed directly.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    first_bytes(ring::digest::digest(&SHA256, bytes).as_ref())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hmac` module. Signatures of existing files depend on it.
    #[test]
    fn a_signature_is_hmac_with_sha_256() {
        let tag = Key([7; BYTES]).sign("purpose", [b"part".as_slice()]);
        let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "2f138d2d88e663b4ee1cf99cbc73c85c7205606b5c97131489ec3156045d45b7");
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
