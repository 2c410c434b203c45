//! The processes that a gateway starts, and those that outlive it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// How long processes may take to end after the gateway.
const ENDING: Duration = Duration::from_secs(10);

/// A process; its start time distinguishes it from a later one with the same number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: u32,
    started: String,
    command: String,
}

/// The processes below one.
pub(super) fn below(root: u32) -> Vec<Process> {
    let below = crate::bench_gateway::real_servers::below(root);
    below.into_iter().filter(|pid| *pid != root).filter_map(read).collect()
}

/// The commands of those that do not end.
pub(super) fn still_running(processes: &[Process]) -> Vec<String> {
    let began = Instant::now();
    loop {
        let left: Vec<&Process> =
            processes.iter().filter(|process| read(process.pid).as_ref() == Some(process)).collect();
        if left.is_empty() || began.elapsed() > ENDING {
            return left.into_iter().map(|process| process.command.clone()).collect();
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    // A process that has ended and whose status was not read yet (a zombie) is not running.
    if *fields.first()? == "Z" {
        return None;
    }
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
    Some(Process { pid, started: (*fields.get(19)?).to_owned(), command: command.trim().to_owned() })
}
