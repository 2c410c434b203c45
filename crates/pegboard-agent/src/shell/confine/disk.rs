//! How much a command has written.

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

/// How deep folders are looked into; each takes a descriptor.
const MAX_DEPTH: usize = 256;

/// The unit in which the system counts what a file occupies.
pub(super) const BLOCK: u64 = 512;

/// What folders hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) files: usize,
    /// Whether a folder was gone when it was looked into: it may be elsewhere now, with all
    /// that it holds.
    pub(super) has_missed: bool,
}

/// Why what a command holds cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unmeasured {
    /// There is too much of it.
    TooMany,
    /// It lies too deep.
    TooDeep,
    /// It cannot be read.
    Unreadable,
}

/// What the folders hold. Links are not followed, and what is ours and closed is opened.
pub(super) fn measure(folders: &[PathBuf], max_files: usize) -> Result<Size, Unmeasured> {
    let mut size = Size::default();
    for folder in folders {
        let path = CString::new(folder.as_os_str().as_bytes()).map_err(|_| Unmeasured::Unreadable)?;
        match cleanup::open_folder(CWD, &path) {
            Ok(folder) => size.add(folder, max_files)?,
            Err(error) if is_gone(&error) => {}
            Err(_) => return Err(Unmeasured::Unreadable),
        }
    }
    Ok(size)
}

impl Size {
    /// Adds what a folder holds.
    fn add(&mut self, folder: OwnedFd, max_files: usize) -> Result<(), Unmeasured> {
        let read = |folder| Dir::new(folder).map_err(|_| Unmeasured::Unreadable);
        let mut open = vec![read(folder)?];
        while let Some(folder) = open.last_mut() {
            let entry = match folder.read() {
                Some(Ok(entry)) if cleanup::is_self(entry.file_name()) => continue,
                Some(Ok(entry)) => entry,
                Some(Err(_)) => return Err(Unmeasured::Unreadable),
                None => {
                    open.pop();
                    continue;
                }
            };
            self.files += 1;
            if self.files > max_files {
                return Err(Unmeasured::TooMany);
            }
            let at = folder.fd().map_err(|_| Unmeasured::Unreadable)?;
            let stat = match statat(at, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(error) if is_gone(&error.into()) => {
                    self.has_missed |= entry.file_type() == FileType::Directory;
                    continue;
                }
                Err(_) => return Err(Unmeasured::Unreadable),
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
                Err(_) => return Err(Unmeasured::Unreadable),
            };
            if open.len() == MAX_DEPTH {
                return Err(Unmeasured::TooDeep);
            }
            open.push(below);
        }
        Ok(())
    }
}

/// Whether something is being changed while we look: it is gone, or another thing, or a link
/// that must not be followed.
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
        assert_eq!(measure(std::slice::from_ref(&path), 3), Err(Unmeasured::TooMany));
        // Not even where a folder is expected.
        assert_eq!(measure(&[path.join("link")], 3), Ok(Size::default()));
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
        assert_eq!(measure(std::slice::from_ref(&path), 1000), Err(Unmeasured::TooDeep));
        fs::remove_dir_all(&path).expect("it is ours");
    }
}
