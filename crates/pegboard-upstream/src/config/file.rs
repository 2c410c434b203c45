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

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no configuration by its size alone.
    #[error("`{}` is larger than {MAX_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// It is no text.
    #[error("`{}` is not UTF-8", .0.display())]
    NotText(PathBuf),
    /// It has mistakes.
    #[error("`{}` has errors:\n  {}", path.display(), problems.lines().join("\n  "))]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// All of them.
        problems: Problems,
    },
}

/// The servers that a file configures under `mcpServers`. Other sections are not looked at.
///
/// # Errors
/// When the file cannot be read; or all that is wrong with its servers at once.
pub fn servers_from(path: &Path) -> Result<Vec<ServerConfig>, FileError> {
    let text = read(path)?;
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
        None => Err(FileError::Mistakes { path: path.to_owned(), problems }),
    }
}

fn read(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText(path.to_owned()))
}

/// The folder that a file is about: its own, or the one around an editor's settings.
pub fn workspace_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_settings = [".vscode", ".cursor"].iter().any(|name| folder.ends_with(name));
    folder.parent().filter(|_| is_settings).unwrap_or(folder).to_owned()
}
