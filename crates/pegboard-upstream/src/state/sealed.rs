//! Files that say what they are and that nobody else has written.
//!
//! One line names the kind and the version and seals the rest of the file:
//!
//! ```text
//! KIND VERSION SEAL
//! …
//! ```

use super::key::{BYTES, Key, digest};

/// The first line is not longer than this.
const MAX_LINE: usize = 256;

/// A kind of file. The version grows with every change of what is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
}

/// What binds a content to what it is about and to an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal([u8; BYTES]);

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It is something else, or of another version.
    Version,
    /// It was not written here for this, or is damaged.
    Seal,
}

impl Kind {
    /// The file with this body about `subject`, and its seal.
    pub(crate) fn seal(self, body: &str, subject: &[u8], key: &Key) -> (Vec<u8>, Seal) {
        let seal = self.seal_of(body.as_bytes(), subject, key);
        (format!("{} {} {}\n{body}", self.name, self.version, seal.to_hex()).into_bytes(), seal)
    }

    /// The body of a file about `subject`, if it is whole and was sealed here.
    pub(crate) fn open<'a>(self, file: &'a [u8], subject: &[u8], key: &Key) -> Result<(&'a [u8], Seal), Broken> {
        let line = file.iter().take(MAX_LINE).position(|byte| *byte == b'\n').ok_or(Broken::Version)?;
        let (line, body) = (String::from_utf8_lossy(&file[..line]), &file[line + 1..]);
        let sealed = line.strip_prefix(&format!("{} {} ", self.name, self.version)).ok_or(Broken::Version)?;
        let seal = self.seal_of(body, subject, key);
        if seal.to_hex() == sealed { Ok((body, seal)) } else { Err(Broken::Seal) }
    }

    fn seal_of(self, body: &[u8], subject: &[u8], key: &Key) -> Seal {
        let digest = digest(body);
        Seal(key.sign(self.name, [self.version.to_le_bytes().as_slice(), subject, &digest]))
    }
}

impl Seal {
    fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
