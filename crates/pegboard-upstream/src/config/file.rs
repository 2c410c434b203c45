//! Configuration files on disk.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use pegboard_config::{
    document::{Document, MAX_BYTES, Problems},
    variables::WORKSPACE_FOLDER,
};

use super::{ServerConfig, servers::read_servers};

/// The error of a configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is too large.
    #[error("`{}` is larger than {MAX_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The file is not UTF-8.
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    /// The file has errors.
    #[error("`{}` has errors:\n  {}", path.display(), problems.lines().join("\n  "))]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// All errors.
        problems: Problems,
    },
}

/// Reads the servers of a configuration file. Other sections are ignored.
///
/// # Errors
/// When the file cannot be read, or all errors of its servers at once.
pub fn read_servers_from(path: &Path) -> Result<Vec<ServerConfig>, ConfigFileError> {
    let text = read_text(path)?;
    let workspace = workspace_of(path).to_string_lossy().into_owned();
    let env = |name: &str| match name {
        WORKSPACE_FOLDER => Some(workspace.clone()),
        name => std::env::var(name).ok(),
    };
    let mut problems = Problems::new();
    let document = Document::parse(&text, &mut problems);
    let servers = document.map(|document| read_servers(&document.root(), &env, &mut problems));
    match servers.filter(|_| problems.is_empty()) {
        Some(servers) => Ok(servers),
        None => Err(ConfigFileError::Mistakes { path: path.to_owned(), problems }),
    }
}

fn read_text(path: &Path) -> Result<String, ConfigFileError> {
    let unreadable = |source| ConfigFileError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(ConfigFileError::TooLarge(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| ConfigFileError::NotText(path.to_owned()))
}

/// Returns the workspace of a file: its folder, or the parent of an editor's settings folder.
pub fn workspace_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_settings = [".vscode", ".cursor"].iter().any(|name| folder.ends_with(name));
    folder.parent().filter(|_| is_settings).unwrap_or(folder).to_owned()
}
