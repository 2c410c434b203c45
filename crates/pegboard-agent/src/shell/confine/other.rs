//! Systems on which no commands are run.

use std::{process::ExitCode, time::Duration};

use super::Part;
use crate::shell::{Ran, Sandbox, Shell, ShellError};

/// Fails: commands are not run on this system.
pub fn run(_part: Part) -> ExitCode {
    ExitCode::from(2)
}

/// Does nothing: no command leaves anything behind.
pub(in crate::shell) fn remove_forgotten() {}

/// Fails: commands are not run on this system.
pub(in crate::shell) fn try_sandbox(shell: &Shell, _sandbox: Sandbox) -> Result<Sandbox, ShellError> {
    tracing::debug!(program = ?shell.program, has_api = shell.api.is_some(), "running commands not supported");
    Err(ShellError::System)
}

/// Fails: commands are not run on this system.
#[expect(clippy::unused_async, reason = "the same signature everywhere")]
pub(in crate::shell) async fn launch(_shell: &Shell, _command: &str, _timeout: Duration) -> Result<Ran, ShellError> {
    Err(ShellError::System)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{program::Program, shell::ShellSettings};

    #[tokio::test]
    async fn nothing_is_run() {
        let sandbox = || Sandbox::None { reason: String::new() };
        let program = Program::at("/no/such/program");
        let shell = Shell { settings: ShellSettings::new("x"), program, api: None, sandbox: sandbox() };
        remove_forgotten();
        assert!(matches!(try_sandbox(&shell, sandbox()), Err(ShellError::System)));
        assert!(matches!(launch(&shell, "true", Duration::ZERO).await, Err(ShellError::System)));
        assert_eq!(run(Part::Inside), ExitCode::from(2));
    }
}
