//! A process namespace around a server: when its first process ends, the kernel ends all processes
//! in it.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{Signal, set_parent_process_death_signal},
    thread::{CapabilitySet, UnshareFlags, capabilities},
};

use super::{ProcessNamespace, leaf, linux::Failure};
use crate::{namespaces, processes};

/// The isolation of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isolation {
    None,
    Namespace,
    /// The capabilities in the user namespace are not for the server.
    UserNamespace,
}

/// Decides whether the server gets a process namespace, and enters a user namespace if one is
/// needed for it. The process must have one thread.
pub(super) fn prepare(wanted: ProcessNamespace) -> Result<Isolation, Failure> {
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    match wanted {
        ProcessNamespace::Off => Ok(Isolation::None),
        ProcessNamespace::Auto if may && is_possible() => Ok(Isolation::Namespace),
        ProcessNamespace::Auto => Ok(Isolation::None),
        ProcessNamespace::On if may => Ok(Isolation::Namespace),
        ProcessNamespace::On => {
            let entered = namespaces::unshare_with_user(UnshareFlags::empty());
            entered
                .and_then(|()| namespaces::keep_capabilities(&[CapabilitySet::SYS_ADMIN]))
                .map_err(|error| namespace_failure(&error))?;
            Ok(Isolation::UserNamespace)
        }
    }
}

/// Starts the first process of the namespace, which starts the server.
pub(super) fn start(server: &[OsString], isolation: Isolation) -> Result<Child, Failure> {
    namespaces::unshare(UnshareFlags::NEWPID).map_err(|error| namespace_failure(&error))?;
    let part = if isolation == Isolation::UserNamespace { "--user-init-of" } else { "--init-of" };
    leaf::own_command(part, server).spawn().map_err(|error| namespace_failure(&error))
}

/// Runs the first process of the namespace: starts the server, reaps all processes that end, and
/// ends with the exit code of the server.
pub(super) fn run_init(parent: i32, isolation: Isolation, server: &[OsString]) -> Result<u8, Failure> {
    let Some((program, args)) = server.split_first() else { return Err((2, String::new())) };
    set_up(parent)?;
    if isolation == Isolation::UserNamespace {
        namespaces::drop_kept_capabilities().map_err(|error| namespace_failure(&error))?;
    }
    let child = Command::new(program).args(args).process_group(0).spawn();
    let mut child = child.map_err(|error| (127, format!("cannot start `{}`: {error}", program.to_string_lossy())))?;
    Ok(processes::wait_for(&mut child))
}

/// Makes this process end with its parent, and mounts a `/proc` of its namespace.
pub(super) fn set_up(parent: i32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| namespace_failure(&error.into()))?;
    // The parent may have ended before the kernel was asked. Its process id is not valid in this
    // namespace, but this `/proc` is still that of the outer namespace.
    if parent_outside().map_err(|error| namespace_failure(&error))? != Some(parent) {
        return Err((1, "the supervisor process exited".to_owned()));
    }
    let mounted = || -> io::Result<()> {
        namespaces::unshare(UnshareFlags::NEWNS)?;
        // Later mounts of the outer namespace appear here, but not the other way round.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        Ok(mount("proc", "/proc", "proc", flags, None)?)
    };
    mounted().map_err(|error| namespace_failure(&error))
}

/// Returns the process id of this process's parent in the namespace that `/proc` shows.
fn parent_outside() -> io::Result<Option<i32>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may contain anything, the fields after it may not.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    Ok(fields.split_whitespace().nth(1).and_then(|parent| parent.parse().ok()))
}

/// Returns whether a process namespace can be set up, by a test in a thread of its own: the
/// namespace of children is a property of each thread.
fn is_possible() -> bool {
    let trial = || {
        namespaces::unshare(UnshareFlags::NEWPID)?;
        let mut command = leaf::own_command("--trial-of", &["-".into()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    let tried = thread::spawn(trial).join();
    matches!(tried, Ok(Ok(status)) if status.success())
}

fn namespace_failure(error: &io::Error) -> Failure {
    (126, format!("cannot create a process namespace (`processNamespace` is `on`): {error}"))
}
