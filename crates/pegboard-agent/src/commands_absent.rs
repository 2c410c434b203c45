//! An agent without code execution.

use std::{convert::Infallible, sync::Arc, time::Duration};

use crate::{
    builder::BuildError,
    call_runner::{Done, Hands},
    program::Program,
};

/// How commands run.
#[derive(Debug, Default)]
pub(crate) struct CommandSettings {}

/// The API for commands, of which there is none.
pub(crate) type ToolApi = Infallible;

/// Runs commands, of which there are none.
#[derive(Debug)]
pub(crate) struct Commands(Infallible);

impl Commands {
    /// Returns an error: there is no code execution.
    #[expect(clippy::unused_async, reason = "other builds wait here")]
    pub(crate) async fn start(
        _hands: &Arc<Hands>,
        _settings: CommandSettings,
        _id: &str,
        _program: Option<Program>,
    ) -> Result<(Self, ToolApi), BuildError> {
        Err(BuildError::NoCodeExecution)
    }

    #[expect(clippy::unused_async, reason = "other builds wait here")]
    pub(crate) async fn run(&self, _command: &str, _timeout: Option<Duration>) -> Done {
        match self.0 {}
    }
}
