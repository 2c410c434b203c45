//! Replaces `commands` in builds without code execution.

use std::{convert::Infallible, sync::Arc, time::Duration};

use crate::{
    Program,
    builder::BuildError,
    call_runner::{CallOutcome, CallRunner},
};

/// The settings of commands.
#[derive(Debug, Default)]
pub(crate) struct CommandSettings {}

/// The tool API, which does not exist in this build.
pub(crate) type ToolApi = Infallible;

/// Runs commands; cannot be created in this build.
#[derive(Debug)]
pub(crate) struct Commands(Infallible);

impl Commands {
    /// Returns an error: code execution is not compiled in.
    #[expect(clippy::unused_async, reason = "other builds wait here")]
    pub(crate) async fn start(
        _hands: &Arc<CallRunner>,
        _settings: CommandSettings,
        _id: &str,
        _program: Option<Program>,
    ) -> Result<(Self, ToolApi), BuildError> {
        Err(BuildError::NoCodeExecution)
    }

    #[expect(clippy::unused_async, reason = "other builds wait here")]
    pub(crate) async fn run(&self, _command: &str, _timeout: Option<Duration>) -> CallOutcome {
        match self.0 {}
    }
}
