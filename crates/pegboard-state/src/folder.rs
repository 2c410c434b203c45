//! A private folder of small files that are replaced atomically.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::platform;

/// Prefix of the names of temporary files.
const TEMPORARY_PREFIX: &str = ".writing-";

/// How often a held lock is tried again.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns whether a file is a temporary one that was not finished.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

/// The modification time, size and number of a file, which change when it is replaced.
pub type Stamp = (Option<SystemTime>, u64, u64);

/// A lock between processes. The system releases it when this process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A private folder of files that are replaced atomically.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and creates it and its parents if they are missing.
    ///
    /// # Errors
    /// When it can be neither read nor created, or other users could write to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            platform::create_private_folder(path)?;
        }
        // Other users who can write here could replace the key and the tools.
        platform::check_owner(path)?;
        Ok(Self(path.to_owned()))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Checks that the folder is writable: writes a file and removes it again.
    pub fn check_writable(&self) -> io::Result<()> {
        self.write("check", b"", false).map(drop)
    }

    /// Returns the content of a file; `None` if it has more than `most` bytes.
    ///
    /// # Errors
    /// When the system refuses, or it is not a regular file.
    pub fn read(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        // Checked before it is opened: a pipe would block.
        let data = fs::symlink_metadata(&path)?;
        if !data.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let size = usize::try_from(data.len()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(size.min(most) + 1);
        File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() <= most).then_some(bytes))
    }

    /// Replaces a file atomically. Readers, also after a crash, find either the old content or the
    /// new one.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let finished = self.write(name, content, true)?;
        fs::rename(&finished.0, self.0.join(name))?;
        self.sync();
        Ok(())
    }

    /// Replaces a file atomically without waiting for the disk, for data that is written often and may
    /// be lost when the machine crashes.
    ///
    /// # Errors
    /// When the system refuses; then the old content is still there.
    pub fn replace_without_sync(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let finished = self.write(name, content, false)?;
        fs::rename(&finished.0, self.0.join(name))
    }

    /// Replaces a file like [`replace_without_sync`](Self::replace_without_sync) by what `write` writes, for
    /// content that need not be in memory as a whole. Returns what `write` returns.
    ///
    /// # Errors
    /// When the system refuses, or `write` fails; then the old content is still there.
    pub fn rewrite<T>(&self, name: &str, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> io::Result<T> {
        let (file, finished) = self.create_temporary(name)?;
        let mut file = BufWriter::new(file);
        let value = write(&mut file)?;
        file.flush()?;
        fs::rename(&finished.0, self.0.join(name))?;
        Ok(value)
    }

    /// Adds a file unless it exists, and returns whether it was added.
    pub fn add(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        let finished = self.write(name, content, true)?;
        let path = self.0.join(name);
        // Of several processes at once, one succeeds with its whole content.
        match fs::hard_link(&finished.0, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Ok(()) => {}
            // Not every file system has hard links; then the last writer wins.
            Err(_) => fs::rename(&finished.0, &path)?,
        }
        self.sync();
        Ok(true)
    }

    /// Writes a temporary file, and waits for the disk if it `must_last`.
    fn write(&self, name: &str, content: &[u8], must_last: bool) -> io::Result<TemporaryFile> {
        let (mut file, unfinished) = self.create_temporary(name)?;
        file.write_all(content)?;
        // Without this, a file could get its new name before its content is on the disk.
        if must_last {
            file.sync_all()?;
        }
        Ok(unfinished)
    }

    /// Creates a temporary file for a new content of `name`.
    fn create_temporary(&self, name: &str) -> io::Result<(File, TemporaryFile)> {
        // Not with the process id: two containers that share a disk can have the same.
        let mut own = [0; 8];
        getrandom::fill(&mut own).map_err(io::Error::other)?;
        let path = self.0.join(format!("{TEMPORARY_PREFIX}{:016x}-{name}", u64::from_le_bytes(own)));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        platform::restrict_to_owner(&mut options);
        Ok((options.open(&path)?, TemporaryFile(path)))
    }

    /// Returns the time when a file was last written or touched.
    pub fn modified(&self, name: &str) -> io::Result<SystemTime> {
        fs::symlink_metadata(self.0.join(name))?.modified()
    }

    /// Returns the stamp of a file, if it exists.
    pub fn stamp(&self, name: &str) -> Option<Stamp> {
        let data = fs::symlink_metadata(self.0.join(name)).ok()?;
        Some((data.modified().ok(), data.len(), platform::file_number(&data)))
    }

    /// Waits for the lock with this name, which is held until it is dropped.
    pub fn lock(&self, name: &str) -> io::Result<Lock> {
        let file = self.open_lock(name)?;
        file.lock()?;
        Ok(Lock { _file: file })
    }

    /// Waits for the lock with this name, at most `timeout`.
    pub fn lock_within(&self, name: &str, timeout: Duration) -> io::Result<Lock> {
        let file = self.open_lock(name)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::Error(error)) => return Err(error),
                // The system can wait for a lock for ever or not at all.
                Err(TryLockError::WouldBlock) if start.elapsed() < timeout => thread::sleep(LOCK_POLL_INTERVAL),
                Err(TryLockError::WouldBlock) => {
                    let reason = format!("another process has held the lock for {timeout:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
                }
            }
        }
    }

    fn open_lock(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        platform::restrict_to_owner(&mut options);
        options.open(self.0.join(name))
    }

    /// Sets the modification time of a file to now.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn touch(&self, name: &str) -> io::Result<()> {
        OpenOptions::new().append(true).open(self.0.join(name))?.set_modified(SystemTime::now())
    }

    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Returns the names of the files that are UTF-8.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Removes temporary files that are older than an hour.
    pub fn remove_abandoned(&self) {
        let names = self.names().unwrap_or_default();
        for name in names.iter().filter(|name| is_temporary(name)) {
            let age = self.modified(name).ok().and_then(|then| then.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > 3600) {
                // Another process may already have removed it.
                let _ = self.remove(name);
            }
        }
    }

    /// Writes new names to the disk. Without this they can be lost in a crash.
    fn sync(&self) {
        let _ = File::open(&self.0).and_then(|folder| folder.sync_all());
    }
}

/// A temporary file, which is removed unless it was renamed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_not_finished_is_left_alone() {
        let path = std::env::temp_dir().join(format!("pegboard-folder-unfinished-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let folder = Folder::open(&path).expect("a folder");
        // A program in another container, with the same number and as many files behind it,
        // writes under names that it comes to in the same way.
        let theirs: Vec<PathBuf> =
            (0..64).map(|next| path.join(format!("{TEMPORARY_PREFIX}{}-{next}-a", std::process::id()))).collect();
        theirs.iter().for_each(|file| fs::write(file, "theirs").expect("written"));
        let ours: Vec<TemporaryFile> = (0..8).map(|_| folder.write("a", b"ours", false).expect("written")).collect();
        assert!(theirs.iter().all(|file| fs::read(file).is_ok_and(|text| text == b"theirs")));
        assert!(ours.iter().all(|file| fs::read(&file.0).is_ok_and(|text| text == b"ours")));
        assert!(folder.names().expect("names").iter().all(|name| is_temporary(name)));
        drop(ours);
        assert_eq!(folder.names().expect("names").len(), theirs.len());
        let _ = fs::remove_dir_all(&path);
    }
}
