//! The sandbox of namespaces that this program creates itself, without bubblewrap.
//!
//! It consists of two processes between the watcher and the command. The first creates the
//! namespaces and waits. The second is the first process in them: it builds the file system, drops
//! its capabilities and becomes the part inside, which runs the command as its child.
//!
//! ```text
//! watcher ─ confine --namespaces ─┊─ confine --root, then confine --inside ─ bash -c …
//! ```

mod capabilities;
mod loopback;
mod mounts;

use std::{
    env, fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

use pegboard_process::{namespaces, processes};
use rustix::{
    process::{Signal, set_parent_process_death_signal},
    thread::UnshareFlags,
};

use super::{bubblewrap::OURS, spec::Layout};

/// The host name inside.
const HOST_NAME: &[u8] = b"pegboard";

/// Creates the namespaces and waits for the process in them.
pub(super) fn run(layout: &str) -> ExitCode {
    exit_code(separate(layout))
}

/// Builds the file system and becomes the part inside; returns only if that failed.
pub(super) fn run_root(layout: &str) -> ExitCode {
    exit_code(build(layout))
}

fn exit_code(result: Result<u8, String>) -> ExitCode {
    let code = result.unwrap_or_else(|reason| {
        let _ = writeln!(io::stderr(), "{reason}");
        126
    });
    ExitCode::from(code)
}

fn separate(layout: &str) -> Result<u8, String> {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The first process to be killed when the machine runs out of memory. This cannot be set
    // inside.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let new =
        UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWNET | UnshareFlags::NEWUTS;
    namespaces::unshare_with_user(new).map_err(|error| format!("cannot create a user namespace: {error}"))?;
    // Not supported by every kernel.
    let _ = namespaces::unshare(UnshareFlags::NEWCGROUP);
    capabilities::keep_in_child().map_err(|error| format!("cannot use capabilities in a user namespace: {error}"))?;
    let mut command = Command::new(&own);
    command.args(["confine", "--root", layout]).env_clear().current_dir("/");
    let mut child = command.spawn().map_err(|error| format!("cannot start `{}`: {error}", own.display()))?;
    Ok(processes::wait_for(&mut child))
}

fn build(layout: &str) -> Result<u8, String> {
    // All processes in the namespaces end with this process.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let layout: Layout = serde_json::from_str(layout).map_err(|error| error.to_string())?;
    loopback::raise().map_err(|error| format!("cannot set up the loopback interface: {error}"))?;
    rustix::system::sethostname(HOST_NAME).map_err(|error| format!("cannot set the host name: {error}"))?;
    mounts::build(&layout)?;
    capabilities::drop_all().map_err(|error| format!("cannot drop capabilities: {error}"))?;
    // Started again from its read-only copy: otherwise a command could change the mode of the file
    // outside through `/proc/1/exe`.
    let program = Path::new(OURS).join("confine");
    let error = Command::new(&program).args(["confine", "--inside"]).env_clear().exec();
    Err(format!("cannot start `{}`: {error}", program.display()))
}
