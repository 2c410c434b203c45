//! The private folder of one command, for its temporary files and for the socket of the tool API.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tokio::net::UnixListener;

use super::cleanup;
use crate::shell::error::ShellError;

/// The socket of the tool API in a command's private folder.
pub(super) const SOCKET: &str = "api.sock";

/// The prefix of the names of private folders.
const PREFIX: &str = "pegboard-run-";

/// Number of random bytes in the rest of the name.
const RANDOM_BYTES: usize = 16;

/// Age from which an unused folder counts as abandoned.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of names that are checked for abandoned folders.
const MAX_NAMES: usize = 10_000;

/// Maximum number of abandoned folders that are removed at once.
const MAX_SWEPT: usize = 100;

/// A folder that only its owner can enter.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    pub(super) path: PathBuf,
    /// Held open and locked: a folder that can be locked is not in use.
    folder: OwnedFd,
}

impl PrivateFolder {
    /// Creates a folder in the system's folder for temporary files.
    pub(super) fn new() -> Result<Self, ShellError> {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(base: &Path) -> Result<Self, ShellError> {
        let cannot = |path: &Path, source| ShellError::Private { path: path.to_owned(), source };
        let base = base.canonicalize().map_err(|source| cannot(base, source))?;
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| cannot(&base, io::Error::other(error.to_string())))?;
        let name = random.iter().fold(PREFIX.to_owned(), |name, byte| format!("{name}{byte:02x}"));
        let path = base.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|source| cannot(&path, source))?;
        let folder = lock(&path).map_err(|source| {
            let _ = fs::remove_dir(&path);
            cannot(&path, source)
        })?;
        Ok(Self { path, folder })
    }

    /// Listens on the socket. It is reached through the open folder: the path of a socket must be
    /// short, and that of the folder for temporary files may be long.
    pub(super) fn listen(&self) -> Result<UnixListener, ShellError> {
        let open = PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()));
        let folder = if open.exists() { &open } else { &self.path };
        let listening = UnixListener::bind(folder.join(SOCKET));
        listening.map_err(|source| ShellError::Private { path: self.path.join(SOCKET), source })
    }

    /// Removes the folder. No process of the command may be left that could change it.
    pub(super) fn remove(self) {
        if let Err(error) = cleanup::remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove temporary files of a command");
        }
    }
}

fn lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Removes private folders of agents that were killed.
pub(super) fn sweep() {
    sweep_in(&std::env::temp_dir(), SystemTime::now());
}

fn sweep_in(base: &Path, now: SystemTime) {
    let names = fs::read_dir(base).into_iter().flatten().flatten().take(MAX_NAMES);
    let stale = names.filter(|entry| is_ours(&entry.file_name().to_string_lossy()) && is_stale(entry, now));
    for entry in stale.take(MAX_SWEPT) {
        // Its owner may have closed it; then it is not in use either.
        match lock(&entry.path()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => {
                let _ = cleanup::remove(&entry.path());
            }
        }
    }
}

/// Returns whether this is the name of a private folder.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|random| {
        random.len() == 2 * RANDOM_BYTES && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is_stale(entry: &fs::DirEntry, now: SystemTime) -> bool {
    // Of the entry itself: a link is not followed.
    let Ok(data) = entry.metadata() else { return false };
    let age = data.modified().ok().and_then(|then| now.duration_since(then).ok());
    data.is_dir() && data.uid() == rustix::process::getuid().as_raw() && age.is_some_and(|age| age > STALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(name: &str) -> PathBuf {
        let base = std::env::temp_dir().join(format!("pegboard-private-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(&base).expect("a folder");
        base
    }

    #[tokio::test]
    async fn a_socket_in_a_folder_with_a_long_path() {
        let base = base("long");
        let long = base.join("x".repeat(200));
        fs::create_dir(&long).expect("a folder");
        let private = PrivateFolder::new_in(&long).expect("a folder");
        let listener = private.listen().expect("a socket");
        assert!(private.path.join(SOCKET).exists());
        drop(listener);
        private.remove();
        assert_eq!(fs::read_dir(&long).expect("it is there").count(), 0);
        fs::remove_dir_all(&base).expect("it is ours");
    }

    #[test]
    fn what_was_forgotten_is_swept() {
        let base = base("sweep");
        let used = PrivateFolder::new_in(&base).expect("a folder");
        let forgotten = PrivateFolder::new_in(&base).expect("a folder").path;
        fs::create_dir(forgotten.join("tmp")).expect("a folder");
        let others = ["pegboard-run-1234", "pegboard-0123456789abcdef", "other"].map(|name| base.join(name));
        others.iter().for_each(|path| fs::create_dir(path).expect("a folder"));
        let link = base.join(format!("{PREFIX}{}", "0".repeat(32)));
        std::os::unix::fs::symlink(&others[2], &link).expect("a link");
        sweep_in(&base, SystemTime::now());
        assert!(forgotten.exists(), "it is too young");
        sweep_in(&base, SystemTime::now() + 2 * STALE);
        assert!(!forgotten.exists() && used.path.exists());
        assert!(others.iter().all(|path| path.exists()) && link.is_symlink());
        used.remove();
        fs::remove_dir_all(&base).expect("it is ours");
    }
}
