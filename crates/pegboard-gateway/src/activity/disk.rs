//! The file of entries: JSON Lines that only its owner can read.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _},
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

/// How long after its lifetime an entry may still be in the file, in milliseconds: the file is not
/// rewritten for every entry.
const EXPIRY_DELAY: u64 = 60 * 60 * 1000;

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

/// The part of a line that says when the entry was made.
#[derive(Debug, Deserialize)]
struct LineTime {
    at: u64,
}

/// The file of entries, open for writing.
#[derive(Debug)]
pub(super) struct ActivityFile {
    folder: Folder,
    file: BufWriter<File>,
    /// The lines, and the bytes of the file.
    lines: usize,
    bytes: usize,
    /// The time of the first line, if there is one.
    first: Option<u64>,
    most: usize,
    _lock: Lock,
}

/// Which of the entries of earlier runs are still kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// The number of the newest.
    pub(super) entries: usize,
    /// The time of the oldest, in milliseconds from 1970 on.
    pub(super) oldest: u64,
    /// Whether their contents are kept as well.
    pub(super) has_contents: bool,
}

impl ActivityFile {
    /// Opens the file, and returns the entries in it that are still kept, oldest first. The others,
    /// and lines that are not entries, are deleted.
    ///
    /// # Errors
    /// When the folder cannot be used, or another gateway writes to it.
    pub(super) fn open(path: &Path, retention: Retention) -> io::Result<(Self, Vec<KeptEntry>)> {
        let folder = Folder::open(path)?;
        let lock = folder.lock_within(LOCK, Duration::ZERO)?;
        let text = match folder.read(NAME, MAX_BYTES) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&text);
        let entries = kept_entries(&text, retention);
        let mut lines = String::new();
        for (entry, contents) in &entries {
            lines += &serde_json::to_string(&Line::new(entry, contents.clone()))?;
            lines.push('\n');
        }
        folder.replace_without_sync(NAME, lines.as_bytes())?;
        let file = append_to(&folder)?;
        let first = entries.first().map(|(entry, _)| entry.at);
        let (most, bytes) = (retention.entries, lines.len());
        Ok((Self { folder, file, lines: entries.len(), bytes, first, most, _lock: lock }, entries))
    }

    /// Deletes the file of an earlier run, for a gateway that keeps nothing on disk.
    ///
    /// # Errors
    /// When the system refuses, or another gateway writes to the file.
    pub(super) fn delete(path: &Path) -> io::Result<()> {
        if !path.join(NAME).exists() {
            return Ok(());
        }
        let folder = Folder::open(path)?;
        let _lock = folder.lock_within(LOCK, Duration::ZERO)?;
        folder.remove(NAME)
    }

    /// Deletes entries from before `oldest`, now and then.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn expire(&mut self, oldest: u64) -> io::Result<()> {
        if self.first.is_some_and(|first| first.saturating_add(EXPIRY_DELAY) < oldest) {
            self.shorten(oldest, MAX_BYTES)?;
        }
        Ok(())
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn append(&mut self, entry: &Entry, contents: Option<Contents>) -> io::Result<()> {
        let mut line = serde_json::to_string(&Line::new(entry, contents))?;
        line.push('\n');
        if self.lines >= self.most.saturating_mul(2) || self.bytes + line.len() > MAX_BYTES {
            self.shorten(0, MAX_BYTES / 2)?;
        }
        self.first.get_or_insert(entry.at);
        self.file.write_all(line.as_bytes())?;
        (self.lines, self.bytes) = (self.lines + 1, self.bytes + line.len());
        Ok(())
    }

    /// Rewrites the file with its newest lines: as many as are kept, not from before `oldest`, and at
    /// most so many bytes. Line by line, since the file has megabytes.
    fn shorten(&mut self, oldest: u64, most_bytes: usize) -> io::Result<()> {
        self.file.flush()?;
        let path = self.folder.path().join(NAME);
        let lengths = line_lengths(&mut BufReader::new(File::open(&path)?))?;
        let mut left = most_bytes;
        let fits = |length: &&usize| {
            let has_room = left > **length;
            left = left.saturating_sub(**length);
            has_room
        };
        let newest = lengths.iter().rev().take(self.most).take_while(fits).count();
        let skipped: usize = lengths[..lengths.len() - newest].iter().sum();
        let mut old = BufReader::new(File::open(&path)?);
        old.seek(SeekFrom::Start(skipped as u64))?;
        (self.lines, self.bytes, self.first) =
            self.folder.rewrite(NAME, |new| copy_lines(&mut old, &lengths[lengths.len() - newest..], oldest, new))?;
        self.file = append_to(&self.folder)?;
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

/// Returns the bytes of each line, with its end.
fn line_lengths(file: &mut BufReader<File>) -> io::Result<Vec<usize>> {
    let (mut lengths, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        match file.read_until(b'\n', &mut line)? {
            0 => return Ok(lengths),
            length => lengths.push(length),
        }
    }
}

/// Copies lines of these lengths that are not from before `oldest`. Returns their number, their bytes and
/// the time of the first.
fn copy_lines(
    old: &mut impl Read,
    lengths: &[usize],
    oldest: u64,
    new: &mut impl io::Write,
) -> io::Result<(usize, usize, Option<u64>)> {
    let (mut lines, mut bytes, mut first, mut line) = (0, 0, None, Vec::new());
    for length in lengths {
        line.resize(*length, 0);
        old.read_exact(&mut line)?;
        if oldest > 0 || first.is_none() {
            let at = serde_json::from_slice::<LineTime>(&line).ok().map(|line| line.at);
            if oldest > 0 && at.is_none_or(|at| at < oldest) {
                continue;
            }
            first = first.or(at);
        }
        new.write_all(&line)?;
        (lines, bytes) = (lines + 1, bytes + length);
    }
    Ok((lines, bytes, first))
}

/// Returns the entries of the lines of earlier runs that are still kept, oldest first.
fn kept_entries(text: &str, retention: Retention) -> Vec<KeptEntry> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let mut entries: Vec<KeptEntry> = lines.map(Line::into_parts).collect();
    entries.retain(|(entry, _)| entry.at >= retention.oldest);
    entries.sort_by_key(|(entry, _)| entry.seq);
    entries.dedup_by_key(|(entry, _)| entry.seq);
    entries.drain(..entries.len().saturating_sub(retention.entries));
    if !retention.has_contents {
        for (entry, contents) in &mut entries {
            (entry.has_contents, *contents) = (false, None);
        }
    }
    rename_sessions(&mut entries);
    entries
}

/// Adds the number of their run to the sessions of the last run. Each run numbers its sessions from 1
/// on, and those of earlier ones must not be taken for its own.
fn rename_sessions(entries: &mut [KeptEntry]) {
    let run = |session: &String| session.split_once('.')?.0.parse::<u64>().ok();
    let runs = entries.iter().filter_map(|(entry, _)| entry.session.as_ref().and_then(run));
    let last = runs.max().unwrap_or_default() + 1;
    let sessions = entries.iter_mut().filter_map(|(entry, _)| entry.session.as_mut());
    for session in sessions.filter(|session| run(session).is_none()) {
        *session = format!("{last}.{session}");
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

    fn all(entries: usize) -> Retention {
        Retention { entries, oldest: 0, has_contents: true }
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("pegboard-activity-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn entries_survive_a_restart_without_contents_and_words_of_tools() {
        let path = folder("restart");
        let (mut file, before) = ActivityFile::open(&path, all(10)).expect("a file");
        assert!(before.is_empty());
        let mut failed = entry(1, Kind::Call, Some("one___echo"));
        (failed.outcome, failed.error, failed.has_contents) = (Outcome::Error, Some("private".to_owned()), true);
        file.append(&failed, None).expect("a line");
        let contents = Contents { arguments: Some("{}".to_owned()), result: None, is_cut: false };
        let mut other = entry(2, Kind::Search, None);
        other.has_contents = true;
        file.append(&other, Some(contents.clone())).expect("a line");
        assert!(ActivityFile::open(&path, all(10)).is_err(), "one gateway writes at a time");
        file.flush().expect("a disk");
        drop(file);
        fs::OpenOptions::new()
            .append(true)
            .open(path.join(NAME))
            .expect("a file")
            .write_all(b"{\"cut")
            .expect("a disk");
        let (_, after) = ActivityFile::open(&path, all(10)).expect("a file");
        (failed.error, failed.has_contents) = (None, false);
        failed.session = Some("1.s1".to_owned());
        other.session.clone_from(&failed.session);
        assert_eq!(after, [(failed, None), (other, Some(contents))]);
        fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn what_is_not_kept_any_more_leaves_the_disk() {
        let path = folder("expiry");
        let (mut file, _) = ActivityFile::open(&path, all(10)).expect("a file");
        let contents = Contents { arguments: Some("private".to_owned()), result: None, is_cut: false };
        for (seq, at) in [(1, 1_000), (2, EXPIRY_DELAY), (3, 2 * EXPIRY_DELAY)] {
            let mut entry = entry(seq, Kind::Call, None);
            (entry.at, entry.has_contents) = (at, true);
            file.append(&entry, Some(contents.clone())).expect("a line");
        }
        file.flush().expect("a disk");
        let lines = || fs::read_to_string(path.join(NAME)).expect("a file").lines().count();
        file.expire(EXPIRY_DELAY).expect("a disk");
        assert_eq!(lines(), 3, "the file is not rewritten for every entry");
        file.expire(EXPIRY_DELAY + 1_001).expect("a disk");
        assert_eq!(lines(), 1);
        assert!(ActivityFile::delete(&path).is_err(), "it is being written");
        drop(file);
        let none = Retention { oldest: 3 * EXPIRY_DELAY, ..all(10) };
        let without = Retention { has_contents: false, ..all(10) };
        let (file, after) = ActivityFile::open(&path, without).expect("a file");
        assert!(matches!(&after[..], [(entry, None)] if entry.seq == 3 && !entry.has_contents));
        assert!(!fs::read_to_string(path.join(NAME)).expect("a file").contains("private"));
        drop(file);
        let (file, after) = ActivityFile::open(&path, none).expect("a file");
        assert!(after.is_empty() && lines() == 0);
        drop(file);
        ActivityFile::delete(&path).expect("a disk");
        assert!(!path.join(NAME).exists());
        ActivityFile::delete(&path).expect("nothing to delete");
        fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn sessions_of_earlier_runs_have_names_of_their_own() {
        let path = folder("sessions");
        let mut sessions = Vec::new();
        for seq in 1..=3 {
            let (mut file, before) = ActivityFile::open(&path, all(10)).expect("a file");
            sessions = before.into_iter().filter_map(|(entry, _)| entry.session).collect();
            file.append(&entry(seq, Kind::Call, None), None).expect("a line");
        }
        assert_eq!(sessions, ["1.s1", "2.s1"]);
        fs::remove_dir_all(path).expect("a folder");
    }

    #[test]
    fn the_file_keeps_the_newest_entries() {
        let path = folder("newest");
        let (mut file, _) = ActivityFile::open(&path, all(5)).expect("a file");
        for seq in 1..=23 {
            file.append(&entry(seq, Kind::Call, None), None).expect("a line");
        }
        file.flush().expect("a disk");
        assert!(fs::read_to_string(path.join(NAME)).expect("a file").lines().count() <= 10);
        drop(file);
        let (_, after) = ActivityFile::open(&path, all(5)).expect("a file");
        assert_eq!(after.iter().map(|(entry, _)| entry.seq).collect::<Vec<_>>(), [19, 20, 21, 22, 23]);
        fs::remove_dir_all(path).expect("a folder");
    }
}
