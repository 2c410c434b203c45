//! Folders by path, for systems without directory descriptors.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A session's folder.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and creates it and its parents if they are missing.
    pub(crate) fn make(root: &Path, session: &str) -> io::Result<Self> {
        fs::create_dir_all(root.join(session))?;
        Self::open(root, session)
    }

    /// Opens the folder; links are not followed.
    pub(crate) fn open(root: &Path, session: &str) -> io::Result<Self> {
        let path = root.join(session);
        if !fs::symlink_metadata(&path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(path))
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        self.modified(name)?;
        let file = File::open(self.0.join(name))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Creates a file that does not exist yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Returns when a file was last written; an error for links and folders.
    pub(crate) fn modified(&self, name: &str) -> io::Result<SystemTime> {
        let metadata = fs::symlink_metadata(self.0.join(name))?;
        if metadata.is_file() { metadata.modified() } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Returns the names in the folder that are UTF-8; others are not ours.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }
}
