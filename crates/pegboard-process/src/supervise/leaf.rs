//! The process that becomes the server: it asks the kernel to be killed when its parent ends.
//!
//! The kernel forgets that when a program is started that has another user's rights
//! (set-user-ID, file capabilities); such a server ends by its supervisor alone.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{self, Command},
};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::linux::Failure;

/// This program, also when its file was replaced meanwhile.
pub(super) const OWN: &str = "/proc/self/exe";

/// The command line that starts the server so that it ends with this process.
pub(super) fn command(server: &[OsString]) -> Command {
    own_command("--child-of", server)
}

/// The command line that starts this program as another part of it, below this process.
pub(super) fn own_command(part: &str, server: &[OsString]) -> Command {
    let mut command = Command::new(OWN);
    command.args(["supervise", part, &process::id().to_string(), "--"]).args(server);
    command
}

/// Becomes the server; returns only why it did not.
pub(super) fn run(parent: i32, server: &[OsString]) -> Failure {
    let Some((program, args)) = server.split_first() else { return (2, String::new()) };
    // A kernel that refuses this leaves the supervisor, as before.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before the kernel was asked.
    if getppid().is_none_or(|pid| pid.as_raw_nonzero().get() != parent) {
        return (1, "the supervisor process exited".to_owned());
    }
    let error = Command::new(program).args(args).exec();
    (127, format!("cannot start `{}`: {error}", program.to_string_lossy()))
}
