//! Small files of an installation: replaced atomically, private to their owner, and signed, so that a file from
//! elsewhere is not used.

mod folder;
mod key;
pub mod platform;
mod seal;

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

pub use self::{
    folder::{Folder, Lock, Stamp, is_temporary},
    key::{BYTES, Key, digest},
    seal::Sealer,
};

/// The kind of the files of a store.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    /// The first word of every file, and the suffix of its name.
    pub name: &'static str,
    /// The version of the file format.
    pub version: u32,
    /// Maximum number of bytes of a file that is written or read.
    pub max_bytes: usize,
}

/// The reason why a file is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file does not exist.
    #[error("not found")]
    Missing,
    /// The file cannot be read.
    #[error("cannot be read")]
    Io(#[source] io::Error),
    /// The file is too large.
    #[error("too large")]
    TooLarge,
    /// Another version of Pegboard has written the file.
    #[error("written by another version of Pegboard")]
    Version,
    /// The file is damaged, or comes from another installation.
    #[error("invalid signature: the file is damaged, or comes from another installation")]
    Seal,
}

/// A folder of signed files of one kind, with the key for names and signatures. Several processes
/// may share it.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    key: Key,
    kind: FileKind,
}

impl Store {
    /// Opens the folder, and creates it and its key if they are missing.
    ///
    /// # Errors
    /// When it can be neither read nor created, or other users could write to it.
    pub fn open(path: &Path, kind: FileKind) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        let key = Key::of(&folder)?;
        Ok(Self { folder, key, kind })
    }

    /// Opens the folder like [`open`](Self::open), but fails if there are files of this kind without
    /// their key: with a new key they would be invalid.
    ///
    /// # Errors
    /// When the folder cannot be used, or the key is missing.
    pub fn open_with_key(path: &Path, kind: FileKind) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        let is_of_kind = |file: &String| file.strip_suffix(kind.name).is_some_and(|name| name.ends_with('.'));
        if !Key::is_in(&folder)? && folder.names()?.iter().any(is_of_kind) {
            let reason = "the file `key` is missing or damaged, and nothing else in the folder can be verified; \
                          restore the file, or remove the folder to start over";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Self::open(path, kind)
    }

    /// Returns a short keyed hash of `secret` in letters and digits, which cannot be computed without
    /// the key. Hashes for different purposes are unrelated.
    pub fn keyed_hash(&self, purpose: &str, secret: &[u8]) -> String {
        let parts = [self.kind.name.as_bytes(), secret];
        self.key.sign(purpose, parts).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// When the file is missing or invalid.
    pub fn load(&self, name: &str) -> Result<Vec<u8>, LoadError> {
        let mut bytes = match self.folder.read(&self.file(name), self.kind.max_bytes + MAX_LINE) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(LoadError::TooLarge),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LoadError::Missing),
            Err(error) => return Err(LoadError::Io(error)),
        };
        let end = bytes.iter().take(MAX_LINE).position(|byte| *byte == b'\n').ok_or(LoadError::Version)?;
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let body = bytes.split_off(end + 1);
        let sealed = line.strip_prefix(&self.first_line()).ok_or(LoadError::Version)?;
        if self.seal(name, &body) == sealed { Ok(body) } else { Err(LoadError::Seal) }
    }

    /// Replaces the content of a file. A crash of this process leaves the old or the new content; a
    /// crash of the machine may leave neither.
    ///
    /// # Errors
    /// When it is too large or the system refuses; then the old is still there.
    pub fn save(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.folder.replace_without_sync(&self.file(name), &self.sealed(name, body)?)
    }

    /// Returns a signed file with this content.
    fn sealed(&self, name: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        if body.len() > self.kind.max_bytes {
            let most = self.kind.max_bytes;
            return Err(io::Error::other(format!("the content is {} bytes, over the limit of {most}", body.len())));
        }
        let mut content = format!("{}{}\n", self.first_line(), self.seal(name, body)).into_bytes();
        content.extend_from_slice(body);
        Ok(content)
    }

    /// Replaces the content of a file and waits for the disk, so that a crash of the machine leaves
    /// the old or the new content.
    ///
    /// # Errors
    /// When it is too large or the system refuses; then the old is still there.
    pub fn save_durably(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.folder.replace(&self.file(name), &self.sealed(name, body)?)
    }

    /// Returns the stamp of a file.
    pub fn stamp(&self, name: &str) -> Option<Stamp> {
        self.folder.stamp(&self.file(name))
    }

    /// Waits for the lock with this name, which is held until it is dropped.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn lock(&self, name: &str) -> io::Result<Lock> {
        self.folder.lock(&format!("{name}.lock"))
    }

    /// Waits for the lock with this name, at most `timeout`.
    ///
    /// # Errors
    /// When the system refuses, or another process holds the lock.
    pub fn lock_within(&self, name: &str, timeout: Duration) -> io::Result<Lock> {
        self.folder.lock_within(&format!("{name}.lock"), timeout)
    }

    /// Returns the key of the folder.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Marks a file as used now.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn touch(&self, name: &str) -> io::Result<()> {
        self.folder.touch(&self.file(name))
    }

    /// Returns the time when a file was last used.
    ///
    /// # Errors
    /// When there is nothing, or the system refuses.
    pub fn modified(&self, name: &str) -> io::Result<SystemTime> {
        self.folder.modified(&self.file(name))
    }

    /// Returns the number of bytes of a file.
    ///
    /// # Errors
    /// When there is nothing.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        self.folder.stamp(&self.file(name)).map(|(_, size, _)| size).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(&self.file(name))
    }

    /// Returns the names of all files, each with the time of its last use. Also removes temporary files
    /// that are older than an hour.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<(String, SystemTime)>> {
        let mut names = Vec::new();
        self.folder.remove_abandoned();
        for file in self.folder.names()?.into_iter().filter(|file| !is_temporary(file)) {
            let name = file.strip_suffix(self.kind.name).and_then(|name| name.strip_suffix('.'));
            let (Some(name), Ok(modified)) = (name, self.folder.modified(&file)) else { continue };
            names.push((name.to_owned(), modified));
        }
        Ok(names)
    }

    fn file(&self, name: &str) -> String {
        format!("{name}.{}", self.kind.name)
    }

    fn first_line(&self) -> String {
        format!("pegboard-{} {} ", self.kind.name, self.kind.version)
    }

    fn seal(&self, name: &str, body: &[u8]) -> String {
        let digest = digest(body);
        let version = self.kind.version.to_le_bytes();
        let parts = [self.kind.name.as_bytes(), version.as_slice(), name.as_bytes(), &digest];
        self.key.sign("seal", parts).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Checks that a folder can be used for state: it is created if it is missing, must be private to
/// this user, and must be writable.
///
/// # Errors
/// When it cannot.
pub fn check_folder(path: &Path) -> io::Result<()> {
    Folder::open(path)?.check_writable()
}

/// Maximum number of bytes of the first line.
const MAX_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    const KIND: FileKind = FileKind { name: "thing", version: 3, max_bytes: 100 };

    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pegboard-store-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let place = Place::new("saved");
        let store = Store::open(&place.0, KIND).expect("a store");
        assert!(matches!(store.load("a"), Err(LoadError::Missing)));
        store.save("a", b"one\ntwo").expect("saved");
        store.save("b", b"").expect("saved");
        assert_eq!(Store::open(&place.0, KIND).expect("a store").load("a").expect("there"), b"one\ntwo");
        let mut names: Vec<String> = store.names().expect("names").into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        assert!(store.save("a", &[0; 101]).is_err());
        assert_eq!(store.load("a").expect("still there"), b"one\ntwo");
        store.remove("a").expect("removed");
        assert!(matches!(store.load("a"), Err(LoadError::Missing)));
        assert_ne!(store.keyed_hash("x", b"s"), store.keyed_hash("y", b"s"));
        assert_eq!(store.keyed_hash("x", b"s").len(), 32);
    }

    #[test]
    fn a_lock_is_waited_for_and_given_up() {
        let place = Place::new("lock");
        let (one, other) =
            (Store::open(&place.0, KIND).expect("a store"), Store::open(&place.0, KIND).expect("a store"));
        let held = one.lock_within("a", Duration::ZERO).expect("a lock");
        let refused = other.lock_within("a", Duration::from_millis(1)).expect_err("it is held");
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut, "{refused}");
        assert!(other.lock_within("b", Duration::ZERO).is_ok(), "another one");
        let waiting = std::thread::spawn(move || other.lock_within("a", Duration::from_secs(60)).is_ok());
        drop(held);
        assert!(waiting.join().expect("no panic"));
    }

    #[test]
    fn what_was_not_written_here_is_not_believed() {
        let place = Place::new("seal");
        let store = Store::open(&place.0, KIND).expect("a store");
        store.save("a", b"content").expect("saved");
        let file = place.0.join("a.thing");
        let good = fs::read(&file).expect("a file");
        fs::copy(&file, place.0.join("b.thing")).expect("a copy");
        assert!(matches!(store.load("b"), Err(LoadError::Seal)), "under another name");
        // Cut anywhere, or with any byte changed, it is nothing.
        for at in 0..good.len() {
            fs::write(&file, &good[..at]).expect("written");
            assert!(store.load("a").is_err(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&file, bad).expect("written");
            assert!(store.load("a").is_err(), "changed at {at}");
        }
        fs::write(&file, [b'x'; 1000]).expect("written");
        assert!(matches!(store.load("a"), Err(LoadError::TooLarge)));
        let other = Store::open(&place.0, FileKind { version: 4, ..KIND }).expect("a store");
        fs::write(&file, good).expect("written");
        assert!(matches!(other.load("a"), Err(LoadError::Version)));
    }
}
