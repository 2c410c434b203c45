//! Replaces the confining program on systems without it.

use std::{process::ExitCode, time::Duration};

use super::ConfinePart;
use crate::shell::{CommandOutput, Sandbox, Shell, ShellError};

/// Fails: commands are not supported on this system.
pub fn run(_part: ConfinePart) -> ExitCode {
    ExitCode::from(2)
}

/// Does nothing: there are no private folders on this system.
pub(in crate::shell) fn remove_abandoned() {}

/// Fails: commands are not supported on this system.
pub(in crate::shell) fn try_sandbox(shell: &Shell, _sandbox: Sandbox) -> Result<Sandbox, ShellError> {
    tracing::debug!(program = ?shell.program, has_api = shell.api.is_some(), "running commands not supported");
    Err(ShellError::System)
}

/// Fails: commands are not supported on this system.
#[expect(clippy::unused_async, reason = "the same signature everywhere")]
pub(in crate::shell) async fn launch(
    _shell: &Shell,
    _command: &str,
    _timeout: Duration,
) -> Result<CommandOutput, ShellError> {
    Err(ShellError::System)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, shell::ShellSettings};

    #[tokio::test]
    async fn nothing_is_run() {
        let sandbox = || Sandbox::None { reason: String::new() };
        let program = Program::at("/no/such/program");
        let shell = Shell { settings: ShellSettings::new("x"), program, api: None, sandbox: sandbox() };
        remove_abandoned();
        assert!(matches!(try_sandbox(&shell, sandbox()), Err(ShellError::System)));
        assert!(matches!(launch(&shell, "true", Duration::ZERO).await, Err(ShellError::System)));
        assert_eq!(run(ConfinePart::Inside), ExitCode::from(2));
    }
}
