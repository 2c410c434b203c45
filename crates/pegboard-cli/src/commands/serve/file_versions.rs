//! Detection of changed files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use pegboard_state::platform::file_number;

use crate::{
    config::{Config, Content},
    error::CliError,
};

/// The version of a file by its metadata; `None` if the file does not exist.
pub(super) type FileVersion = Option<(Option<SystemTime>, u64, u64)>;

/// The versions of several files.
pub(super) type FileVersions = BTreeMap<PathBuf, FileVersion>;

/// Returns the version of the file at `path`.
pub(super) fn file_version(path: &Path) -> FileVersion {
    let data = fs::metadata(path).ok()?;
    Some((data.modified().ok(), data.len(), file_number(&data)))
}

/// Returns the versions of these files.
pub(super) async fn file_versions(paths: impl Iterator<Item = PathBuf>) -> FileVersions {
    let paths: Vec<PathBuf> = paths.collect();
    let read = || paths.into_iter().map(|path| (file_version(&path), path)).map(|(mark, path)| (path, mark)).collect();
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// Reads the configuration at `path` with `load`, and returns it with the versions of its files.
pub(super) fn read(
    path: &Path,
    load: impl FnOnce() -> Result<Content, CliError>,
) -> (Result<Config, CliError>, FileVersions) {
    // Before it is read: what is written meanwhile is seen then.
    let own = file_version(path);
    let (config, others) = match load() {
        Ok(content) => content.read_watching(),
        Err(error) => (Err(error), Vec::new()),
    };
    let others = others.into_iter().map(|path| (file_version(&path), path)).map(|(mark, path)| (path, mark));
    (config, others.chain([(path.to_owned(), own)]).collect())
}
