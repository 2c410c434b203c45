//! The process that becomes the server: it asks the kernel to be killed when its parent ends.
//!
//! The kernel clears that request when a program with other rights is executed (set-user-ID, file
//! capabilities); such a server is ended by its supervisor only.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{self, Command},
};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::linux::Failure;

/// The path of this program, valid even if its file was replaced meanwhile.
pub(super) const OWN: &str = "/proc/self/exe";

/// Returns the command that starts the server so that it ends with this process.
pub(super) fn command(server: &[OsString]) -> Command {
    own_command("--child-of", server)
}

/// Returns the command that starts this program in another role as a child of this process.
pub(super) fn own_command(part: &str, server: &[OsString]) -> Command {
    let mut command = Command::new(OWN);
    command.args(["supervise", part, &process::id().to_string(), "--"]).args(server);
    command
}

/// Executes the server in this process; returns only if that fails.
pub(super) fn run(parent: i32, server: &[OsString]) -> Failure {
    let Some((program, args)) = server.split_first() else { return (2, String::new()) };
    // If the kernel refuses this, the supervisor still ends the server.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have ended before the kernel was asked.
    if getppid().is_none_or(|pid| pid.as_raw_nonzero().get() != parent) {
        return (1, "the supervisor process exited".to_owned());
    }
    let error = Command::new(program).args(args).exec();
    (127, format!("cannot start `{}`: {error}", program.to_string_lossy()))
}
