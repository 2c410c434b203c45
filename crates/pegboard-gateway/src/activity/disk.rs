//! The file of entries: JSON Lines that only its owner can read.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    path::Path,
    time::Duration,
};

use pegboard_state::{Folder, Lock, platform};
use serde::{Deserialize, Serialize};

use super::{Entry, Outcome, log::Contents};

/// The name of the file.
const NAME: &str = "activity.jsonl";

/// The name of its lock: one gateway writes, others keep their entries in memory.
const LOCK: &str = "activity.lock";

/// Maximum size of the file; it is rewritten with the newest entries before that.
const MAX_BYTES: usize = 64 << 20;

/// An entry with its contents, if they are kept.
type KeptEntry = (Entry, Option<Contents>);

/// A line of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(flatten)]
    entry: Entry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

impl Line {
    fn new(entry: &Entry, contents: Option<Contents>) -> Self {
        let mut entry = entry.clone();
        if contents.is_none() {
            entry.has_contents = false;
            // What a tool says is a part of its result, and may repeat arguments.
            if matches!(entry.outcome, Outcome::Error | Outcome::Rejected) {
                entry.error = None;
            }
        }
        let Contents { arguments, result, .. } = contents.unwrap_or_default();
        Self { entry, arguments, result }
    }

    fn into_parts(self) -> KeptEntry {
        let Self { entry, arguments, result } = self;
        let contents = entry.has_contents.then_some(Contents { arguments, result, is_cut: false });
        (entry, contents)
    }
}

/// The file of entries, open for writing.
#[derive(Debug)]
pub(super) struct ActivityFile {
    folder: Folder,
    file: BufWriter<File>,
    /// The lines, and the bytes of the file.
    lines: usize,
    bytes: usize,
    most: usize,
    _lock: Lock,
}

impl ActivityFile {
    /// Opens the file, and returns the newest `most` entries in it, oldest first. Lines that are not
    /// entries are dropped.
    ///
    /// # Errors
    /// When the folder cannot be used, or another gateway writes to it.
    pub(super) fn open(path: &Path, most: usize) -> io::Result<(Self, Vec<KeptEntry>)> {
        let folder = Folder::open(path)?;
        let lock = folder.lock_within(LOCK, Duration::ZERO)?;
        let text = match folder.read(NAME, MAX_BYTES) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&text);
        let mut entries: Vec<KeptEntry> =
            text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()).map(Line::into_parts).collect();
        entries.sort_by_key(|(entry, _)| entry.seq);
        entries.dedup_by_key(|(entry, _)| entry.seq);
        entries.drain(..entries.len().saturating_sub(most));
        let mut lines = String::new();
        for (entry, contents) in &entries {
            lines += &serde_json::to_string(&Line::new(entry, contents.clone()))?;
            lines.push('\n');
        }
        folder.replace_without_sync(NAME, lines.as_bytes())?;
        let file = append_to(&folder)?;
        let opened = Self { folder, file, lines: entries.len(), bytes: lines.len(), most, _lock: lock };
        Ok((opened, entries))
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn append(&mut self, entry: &Entry, contents: Option<Contents>) -> io::Result<()> {
        let mut line = serde_json::to_string(&Line::new(entry, contents))?;
        line.push('\n');
        if self.lines >= self.most.saturating_mul(2) || self.bytes + line.len() > MAX_BYTES {
            self.shorten()?;
        }
        self.file.write_all(line.as_bytes())?;
        (self.lines, self.bytes) = (self.lines + 1, self.bytes + line.len());
        Ok(())
    }

    /// Rewrites the file with its newest lines: as many as are kept, and at most half of its size.
    fn shorten(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let text = self.folder.read(NAME, 2 * MAX_BYTES)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut left = MAX_BYTES / 2;
        let fits = |line: &&str| {
            let has_room = left > line.len();
            left = left.saturating_sub(line.len() + 1);
            has_room
        };
        let mut lines: Vec<&str> = text.lines().rev().take(self.most).take_while(fits).collect();
        lines.reverse();
        let mut kept = lines.join("\n");
        kept.push('\n');
        self.folder.replace_without_sync(NAME, kept.as_bytes())?;
        self.file = append_to(&self.folder)?;
        (self.lines, self.bytes) = (lines.len(), kept.len());
        Ok(())
    }

    /// Writes what is in memory.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append_to(folder: &Folder) -> io::Result<BufWriter<File>> {
    let mut options = OpenOptions::new();
    let options = platform::restrict_to_owner(options.append(true).create(true));
    Ok(BufWriter::new(options.open(folder.path().join(NAME))?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::log::tests::entry, *};
    use crate::activity::Kind;

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("pegboard-activity-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn entries_survive_a_restart_without_contents_and_words_of_tools() {
        let path = folder("restart");
        let (mut file, before) = ActivityFile::open(&path, 10).expect("a file");
        assert!(before.is_empty());
        let mut failed = entry(1, Kind::Call, Some("one___echo"));
        (failed.outcome, failed.error, failed.has_contents) = (Outcome::Error, Some("private".to_owned()), true);
        file.append(&failed, None).expect("a line");
        let contents = Contents { arguments: Some("{}".to_owned()), result: None, is_cut: false };
        let mut other = entry(2, Kind::Search, None);
        other.has_contents = true;
        file.append(&other, Some(contents.clone())).expect("a line");
        assert!(ActivityFile::open(&path, 10).is_err(), "one gateway writes at a time");
        file.flush().expect("a disk");
        drop(file);
        fs::OpenOptions::new()
            .append(true)
            .open(path.join(NAME))
            .expect("a file")
            .write_all(b"{\"cut")
            .expect("a disk");
        let (_, after) = ActivityFile::open(&path, 10).expect("a file");
        (failed.error, failed.has_contents) = (None, false);
        assert_eq!(after, [(failed, None), (other, Some(contents))]);
        fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn the_file_keeps_the_newest_entries() {
        let path = folder("newest");
        let (mut file, _) = ActivityFile::open(&path, 5).expect("a file");
        for seq in 1..=23 {
            file.append(&entry(seq, Kind::Call, None), None).expect("a line");
        }
        file.flush().expect("a disk");
        assert!(fs::read_to_string(path.join(NAME)).expect("a file").lines().count() <= 10);
        drop(file);
        let (_, after) = ActivityFile::open(&path, 5).expect("a file");
        assert_eq!(after.iter().map(|(entry, _)| entry.seq).collect::<Vec<_>>(), [19, 20, 21, 22, 23]);
        fs::remove_dir_all(path).expect("a folder");
    }
}
