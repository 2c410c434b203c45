//! Measures how much a command has written.

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, statat},
    io::Errno,
};

use super::cleanup;

/// Maximum depth of folders; each level takes a descriptor.
const MAX_DEPTH: usize = 256;

/// The unit in which the system reports the size of a file on disk.
pub(super) const BLOCK: u64 = 512;

/// The total size of folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderSize {
    pub(super) bytes: u64,
    pub(super) files: usize,
    /// Whether a folder disappeared while it was measured: it may have been moved, with its
    /// content.
    pub(super) has_missed: bool,
}

/// Why the size of folders cannot be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasureError {
    /// Too many files.
    TooMany,
    /// Too deep.
    TooDeep,
    /// Not readable.
    Unreadable,
}

/// Measures the folders. Links are not followed, and own folders without permissions are made
/// readable.
pub(super) fn measure(folders: &[PathBuf], max_files: usize) -> Result<FolderSize, MeasureError> {
    let mut size = FolderSize::default();
    for folder in folders {
        let path = CString::new(folder.as_os_str().as_bytes()).map_err(|_| MeasureError::Unreadable)?;
        match cleanup::open_folder(CWD, &path) {
            Ok(folder) => size.add(folder, max_files)?,
            Err(error) if is_gone(&error) => {}
            Err(_) => return Err(MeasureError::Unreadable),
        }
    }
    Ok(size)
}

impl FolderSize {
    /// Adds the content of a folder.
    fn add(&mut self, folder: OwnedFd, max_files: usize) -> Result<(), MeasureError> {
        let read = |folder| Dir::new(folder).map_err(|_| MeasureError::Unreadable);
        let mut open = vec![read(folder)?];
        while let Some(folder) = open.last_mut() {
            let entry = match folder.read() {
                Some(Ok(entry)) if cleanup::is_self(entry.file_name()) => continue,
                Some(Ok(entry)) => entry,
                Some(Err(_)) => return Err(MeasureError::Unreadable),
                None => {
                    open.pop();
                    continue;
                }
            };
            self.files += 1;
            if self.files > max_files {
                return Err(MeasureError::TooMany);
            }
            let at = folder.fd().map_err(|_| MeasureError::Unreadable)?;
            let stat = match statat(at, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(error) if is_gone(&error.into()) => {
                    self.has_missed |= entry.file_type() == FileType::Directory;
                    continue;
                }
                Err(_) => return Err(MeasureError::Unreadable),
            };
            self.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                continue;
            }
            let below = match cleanup::open_folder(at, entry.file_name()) {
                Ok(below) => read(below)?,
                Err(error) if is_gone(&error) => {
                    self.has_missed = true;
                    continue;
                }
                Err(_) => return Err(MeasureError::Unreadable),
            };
            if open.len() == MAX_DEPTH {
                return Err(MeasureError::TooDeep);
            }
            open.push(below);
        }
        Ok(())
    }
}

/// Returns whether the error is due to a concurrent change: the file is gone, of another type, or a
/// link that must not be followed.
fn is_gone(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pegboard-disk-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("a/b")).expect("a folder");
        path
    }

    #[test]
    fn everything_below_counts_and_links_do_not() {
        let path = folder("counts");
        let before = measure(std::slice::from_ref(&path), 100).expect("it is small");
        fs::write(path.join("a/b/file"), vec![1; 100_000]).expect("a file");
        std::os::unix::fs::symlink("/usr", path.join("link")).expect("a link");
        let after = measure(&[path.clone(), PathBuf::from("/no/such/folder")], 100).expect("it is small");
        assert!((100_000..120_000).contains(&(after.bytes - before.bytes)), "{before:?} {after:?}");
        assert_eq!((before.files, after.files, after.has_missed), (2, 4, false));
        assert_eq!(measure(std::slice::from_ref(&path), 3), Err(MeasureError::TooMany));
        // Not even where a folder is expected.
        assert_eq!(measure(&[path.join("link")], 3), Ok(FolderSize::default()));
        fs::remove_dir_all(&path).expect("it is ours");
    }

    #[test]
    fn what_is_closed_is_opened_and_what_is_too_deep_is_not_measured() {
        let path = folder("closed");
        fs::write(path.join("a/b/file"), vec![1; 100_000]).expect("a file");
        for name in ["a/b", "a"] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o000)).expect("it is ours");
        }
        let size = measure(std::slice::from_ref(&path), 100).expect("it is ours");
        assert!(size.bytes > 100_000 && size.files == 3, "{size:?}");
        let deep = (0..MAX_DEPTH).fold(path.clone(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).expect("folders");
        assert_eq!(measure(std::slice::from_ref(&path), 1000), Err(MeasureError::TooDeep));
        fs::remove_dir_all(&path).expect("it is ours");
    }
}
