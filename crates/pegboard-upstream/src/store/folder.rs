//! A folder of small files that are there whole or not at all, for their owner alone.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

/// What the names of files that are not finished begin with.
const UNFINISHED: &str = ".writing-";

/// Whether a file is one that somebody was still writing.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

/// By what it is seen that a file is another one.
pub type Stamp = (Option<SystemTime>, u64, u64);

/// A lock that other programs respect. The system gives it back when we end.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A folder of ours.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and makes it and those above it where they are missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            make(path)?;
        }
        check_owner(path)?;
        Ok(Self(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The content of a file; `None` if it has more than `most` bytes.
    pub(crate) fn read(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        // Before it is opened: a pipe would keep us waiting.
        let data = fs::symlink_metadata(&path)?;
        if !data.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let size = usize::try_from(data.len()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(size.min(most) + 1);
        File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() <= most).then_some(bytes))
    }

    /// Puts a file in the place of the one with this name. Whoever reads meanwhile, and
    /// whoever comes after a crash, finds the old content or the new.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let finished = self.write(name, content, true)?;
        fs::rename(&finished.0, self.0.join(name))?;
        self.sync();
        Ok(())
    }

    /// [`replace`](Self::replace) for what is written often and can be lost when the machine
    /// itself goes down: the disk is not waited for.
    pub(crate) fn replace_quickly(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let finished = self.write(name, content, false)?;
        fs::rename(&finished.0, self.0.join(name))
    }

    /// Adds a file unless there is one of this name; whether it was added.
    pub(crate) fn add(&self, name: &str, content: &[u8]) -> io::Result<bool> {
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
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.0.join(format!("{UNFINISHED}{}-{next}-{name}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        for_owner(&mut options);
        // Another process of this number may have died here.
        let _ = fs::remove_file(&path);
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
    pub(crate) fn modified(&self, name: &str) -> io::Result<SystemTime> {
        fs::symlink_metadata(self.0.join(name))?.modified()
    }

    /// What a file looks like from outside, if it is there.
    pub(crate) fn stamp(&self, name: &str) -> Option<Stamp> {
        let data = fs::symlink_metadata(self.0.join(name)).ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&data);
        #[cfg(not(unix))]
        let number = 0;
        Some((data.modified().ok(), data.len(), number))
    }

    /// Waits until nobody else has the lock with this name, and has it until it is dropped.
    pub(crate) fn lock(&self, name: &str) -> io::Result<Lock> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        for_owner(&mut options);
        let file = options.open(self.0.join(name))?;
        file.lock()?;
        Ok(Lock { _file: file })
    }

    /// Marks a file as used now.
    pub(crate) fn touch(&self, name: &str) -> io::Result<()> {
        OpenOptions::new().append(true).open(self.0.join(name))?.set_modified(SystemTime::now())
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// The names of what is in it, as far as it can be ours.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
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

#[cfg(unix)]
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(unix)]
fn for_owner(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn for_owner(_options: &mut OpenOptions) {}

/// Where others can write, they could put a key of theirs and tools of theirs.
#[cfg(unix)]
fn check_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let data = fs::metadata(path)?;
    let refuse = |reason| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if data.uid() != rustix::process::geteuid().as_raw() {
        return refuse("the folder belongs to somebody else");
    }
    if data.mode() & 0o022 != 0 {
        return refuse("others can write to the folder");
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_path: &Path) -> io::Result<()> {
    Ok(())
}
