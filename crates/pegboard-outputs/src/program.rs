//! The `pegboard` program, which runs work that must not run in this process.

use std::{ffi::OsString, path::PathBuf};

/// A `pegboard` binary, or any program with the same hidden commands: it runs filters, confines
/// commands and supervises servers, each in a separate process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Uses the program at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Finds `pegboard` in `PATH`.
    pub fn find() -> Option<Self> {
        let name = format!("pegboard{}", std::env::consts::EXE_SUFFIX);
        let paths = std::env::var_os("PATH")?;
        std::env::split_paths(&paths).map(|folder| folder.join(&name)).find(|path| path.is_file()).map(Self::at)
    }

    /// Returns the command line of a hidden command; arguments are appended to it.
    pub fn command(&self, name: &str) -> Vec<OsString> {
        vec![self.path.clone().into_os_string(), name.into()]
    }
}
