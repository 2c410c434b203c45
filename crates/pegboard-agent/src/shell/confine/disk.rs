//! How much a command has written.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt, path::PathBuf};

use pegboard_upstream::processes::Process;

/// How many descriptors are looked at for files without a name.
const MAX_DESCRIPTORS: usize = 20_000;

/// The unit in which the system counts what a file occupies.
const BLOCK: u64 = 512;

/// What folders hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) files: usize,
}

/// Why what the folders hold cannot be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unmeasured {
    /// There are too many files.
    TooMany,
    /// A folder cannot be read, or lies too deep.
    Unreadable(PathBuf),
}

/// What the folders hold. Links are not followed.
pub(super) fn measure(folders: &[PathBuf], max_files: usize) -> Result<Size, Unmeasured> {
    let mut open = folders.to_vec();
    let (mut bytes, mut files) = (0, 0);
    while let Some(folder) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // It is being changed while we look.
            Err(error) if is_gone(&error) => continue,
            Err(_) => return Err(Unmeasured::Unreadable(folder)),
        };
        for entry in entries {
            files += 1;
            if files > max_files {
                return Err(Unmeasured::TooMany);
            }
            let Ok(entry) = entry else { return Err(Unmeasured::Unreadable(folder)) };
            match entry.metadata() {
                Ok(data) => {
                    bytes += data.blocks() * BLOCK;
                    if data.is_dir() {
                        open.push(entry.path());
                    }
                }
                Err(error) if is_gone(&error) => {}
                Err(_) => return Err(Unmeasured::Unreadable(entry.path())),
            }
        }
    }
    Ok(Size { bytes, files })
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// How many bytes the processes hold in files that have no name any more, or never had one.
pub(super) fn nameless(processes: &[Process]) -> u64 {
    let folders = processes.iter().map(|process| format!("/proc/{}/fd", process.pid.as_raw_nonzero()));
    let descriptors = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut seen = BTreeSet::new();
    let files = descriptors.take(MAX_DESCRIPTORS).filter_map(|descriptor| fs::metadata(descriptor.path()).ok());
    files
        .filter(|data| data.is_file() && data.nlink() == 0 && seen.insert((data.dev(), data.ino())))
        .map(|data| data.blocks() * BLOCK)
        .sum()
}

#[cfg(test)]
mod tests {
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
        assert_eq!((before.files, after.files), (2, 4));
        assert_eq!(measure(std::slice::from_ref(&path), 3), Err(Unmeasured::TooMany));
        fs::remove_dir_all(&path).expect("it is ours");
    }
}
