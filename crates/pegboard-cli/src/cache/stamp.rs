//! Stamps: which content a file had when it was last read, and whether it still has it.

use std::{
    fmt, fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pegboard_state::{digest, platform};

use super::hex;

/// The extension of stamp files.
pub(super) const ENDING: &str = ".stamp";

/// Maximum size of a stamp file; stamps are far smaller.
pub(super) const MAX_BYTES: usize = 1024;

/// The first word of a stamp file.
const VERSION: &str = "pegboard-stamp-1";

/// Minimum age of a file's modification time for its stamp to be trusted. A file that was written
/// more recently may have been written again without a change of its time: clocks of file systems
/// tick as slowly as this.
const SETTLED: Duration = Duration::from_secs(2);

/// Returns the name of the stamp of a file.
pub(super) fn name(file: &Path) -> Option<String> {
    let path = std::path::absolute(file).ok()?;
    Some(format!("{}{ENDING}", hex(&digest(path.as_os_str().as_encoded_bytes())[..16])))
}

/// The metadata of a regular file. A file that is written again has other metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) bytes: u64,
    /// When the content changed, in nanoseconds since 1970.
    modified: u128,
    /// When the metadata last changed, and the inode number, where the system reports them.
    changed: i128,
    number: u64,
}

impl Status {
    pub(super) fn of(file: &Path) -> Option<Self> {
        let data = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
        let modified = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        let (changed, number) = (platform::change_time(&data), platform::file_number(&data));
        Some(Self { bytes: data.len(), modified, changed, number })
    }
}

/// The content that a file had at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    status: Status,
    /// When the stamp was made, in nanoseconds since 1970.
    made: u128,
    pub(super) digest: [u8; 32],
}

impl Stamp {
    /// Returns a stamp of a file with this metadata and this digest of its content.
    pub(super) fn new(status: Status, digest: [u8; 32]) -> Self {
        let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        Self { status, made, digest }
    }

    /// Returns whether a file with the metadata `status` certainly has the same content.
    pub(super) fn is_trusted(&self, status: &Status) -> bool {
        self.status == *status && status.modified.saturating_add(SETTLED.as_nanos()) < self.made
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(VERSION)?;
        let mut words = rest.split_whitespace();
        let status = Status {
            bytes: words.next()?.parse().ok()?,
            modified: words.next()?.parse().ok()?,
            changed: words.next()?.parse().ok()?,
            number: words.next()?.parse().ok()?,
        };
        let made = words.next()?.parse().ok()?;
        let (pairs, []) = words.next()?.as_bytes().as_chunks::<2>() else { return None };
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let digest: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
        Some(Self { status, made, digest: digest.try_into().ok()? })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { bytes, modified, changed, number } = &self.status;
        writeln!(f, "{VERSION} {bytes} {modified} {changed} {number} {} {}", self.made, hex(&self.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let status = Status { bytes: 7, modified: 1_700_000_000_123_456_789, changed: -5, number: u64::MAX };
        let stamp = Stamp::new(status, digest(b"content"));
        let text = stamp.to_string();
        assert_eq!(Stamp::parse(&text), Some(stamp));
        for at in 0..text.trim_end().len() {
            assert_eq!(Stamp::parse(&text[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn only_a_file_that_has_settled_is_trusted() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let status = |age: u128| Status { bytes: 7, modified: now - age, changed: 0, number: 0 };
        let is_trusted = |age: u128| Stamp::new(status(age), [0; 32]).is_trusted(&status(age));
        assert!(is_trusted(10_000_000_000));
        assert!(!is_trusted(1_000_000_000), "written within the last two seconds");
        let stamp = Stamp::new(status(10_000_000_000), [0; 32]);
        assert!(!stamp.is_trusted(&Status { bytes: 8, ..status(10_000_000_000) }));
        assert!(!stamp.is_trusted(&Status { number: 8, ..status(10_000_000_000) }));
    }
}
