//! Small files of an installation: replaced as a whole, readable for their owner alone, and signed, so that a file from
//! elsewhere is not used.

mod folder;
mod key;
pub mod platform;

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

pub use self::{
    folder::{Folder, Lock, Stamp, is_unfinished},
    key::{BYTES, Key, digest},
};

/// What the files of a store are.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What every file begins with, and the end of its name.
    pub name: &'static str,
    /// Grows with every change of what is written.
    pub version: u32,
    /// A larger file is neither written nor read.
    pub max_bytes: usize,
}

/// Why a file was not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is none.
    #[error("not found")]
    Missing,
    /// The system refuses.
    #[error("cannot be read")]
    Io(#[source] io::Error),
    /// Nothing of ours is so large.
    #[error("too large")]
    TooLarge,
    /// Another version of this program has written it.
    #[error("written by another version of Pegboard")]
    Version,
    /// It is damaged, or was made elsewhere.
    #[error("invalid signature: the file is damaged, or comes from another installation")]
    Seal,
}

/// A folder of sealed files of one kind, and the key that names and seals are made with.
/// Several programs may share it.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    key: Key,
    kind: Kind,
}

impl Store {
    /// Opens the folder, and makes it and its key where they are missing.
    ///
    /// # Errors
    /// When it can be neither read nor made, or others could write to it.
    pub fn open(path: &Path, kind: Kind) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        let key = Key::of(&folder)?;
        Ok(Self { folder, key, kind })
    }

    /// [`open`](Self::open) that refuses a folder with files of this kind and without their
    /// key: with a new key they would count as missing.
    ///
    /// # Errors
    /// When the folder cannot be used, or the key is missing.
    pub fn open_with_key(path: &Path, kind: Kind) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        let is_of_kind = |file: &String| file.strip_suffix(kind.name).is_some_and(|name| name.ends_with('.'));
        if !Key::is_in(&folder)? && folder.names()?.iter().any(is_of_kind) {
            let reason = "the file `key` is missing or damaged, and nothing else in the folder can be verified; \
                          restore the file, or remove the folder to start over";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Self::open(path, kind)
    }

    /// A short text that only whoever knows `secret` and the key can come to, in letters and
    /// digits. What is made for different purposes has nothing in common.
    pub fn mark(&self, purpose: &str, secret: &[u8]) -> String {
        let parts = [self.kind.name.as_bytes(), secret];
        self.key.sign(purpose, parts).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What was saved under a name.
    ///
    /// # Errors
    /// When there is nothing, or nothing that can be trusted.
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
        let sealed = line.strip_prefix(&self.head()).ok_or(LoadError::Version)?;
        if self.seal(name, &body) == sealed { Ok(body) } else { Err(LoadError::Seal) }
    }

    /// Saves something under a name, in place of what was there. A crash of this program
    /// leaves the old or the new; one of the machine may leave neither.
    ///
    /// # Errors
    /// When it is too large or the system refuses; then the old is still there.
    pub fn save(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.folder.replace_quickly(&self.file(name), &self.sealed(name, body)?)
    }

    /// The file with this content.
    fn sealed(&self, name: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        if body.len() > self.kind.max_bytes {
            let most = self.kind.max_bytes;
            return Err(io::Error::other(format!("the content is {} bytes, over the limit of {most}", body.len())));
        }
        let mut content = format!("{}{}\n", self.head(), self.seal(name, body)).into_bytes();
        content.extend_from_slice(body);
        Ok(content)
    }

    /// [`save`](Self::save) that a crash of the machine does not undo either: the disk is
    /// waited for.
    ///
    /// # Errors
    /// When it is too large or the system refuses; then the old is still there.
    pub fn save_surely(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.folder.replace(&self.file(name), &self.sealed(name, body)?)
    }

    /// What is saved under a name, as it looks from outside.
    pub fn stamp(&self, name: &str) -> Option<Stamp> {
        self.folder.stamp(&self.file(name))
    }

    /// Waits until nobody else has the lock with this name, and has it until it is dropped.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn lock(&self, name: &str) -> io::Result<Lock> {
        self.folder.lock(&format!("{name}.lock"))
    }

    /// [`lock`](Self::lock) that waits no longer than `patience`.
    ///
    /// # Errors
    /// When the system refuses, or somebody else does not let go of it.
    pub fn lock_within(&self, name: &str, patience: Duration) -> io::Result<Lock> {
        self.folder.lock_within(&format!("{name}.lock"), patience)
    }

    /// Returns the key of the folder.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Marks what is saved under a name as used now.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn touch(&self, name: &str) -> io::Result<()> {
        self.folder.touch(&self.file(name))
    }

    /// When what is saved under a name was last used.
    ///
    /// # Errors
    /// When there is nothing, or the system refuses.
    pub fn modified(&self, name: &str) -> io::Result<SystemTime> {
        self.folder.modified(&self.file(name))
    }

    /// How many bytes the file under a name has.
    ///
    /// # Errors
    /// When there is nothing.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        self.folder.stamp(&self.file(name)).map(|(_, size, _)| size).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Removes what is saved under a name.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(&self.file(name))
    }

    /// The names under which something is saved, each with when it was last used. What others
    /// have not finished to write for an hour is removed.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<(String, SystemTime)>> {
        let mut names = Vec::new();
        self.folder.remove_unfinished();
        for file in self.folder.names()?.into_iter().filter(|file| !is_unfinished(file)) {
            let name = file.strip_suffix(self.kind.name).and_then(|name| name.strip_suffix('.'));
            let (Some(name), Ok(modified)) = (name, self.folder.modified(&file)) else { continue };
            names.push((name.to_owned(), modified));
        }
        Ok(names)
    }

    fn file(&self, name: &str) -> String {
        format!("{name}.{}", self.kind.name)
    }

    fn head(&self) -> String {
        format!("pegboard-{} {} ", self.kind.name, self.kind.version)
    }

    fn seal(&self, name: &str, body: &[u8]) -> String {
        let digest = digest(body);
        let version = self.kind.version.to_le_bytes();
        let parts = [self.kind.name.as_bytes(), version.as_slice(), name.as_bytes(), &digest];
        self.key.sign("seal", parts).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Checks that a folder can hold state: it is made where it is missing, belongs to this user
/// alone, and can be written to.
///
/// # Errors
/// When it cannot.
pub fn check_folder(path: &Path) -> io::Result<()> {
    Folder::open(path)?.check_writable()
}

/// The first line is not longer than this.
const MAX_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    const KIND: Kind = Kind { name: "thing", version: 3, max_bytes: 100 };

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
        assert_ne!(store.mark("x", b"s"), store.mark("y", b"s"));
        assert_eq!(store.mark("x", b"s").len(), 32);
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
        let other = Store::open(&place.0, Kind { version: 4, ..KIND }).expect("a store");
        fs::write(&file, good).expect("written");
        assert!(matches!(other.load("a"), Err(LoadError::Version)));
    }
}
