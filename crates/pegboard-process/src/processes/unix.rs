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

use super::EndedBy;

/// Waits until `child` has ended and says how, 128 and more for a signal. Takes note of
/// everything else that ends meanwhile: what the child leaves behind is ours.
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

/// Takes note of descendants that have ended.
pub(super) fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Asks a process to end.
pub fn terminate(pid: i32) {
    let _ = number(pid).map(|pid| kill_process(pid, Signal::TERM));
}

/// Ends a process at once.
pub fn kill(pid: i32) {
    let _ = number(pid).map(|pid| kill_process(pid, Signal::KILL));
}

/// Ends all processes of the group that the process `leader` leads.
pub fn kill_group(leader: i32) {
    // A group of the number one would mean everybody.
    let _ = number(leader).filter(|_| leader > 1).map(|group| kill_process_group(group, Signal::KILL));
}

/// The number of one process: zero and negative numbers mean groups.
fn number(pid: i32) -> Option<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
}

/// Starts the command as the leader of a process group of its own: a key press that stops this
/// program does not stop it, and [`kill_group`] ends it with what it has started.
pub fn start_in_group(command: &mut Command) {
    command.process_group(0);
}

/// Whether a process with this number runs. It may be another process that got the number of one
/// that has ended.
pub fn is_running(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(number) else { return false };
    test_kill_process(pid) != Err(Errno::SRCH) && !is_zombie(pid)
}

/// Whether a process has ended, and its parent has not asked for its exit code yet. Elsewhere than on
/// Linux that is not known.
fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name in parentheses may contain anything; the state follows it.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

/// The limit that ended a process, as far as its signal shows that.
pub fn ended_by(status: ExitStatus) -> Option<EndedBy> {
    match Signal::from_named_raw(status.signal()?)? {
        Signal::XCPU => Some(EndedBy::CpuTime),
        // By the kernel, when memory runs out.
        Signal::KILL | Signal::SEGV | Signal::BUS => Some(EndedBy::Memory),
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
