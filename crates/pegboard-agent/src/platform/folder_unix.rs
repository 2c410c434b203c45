//! Folders by descriptor, so that no path can be replaced between two operations.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt as _},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{self as rfs, AtFlags, Dir, FileType, Mode, OFlags, Stat},
    process::geteuid,
};

/// Readable and writable only by the owner.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A session's folder.
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder, and creates it and its parents if they are missing.
    pub(crate) fn make(root: &Path, session: &str) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(root)?;
        match rfs::mkdirat(open_root(root)?, session, Mode::from_raw_mode(FOLDER_MODE as rfs::RawMode)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Self::open(root, session),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the folder; links are not followed, and a folder of another user is rejected.
    pub(crate) fn open(root: &Path, session: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rfs::openat(open_root(root)?, session, flags, Mode::empty())?;
        if rfs::fstat(&folder)?.st_uid != geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        Ok(Self(folder))
    }

    /// Opens a file for reading. A file with several hard links is rejected, since it may belong to
    /// another user.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        // A pipe without a writer must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rfs::openat(&self.0, name, flags, Mode::empty())?;
        let stat = rfs::fstat(&file)?;
        if !is_file(&stat) || stat.st_nlink > 1 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(file.into())
    }

    /// Creates a file that does not exist yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rfs::openat(&self.0, name, flags, Mode::from_raw_mode(FILE_MODE as rfs::RawMode))?.into())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rfs::renameat(&self.0, from, &self.0, to)?)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rfs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Returns when a file was last written; an error for links and folders.
    pub(crate) fn modified(&self, name: &str) -> io::Result<SystemTime> {
        let stat = rfs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !is_file(&stat) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        Ok(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// Returns the names in the folder that are UTF-8; others are not ours.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// Opens the folder above the sessions, which the operator chooses and which may be a link.
fn open_root(root: &Path) -> io::Result<OwnedFd> {
    Ok(rfs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
