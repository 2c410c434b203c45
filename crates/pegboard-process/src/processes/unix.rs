//! Waiting for processes and ending them on systems with signals.

use std::{
    fs,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus},
};

use rustix::{
    io::Errno,
    process::{
        Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, kill_process_group, setrlimit,
        test_kill_process, wait,
    },
};

use super::ResourceLimit;

/// Waits until `child` has ended and returns its exit code, 128 and more for a signal. Also reaps
/// all other processes that end meanwhile, such as orphans of the child.
pub fn wait_for(child: &mut Child) -> u8 {
    let wanted = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == wanted => {
                let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 1,
        }
    }
}

/// Reaps descendants that have ended.
pub(super) fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Sends SIGTERM to a process.
pub fn terminate(pid: i32) {
    let _ = number(pid).map(|pid| kill_process(pid, Signal::TERM));
}

/// Kills a process.
pub fn kill(pid: i32) {
    let _ = number(pid).map(|pid| kill_process(pid, Signal::KILL));
}

/// Kills all processes of the group of `leader`.
pub fn kill_group(leader: i32) {
    // The group 1 would mean all processes.
    let _ = number(leader).filter(|_| leader > 1).map(|group| kill_process_group(group, Signal::KILL));
}

/// Returns a process id; `None` for zero and negative numbers, which mean groups.
fn number(pid: i32) -> Option<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
}

/// Starts the command as the leader of a process group of its own: a key press that stops this
/// program does not stop it, and [`kill_group`] ends it with what it has started.
pub fn start_in_group(command: &mut Command) {
    command.process_group(0);
}

/// Returns whether a process with this id runs. It may be another process if the id was reused.
pub fn is_running(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(number) else { return false };
    test_kill_process(pid) != Err(Errno::SRCH) && !is_zombie(pid)
}

/// Returns whether a process is a zombie; on systems other than Linux that is not known.
fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name in parentheses may contain anything; the state follows it.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

/// Returns the limit that ended a process, if its signal shows one.
pub fn ended_by(status: ExitStatus) -> Option<ResourceLimit> {
    match Signal::from_named_raw(status.signal()?)? {
        Signal::XCPU => Some(ResourceLimit::CpuTime),
        // Sent by the kernel when memory runs out.
        Signal::KILL | Signal::SEGV | Signal::BUS => Some(ResourceLimit::Memory),
        _ => None,
    }
}

/// Raises this program's limit of open files to `wanted`, as far as the system allows, and returns
/// the limit that applies then.
pub fn raise_open_files(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let Some(current) = now.current.filter(|current| *current < wanted) else { return now.current.unwrap_or(u64::MAX) };
    let raised = now.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: now.maximum }).is_ok();
    if is_raised { raised } else { current }
}
