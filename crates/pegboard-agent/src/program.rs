//! The program that does what must not be done in this process.

use std::{ffi::OsString, path::PathBuf};

/// A `pegboard` binary, or any program that answers to the same hidden commands: it runs
/// filters, confines commands and supervises servers, each in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// The program at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// `pegboard` on the search path, if it is there.
    pub fn find() -> Option<Self> {
        let name = format!("pegboard{}", std::env::consts::EXE_SUFFIX);
        let paths = std::env::var_os("PATH")?;
        std::env::split_paths(&paths).map(|folder| folder.join(&name)).find(|path| path.is_file()).map(Self::at)
    }

    /// The command line that runs one of its hidden commands; arguments follow.
    pub fn command(&self, name: &str) -> Vec<OsString> {
        vec![self.path.clone().into_os_string(), name.into()]
    }
}
