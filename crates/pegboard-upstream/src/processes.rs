//! The processes below this one: finding them, waiting for them, ending them.
//!
//! A process that loses its parent is handed to the nearest ancestor that adopts orphans.
//! So a program that adopts them finds everything that it ever started in the table of
//! processes, whatever groups and sessions that has made for itself.

#[cfg(target_os = "linux")]
use std::{
    collections::{HashMap, HashSet},
    fs,
};
use std::{process::Child, thread, time::Duration};

#[cfg(target_os = "linux")]
use rustix::process::kill_process_group;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// How often it is asked again whether anything is left.
const LOOK: Duration = Duration::from_millis(10);

/// For how many looks' time what is left is killed without a pause.
const HASTE: Duration = Duration::from_secs(1);

/// A process below this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// The group it is in.
    pub group: i32,
    /// The session it is in.
    pub session: i32,
    /// How many threads it has.
    pub threads: usize,
    /// Whether it still runs; otherwise its parent has not taken note of its end yet.
    pub is_running: bool,
}

/// Makes everything below this process stay below it when its parent ends.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Waits until `child` has ended and says how, 128 and more for a signal. Takes note of
/// everything else that ends meanwhile: what the child leaves behind is ours.
pub fn wait_for(child: &Child) -> u8 {
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

/// Asks everything below this process to end and makes what has not after `grace`, at once
/// when that is zero. Returns when nothing is left.
pub fn end_all(grace: Duration) {
    let mut waited = Duration::ZERO;
    let mut empty_looks = 0;
    if !grace.is_zero() {
        for process in descendants() {
            let _ = kill_process(process.pid, Signal::TERM);
        }
    }
    loop {
        reap();
        let is_empty = if waited < grace { !descendants().iter().any(|process| process.is_running) } else { !kill() };
        // The table of processes is read entry by entry: one that changes its parent
        // meanwhile can be missed once.
        empty_looks = if is_empty { empty_looks + 1 } else { 0 };
        if empty_looks == 3 {
            return;
        }
        // What multiplies must not get time to; what cannot be killed yet must not cost us all.
        if is_empty || waited < grace || waited > grace + HASTE {
            thread::sleep(LOOK);
        }
        waited += LOOK;
    }
}

/// Kills everything below this process; whether anything was there. Each is killed as soon as
/// it is seen: numbers ascend, so that what is born meanwhile is mostly still to come.
#[cfg(target_os = "linux")]
fn kill() -> bool {
    let ours = rustix::process::getsid(None).map_or(0, |session| session.as_raw_nonzero().get());
    let mut known = HashSet::from([rustix::process::getpid().as_raw_nonzero().get()]);
    let (mut groups, mut is_any) = (HashSet::new(), false);
    for (parent, process) in table() {
        if !known.contains(&parent) {
            continue;
        }
        known.insert(process.pid.as_raw_nonzero().get());
        // A whole group at first: nothing leaves a group by being born meanwhile. In our
        // session there may be groups that are not ours to end; another session below us was
        // made below us. A group of the number one would mean everybody.
        if process.session != ours && process.group > 1 && groups.insert(process.group) {
            let _ = Pid::from_raw(process.group).map(|group| kill_process_group(group, Signal::KILL));
        }
        if process.is_running {
            is_any = true;
            let _ = kill_process(process.pid, Signal::KILL);
        }
    }
    // Numbers start again when they are used up: what has a lower one than its parent is left
    // to the thorough look.
    for process in descendants().iter().filter(|process| process.is_running) {
        is_any = true;
        let _ = kill_process(process.pid, Signal::KILL);
    }
    is_any
}

/// Nothing can be killed that is not found.
#[cfg(not(target_os = "linux"))]
fn kill() -> bool {
    false
}

/// Takes note of descendants that have ended.
fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Every process below this one.
#[cfg(target_os = "linux")]
pub fn descendants() -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for (parent, process) in table() {
        children.entry(parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        // Taken out: a table that changes while it is read can show a circle.
        for process in children.remove(&pid).into_iter().flatten() {
            // One that has ended may still be the parent of one that has not.
            found.push(process);
            open.push(process.pid.as_raw_nonzero().get());
        }
    }
    found
}

/// All processes with their parents, read while it is asked for.
#[cfg(target_os = "linux")]
fn table() -> impl Iterator<Item = (i32, Process)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse_stat(pid, &String::from_utf8_lossy(&stat))
    })
}

/// Nothing: the table of processes is not read on this system.
#[cfg(not(target_os = "linux"))]
pub fn descendants() -> Vec<Process> {
    Vec::new()
}

/// The parent and the process that a line of `/proc/PID/stat` shows.
#[cfg(target_os = "linux")]
fn parse_stat(pid: i32, stat: &str) -> Option<(i32, Process)> {
    // The name in parentheses may hold anything; the fields behind it may not.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<i32>().ok());
    let process = Process {
        pid: Pid::from_raw(pid)?,
        group: number(2)?,
        session: number(3)?,
        threads: usize::try_from(number(17)?).ok()?,
        is_running: !matches!(fields.first(), Some(&("Z" | "X"))),
    };
    Some((number(1)?, process))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_fields() {
        let stat = "77 (a) R 1 1 1) S 5 70 60 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 100 0 0";
        let (parent, process) = parse_stat(77, stat).expect("a process");
        assert_eq!(parent, 5);
        assert_eq!((process.group, process.session, process.threads, process.is_running), (70, 60, 3, true));
        assert!(parse_stat(77, "77 (a) S").is_none());
        assert!(parse_stat(0, stat).is_none());
    }
}
