//! Which content a file had when it was last read, and how to see that it has it still.

use std::{
    fmt, fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pegboard_state::{digest, platform};

use super::hex;

/// The end of the names of stamps.
pub(super) const ENDING: &str = ".stamp";

/// Stamps are far smaller.
pub(super) const MAX_BYTES: usize = 1024;

/// The first word of a stamp.
const VERSION: &str = "pegboard-stamp-1";

/// A file that was written less than this before it was read may have been written again since,
/// without a change of its time: clocks of file systems tick as slowly as this.
const SETTLED: Duration = Duration::from_secs(2);

/// The name of the stamp of a file.
pub(super) fn name(file: &Path) -> Option<String> {
    let path = std::path::absolute(file).ok()?;
    Some(format!("{}{ENDING}", hex(&digest(path.as_os_str().as_encoded_bytes())[..16])))
}

/// A regular file as it looks from outside. A file that is written again looks otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) bytes: u64,
    /// When the content changed, in nanoseconds since 1970.
    modified: u128,
    /// When anything about the file changed, and its number, where the system tells.
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
    /// A stamp of a file that looks so and has the content with this digest.
    pub(super) fn new(status: Status, digest: [u8; 32]) -> Self {
        let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        Self { status, made, digest }
    }

    /// Whether a file that looks like `status` has the same content for sure.
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
