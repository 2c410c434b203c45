//! What servers offered when they last ran, kept on disk.
//!
//! A gateway that starts answers from these until its servers have come up. Nothing here is
//! needed: what is missing, damaged, too old or somebody else's is left aside, and a folder
//! that cannot be written to costs one warning.
//!
//! A folder holds one file for each configuration of a server, named by its
//! [`Fingerprint`], and the key that fingerprints and seals are made with. Several programs
//! may share it: files are replaced whole.

mod fingerprint;
mod format;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

pub(crate) use self::{fingerprint::Fingerprint, format::Seal};
use pegboard_state::{Folder, Key, is_unfinished};

use crate::{config::ServerConfig, handshake::Hello, listing::Lists};

/// A larger manifest is neither written nor read.
const MAX_BYTES: usize = 64 << 20;

/// A manifest that nobody has used for so long is removed.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// How old the mark of a manifest's last use may get before it is renewed: a write for every
/// start would be one too many.
const MARKED_FOR: Duration = Duration::from_secs(24 * 3600);

/// An unfinished file of this age has nobody left who would finish it.
const UNFINISHED_FOR: Duration = Duration::from_secs(3600);

/// What a server said of itself and what it offered.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) hello: Hello,
    pub(crate) lists: Lists,
}

/// A folder of manifests.
#[derive(Debug)]
pub(crate) struct Manifests {
    folder: Folder,
    key: Key,
    /// Whether it was said that nothing can be kept.
    has_warned: AtomicBool,
}

/// Why a manifest was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("not found")]
    Missing,
    #[error("cannot be read")]
    Io(#[source] io::Error),
    #[error("larger than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("written by another version of Pegboard")]
    Version,
    #[error("invalid signature: the file is damaged, or comes from another installation")]
    Seal,
    #[error("invalid content")]
    Content(#[source] serde_json::Error),
}

impl Manifests {
    /// Opens the folder, and makes it and its key where they are missing.
    ///
    /// # Errors
    /// When it can be neither read nor made, or others could write to it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        let key = Key::of(&folder)?;
        Ok(Self { folder, key, has_warned: AtomicBool::new(false) })
    }

    /// By what a server's manifest is found; servers inside this process have none.
    pub(crate) fn fingerprint(&self, config: &ServerConfig) -> Option<Fingerprint> {
        Fingerprint::of(config, &self.key)
    }

    /// What was kept, and the seal that it has.
    pub(crate) fn load(&self, fingerprint: &Fingerprint) -> Result<(Manifest, Seal), ReadError> {
        let name = file_name(fingerprint);
        let bytes = match self.folder.read(&name, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(ReadError::TooLarge),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ReadError::Missing),
            Err(error) => return Err(ReadError::Io(error)),
        };
        let read = format::decode(&bytes, fingerprint, &self.key)?;
        self.mark(&name);
        Ok(read)
    }

    /// Keeps a manifest, unless it is the one with the seal `known`; the seal that it has now.
    /// What goes wrong is told once: it will go wrong again.
    pub(crate) fn save(&self, fingerprint: &Fingerprint, manifest: &Manifest, known: Option<Seal>) -> Option<Seal> {
        let (bytes, seal) = format::encode(manifest, fingerprint, &self.key);
        let name = file_name(fingerprint);
        if known == Some(seal) && self.folder.modified(&name).is_ok() {
            self.mark(&name);
            return known;
        }
        let written = match bytes.len() {
            length if length > MAX_BYTES => {
                Err(io::Error::other(format!("the list is {length} bytes, over the limit of {MAX_BYTES}")))
            }
            _ => self.folder.replace(&name, &bytes),
        };
        match written {
            Ok(()) => Some(seal),
            Err(error) => {
                self.warn(&error);
                None
            }
        }
    }

    /// Whether the server did not answer when it was last started.
    pub(crate) fn was_silent(&self, fingerprint: &Fingerprint) -> bool {
        self.folder.modified(&silent_name(fingerprint)).is_ok()
    }

    /// Notes whether the server answers, for the next start.
    pub(crate) fn note_silence(&self, fingerprint: &Fingerprint, is_silent: bool) {
        let name = silent_name(fingerprint);
        let noted = if is_silent { self.folder.replace(&name, b"") } else { self.folder.remove(&name) };
        if let Err(error) = noted {
            tracing::debug!(%error, is_silent, "cannot save whether the server answered");
        }
    }

    /// Removes what nobody has used for long, except for `used`.
    pub(crate) fn sweep(&self, used: &[Fingerprint]) {
        let used: Vec<String> = used.iter().flat_map(|one| [file_name(one), silent_name(one)]).collect();
        let now = SystemTime::now();
        for name in self.folder.names().unwrap_or_default() {
            let limit = match name.as_str() {
                name if is_unfinished(name) => UNFINISHED_FOR,
                name if is_manifest(name) && !used.iter().any(|one| one == name) => KEPT_FOR,
                // Whatever else lies here is not ours.
                _ => continue,
            };
            // A file from the future says that a clock was wrong, and nothing of its age.
            let age = self.folder.modified(&name).ok().and_then(|then| now.duration_since(then).ok());
            if age.is_some_and(|age| age > limit) && self.folder.remove(&name).is_ok() {
                tracing::debug!(file = name, "unused tool list removed from the cache");
            }
        }
    }

    /// Marks a manifest as used.
    fn mark(&self, name: &str) {
        let age = self.folder.modified(name).ok().map(|then| SystemTime::now().duration_since(then));
        let is_old = !matches!(age, Some(Ok(age)) if age < MARKED_FOR);
        if is_old && let Err(error) = self.folder.touch(name) {
            tracing::debug!(file = name, %error, "cannot mark the cached tool list as used");
        }
    }

    fn warn(&self, error: &io::Error) {
        let folder = self.folder.path().display();
        if self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(%folder, %error, "cannot cache the tool list of a server");
        } else {
            tracing::warn!(%folder, %error, "cannot cache tool lists");
        }
    }
}

/// Reads the manifests of these servers; what is kept for each, in their order.
pub(crate) fn recall(folder: &Path, configs: &[ServerConfig]) -> Option<(Manifests, Vec<Recalled>)> {
    let manifests = match Manifests::open(folder) {
        Ok(manifests) => manifests,
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "cannot cache tool lists");
            return None;
        }
    };
    let recalled = |config: &ServerConfig| {
        let fingerprint = config.is_enabled.then(|| manifests.fingerprint(config)).flatten();
        let kept = fingerprint.as_ref().and_then(|fingerprint| match manifests.load(fingerprint) {
            Ok(kept) => Some(kept),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::debug!(server = config.name, %error, cause, "cached tool list not used");
                None
            }
        });
        let was_silent = fingerprint.as_ref().is_some_and(|fingerprint| manifests.was_silent(fingerprint));
        Recalled { fingerprint, kept, was_silent }
    };
    let recalled: Vec<Recalled> = configs.iter().map(recalled).collect();
    Some((manifests, recalled))
}

/// What is kept for one server.
#[derive(Debug)]
pub(crate) struct Recalled {
    /// Under which it is kept, if it can be.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) kept: Option<(Manifest, Seal)>,
    /// Whether it did not answer the last time.
    pub(crate) was_silent: bool,
}

/// A manifest read and written again, for a key and a configuration that are always the same.
#[cfg(fuzzing)]
pub(crate) fn rewritten(file: &[u8]) -> Result<Vec<u8>, String> {
    let (key, fingerprint) = format::always();
    let (manifest, _) = format::decode(file, &fingerprint, &key).map_err(|error| error.to_string())?;
    Ok(format::encode(&manifest, &fingerprint, &key).0)
}

/// `body` as a file, sealed for that key.
#[cfg(fuzzing)]
pub(crate) fn sealed(body: &[u8]) -> Vec<u8> {
    let (key, fingerprint) = format::always();
    format::sealed(body, &fingerprint, &key)
}

fn file_name(fingerprint: &Fingerprint) -> String {
    format!("{fingerprint}{ENDING}")
}

fn silent_name(fingerprint: &Fingerprint) -> String {
    format!("{fingerprint}{SILENT}")
}

/// What the names of manifests end with.
const ENDING: &str = ".manifest";

/// What the name of an empty file ends with that stands for a server that did not answer.
const SILENT: &str = ".silent";

fn is_manifest(name: &str) -> bool {
    let print = name.strip_suffix(ENDING).or_else(|| name.strip_suffix(SILENT));
    print.is_some_and(Fingerprint::is_one)
}
