//! A cache on disk of the lists of servers, from when they last ran.
//!
//! A gateway that starts answers from it until its servers are ready. The cache is optional: a
//! file that is missing, damaged, outdated or from another installation is ignored, and a folder
//! that is not writable causes one warning.
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
use pegboard_state::{Folder, Key, is_temporary};

use crate::{capabilities::Capabilities, config::ServerConfig, handshake::Hello, listing::Lists};

/// Maximum number of bytes of a manifest that is written or read.
const MAX_BYTES: usize = 64 << 20;

/// How long a manifest may be unused before it is removed.
const MAX_UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum age of the time stamp of a manifest's last use. It is not renewed at every start, to
/// save writes.
const MAX_STAMP_AGE: Duration = Duration::from_secs(24 * 3600);

/// Age at which a temporary file is abandoned: its writer has ended.
const MAX_UNFINISHED: Duration = Duration::from_secs(3600);

/// The handshake and the lists of a server.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) hello: Hello,
    pub(crate) lists: Lists,
    /// Whether the server has asked a client anything.
    pub(crate) asks: bool,
    /// The capabilities of clients that the lists take into account; `None` if that is not known.
    pub(crate) declared: Option<Capabilities>,
}

/// The folder of cached manifests.
#[derive(Debug)]
pub(crate) struct Manifests {
    folder: Folder,
    key: Key,
    /// Whether a failure to write was already logged as a warning.
    has_warned: AtomicBool,
}

/// The reason why a manifest is not used.
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
    /// Opens the folder, and creates it and its key if they are missing.
    ///
    /// # Errors
    /// When it can be neither read nor created, or other users could write to it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        let key = Key::of(&folder)?;
        Ok(Self { folder, key, has_warned: AtomicBool::new(false) })
    }

    /// Returns the fingerprint that names a server's manifest; servers inside this process have none.
    pub(crate) fn fingerprint(&self, config: &ServerConfig) -> Option<Fingerprint> {
        Fingerprint::of(config, &self.key)
    }

    /// Reads a manifest and its seal.
    pub(crate) fn load(&self, fingerprint: &Fingerprint) -> Result<(Manifest, Seal), ReadError> {
        let name = file_name(fingerprint);
        let bytes = match self.folder.read(&name, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(ReadError::TooLarge),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ReadError::Missing),
            Err(error) => return Err(ReadError::Io(error)),
        };
        let read = format::decode(&bytes, fingerprint, &self.key)?;
        self.mark_used(&name);
        Ok(read)
    }

    /// Writes a manifest, unless its seal is `known`, and returns its seal. Only the first failure is
    /// a warning, because later writes will fail in the same way.
    pub(crate) fn save(&self, fingerprint: &Fingerprint, manifest: &Manifest, known: Option<Seal>) -> Option<Seal> {
        let (bytes, seal) = format::encode(manifest, fingerprint, &self.key);
        let name = file_name(fingerprint);
        if known == Some(seal) && self.folder.modified(&name).is_ok() {
            self.mark_used(&name);
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

    /// Returns whether the server did not answer when it was last started.
    pub(crate) fn was_silent(&self, fingerprint: &Fingerprint) -> bool {
        self.folder.modified(&silent_file_name(fingerprint)).is_ok()
    }

    /// Records whether the server answers, for the next start.
    pub(crate) fn record_silence(&self, fingerprint: &Fingerprint, is_silent: bool) {
        let name = silent_file_name(fingerprint);
        let noted = if is_silent { self.folder.replace(&name, b"") } else { self.folder.remove(&name) };
        if let Err(error) = noted {
            tracing::debug!(%error, is_silent, "cannot save whether the server answered");
        }
    }

    /// Removes files that were not used for long, except those of `used`.
    pub(crate) fn remove_unused(&self, used: &[Fingerprint]) {
        let used: Vec<String> = used.iter().flat_map(|one| [file_name(one), silent_file_name(one)]).collect();
        let now = SystemTime::now();
        for name in self.folder.names().unwrap_or_default() {
            let limit = match name.as_str() {
                name if is_temporary(name) => MAX_UNFINISHED,
                name if is_cache_file(name) && !used.iter().any(|one| one == name) => MAX_UNUSED,
                // Other files do not belong to the cache.
                _ => continue,
            };
            // A time in the future means that a clock was wrong; the age is then unknown.
            let age = self.folder.modified(&name).ok().and_then(|then| now.duration_since(then).ok());
            if age.is_some_and(|age| age > limit) && self.folder.remove(&name).is_ok() {
                tracing::debug!(file = name, "unused tool list removed from the cache");
            }
        }
    }

    /// Marks a manifest as used.
    fn mark_used(&self, name: &str) {
        let age = self.folder.modified(name).ok().map(|then| SystemTime::now().duration_since(then));
        let is_old = !matches!(age, Some(Ok(age)) if age < MAX_STAMP_AGE);
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

/// Reads the manifests of these servers, in their order.
pub(crate) fn load_manifests(folder: &Path, configs: &[ServerConfig]) -> Option<(Manifests, Vec<CachedManifest>)> {
    let manifests = match Manifests::open(folder) {
        Ok(manifests) => manifests,
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "cannot cache tool lists");
            return None;
        }
    };
    let load = |config: &ServerConfig| {
        let fingerprint = config.is_enabled.then(|| manifests.fingerprint(config)).flatten();
        let manifest = fingerprint.as_ref().and_then(|fingerprint| match manifests.load(fingerprint) {
            Ok(manifest) => Some(manifest),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::debug!(server = config.name, %error, cause, "cached tool list not used");
                None
            }
        });
        let was_silent = fingerprint.as_ref().is_some_and(|fingerprint| manifests.was_silent(fingerprint));
        CachedManifest { fingerprint, manifest, was_silent }
    };
    let cached: Vec<CachedManifest> = configs.iter().map(load).collect();
    Some((manifests, cached))
}

/// The cached data of one server.
#[derive(Debug)]
pub(crate) struct CachedManifest {
    /// The fingerprint of the server, if it can have a manifest.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) manifest: Option<(Manifest, Seal)>,
    /// Whether the server did not answer when it was last started.
    pub(crate) was_silent: bool,
}

/// Decodes a manifest and encodes it again, with a fixed key and configuration.
#[cfg(fuzzing)]
pub(crate) fn rewrite(file: &[u8]) -> Result<Vec<u8>, String> {
    let (key, fingerprint) = format::fixed_key();
    let (manifest, _) = format::decode(file, &fingerprint, &key).map_err(|error| error.to_string())?;
    Ok(format::encode(&manifest, &fingerprint, &key).0)
}

/// Returns a manifest file with this body, sealed with the fixed key.
#[cfg(fuzzing)]
pub(crate) fn seal(body: &[u8]) -> Vec<u8> {
    let (key, fingerprint) = format::fixed_key();
    format::seal_body(body, &fingerprint, &key)
}

fn file_name(fingerprint: &Fingerprint) -> String {
    format!("{fingerprint}{SUFFIX}")
}

fn silent_file_name(fingerprint: &Fingerprint) -> String {
    format!("{fingerprint}{SILENT_SUFFIX}")
}

/// Suffix of the names of manifests.
const SUFFIX: &str = ".manifest";

/// Suffix of the name of an empty file that marks a server that did not answer.
const SILENT_SUFFIX: &str = ".silent";

fn is_cache_file(name: &str) -> bool {
    let print = name.strip_suffix(SUFFIX).or_else(|| name.strip_suffix(SILENT_SUFFIX));
    print.is_some_and(Fingerprint::is_valid)
}
