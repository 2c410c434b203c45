//! The supervisor of systems other than Linux: it starts the server and waits for it.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use super::{ProcessNamespace, Role};

/// Runs `command` (a program and its arguments) and returns how it ended. Descendants are not tracked
/// on this system, and there are no process namespaces.
pub fn run(role: Role, command: &[OsString]) -> ExitCode {
    ExitCode::from(exit_code(role, command))
}

fn exit_code(role: Role, command: &[OsString]) -> u8 {
    if role == Role::Supervisor(ProcessNamespace::On) {
        let _ = writeln!(std::io::stderr(), "only Linux has process namespaces (`processNamespace` is `on`)");
        return 126;
    }
    let Some((program, args)) = command.split_first() else { return 2 };
    match std::process::Command::new(program).args(args).status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cannot start `{}`: {error}", program.to_string_lossy());
            127
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_runs_without_being_tracked() {
        let check = |namespace, command: &[&str], expected: u8| {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            assert_eq!(exit_code(Role::Supervisor(namespace), &command), expected, "{command:?}");
            assert_eq!(run(Role::Supervisor(namespace), &command), ExitCode::from(expected));
        };
        check(ProcessNamespace::Off, &["sort", "--version"], 0);
        check(ProcessNamespace::Auto, &["no-such-program-here"], 127);
        check(ProcessNamespace::On, &["sort", "--version"], 126);
        check(ProcessNamespace::Off, &[], 2);
    }
}
