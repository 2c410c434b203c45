//! Errors of offloaded outputs.

use std::{io, path::PathBuf};

/// Why an output could not be offloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The session's identifier cannot be used as a folder name.
    #[error("invalid session name `{session}`: expected 1 to {limit} bytes")]
    Session {
        /// The identifier, shortened.
        session: String,
        /// The maximum length.
        limit: usize,
    },
    /// The output is too large.
    #[error("the output is {bytes} bytes, over the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The folder cannot be created, or belongs to another user.
    #[error("cannot use the folder `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The task was cancelled, for example at shutdown.
    #[error("the request was cancelled")]
    Cancelled(#[source] tokio::task::JoinError),
}

impl OutputError {
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooLarge { .. } => Some("ask the tool for less, for example page by page"),
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or choose another folder for outputs")
            }
            Self::Folder { .. } => Some("choose a writable folder that belongs to you"),
            _ => None,
        }
    }
}
