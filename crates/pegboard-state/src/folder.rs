//! A folder of small files that are there whole or not at all, for their owner alone.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::platform;

/// What the names of files that are not finished begin with.
const UNFINISHED: &str = ".writing-";

/// How often it is looked whether a lock is free.
const LOOK: Duration = Duration::from_millis(5);

/// Whether a file is one that somebody was still writing.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

/// By what it is seen that a file is another one.
pub type Stamp = (Option<SystemTime>, u64, u64);

/// A lock that other programs respect. The system gives it back when we end.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A folder of files that are there whole or not at all, for their owner alone.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and makes it and those above it where they are missing.
    ///
    /// # Errors
    /// When it can be neither read nor made, or others could write to it.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            platform::create_private_folder(path)?;
        }
        // Where others can write, they could put a key of theirs and tools of theirs.
        platform::check_owner(path)?;
        Ok(Self(path.to_owned()))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and removes it again.
    pub fn check_writable(&self) -> io::Result<()> {
        self.write("check", b"", false).map(drop)
    }

    /// The content of a file; `None` if it has more than `most` bytes.
    ///
    /// # Errors
    /// When the system refuses, or it is not a regular file.
    pub fn read(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        // Before it is opened: a pipe would keep us waiting.
        let data = fs::symlink_metadata(&path)?;
        if !data.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let size = usize::try_from(data.len()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(size.min(most) + 1);
        File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() <= most).then_some(bytes))
    }

    /// Puts a file in the place of the one with this name. Whoever reads meanwhile, and
    /// whoever comes after a crash, finds the old content or the new.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let finished = self.write(name, content, true)?;
        fs::rename(&finished.0, self.0.join(name))?;
        self.sync();
        Ok(())
    }

    /// Puts a file in the place of the one with this name without waiting for the disk: for
    /// what is written often and can be lost when the machine itself goes down.
    ///
    /// # Errors
    /// When the system refuses; then the old content is still there.
    pub fn replace_quickly(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let finished = self.write(name, content, false)?;
        fs::rename(&finished.0, self.0.join(name))
    }

    /// Adds a file unless there is one of this name; whether it was added.
    pub fn add(&self, name: &str, content: &[u8]) -> io::Result<bool> {
        let finished = self.write(name, content, true)?;
        let path = self.0.join(name);
        // Of several that do so at once one succeeds, with its whole content.
        match fs::hard_link(&finished.0, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Ok(()) => {}
            // Not every disk has second names; then the last one counts.
            Err(_) => fs::rename(&finished.0, &path)?,
        }
        self.sync();
        Ok(true)
    }

    /// A file with this content under a name of its own, on the disk if it `must_last`.
    fn write(&self, name: &str, content: &[u8], must_last: bool) -> io::Result<Unfinished> {
        // Not by the number of the process: two containers that share a disk both have a first.
        let mut own = [0; 8];
        getrandom::fill(&mut own).map_err(io::Error::other)?;
        let path = self.0.join(format!("{UNFINISHED}{:016x}-{name}", u64::from_le_bytes(own)));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        platform::restrict_to_owner(&mut options);
        let mut file = options.open(&path)?;
        let unfinished = Unfinished(path);
        file.write_all(content)?;
        // Without this a file could have its new name before it has its content.
        if must_last {
            file.sync_all()?;
        }
        Ok(unfinished)
    }

    /// When a file was last written or marked.
    pub fn modified(&self, name: &str) -> io::Result<SystemTime> {
        fs::symlink_metadata(self.0.join(name))?.modified()
    }

    /// What a file looks like from outside, if it is there.
    pub fn stamp(&self, name: &str) -> Option<Stamp> {
        let data = fs::symlink_metadata(self.0.join(name)).ok()?;
        Some((data.modified().ok(), data.len(), platform::file_number(&data)))
    }

    /// Waits until nobody else has the lock with this name, and has it until it is dropped.
    pub fn lock(&self, name: &str) -> io::Result<Lock> {
        let file = self.open_lock(name)?;
        file.lock()?;
        Ok(Lock { _file: file })
    }

    /// [`lock`](Self::lock) that waits no longer than `patience`.
    pub fn lock_within(&self, name: &str, patience: Duration) -> io::Result<Lock> {
        let file = self.open_lock(name)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::Error(error)) => return Err(error),
                // The system can wait for ever or not at all.
                Err(TryLockError::WouldBlock) if start.elapsed() < patience => thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    let reason = format!("another process has held the lock for {patience:?}");
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

    /// Marks a file as used now.
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

    /// The names of what is in it, as far as it can be ours.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Removes files that other programs have not finished to write for an hour.
    pub fn remove_unfinished(&self) {
        let names = self.names().unwrap_or_default();
        for name in names.iter().filter(|name| is_unfinished(name)) {
            let age = self.modified(name).ok().and_then(|then| then.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > 3600) {
                // Another program may have been faster.
                let _ = self.remove(name);
            }
        }
    }

    /// Brings new names to the disk. Without it they are lost in a crash, and nothing else.
    fn sync(&self) {
        let _ = File::open(&self.0).and_then(|folder| folder.sync_all());
    }
}

/// A file that goes away again unless it got another name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
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
            (0..64).map(|next| path.join(format!("{UNFINISHED}{}-{next}-a", std::process::id()))).collect();
        theirs.iter().for_each(|file| fs::write(file, "theirs").expect("written"));
        let ours: Vec<Unfinished> = (0..8).map(|_| folder.write("a", b"ours", false).expect("written")).collect();
        assert!(theirs.iter().all(|file| fs::read(file).is_ok_and(|text| text == b"theirs")));
        assert!(ours.iter().all(|file| fs::read(&file.0).is_ok_and(|text| text == b"ours")));
        assert!(folder.names().expect("names").iter().all(|name| is_unfinished(name)));
        drop(ours);
        assert_eq!(folder.names().expect("names").len(), theirs.len());
        let _ = fs::remove_dir_all(&path);
    }
}
