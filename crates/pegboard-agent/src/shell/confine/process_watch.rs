//! Looking again and again whether a command keeps to its limits.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use pegboard_process::processes::{Process, Table};

use super::{machine::Memory, spec::Limits};
use crate::shell::command_output::Ending;

/// How often processes are looked at: rarely enough to cost little, often enough that memory
/// cannot grow by much between two looks.
const PROCESSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));

/// How often the number of all tasks is looked at between two looks at processes.
const GLANCE: Duration = Duration::from_millis(5);

/// Looking may take a fifth of the time, unless that would be too rare.
const REST: u32 = 4;

/// The processes of the sandbox itself: the one that made it, and our part inside.
const OWN_PROCESSES: usize = 2;

/// How many threads a process may have on the average.
const THREADS_EACH: usize = 8;

/// How many processes and threads a command may have.
pub(super) fn max_tasks(limits: &Limits) -> usize {
    max_processes(limits).saturating_mul(THREADS_EACH)
}

fn max_processes(limits: &Limits) -> usize {
    limits.max_processes.saturating_add(OWN_PROCESSES)
}

/// Returns when the processes below this one break a limit, or cannot be seen any more.
pub(super) fn processes(table: &mut Table, limits: &Limits) -> Ending {
    let before = Memory::now();
    loop {
        let (start, tasks) = (Instant::now(), tasks_of_the_system());
        // What cannot be counted could be any number.
        let Ok(found) = table.descendants() else { return Ending::Processes };
        let threads: usize = found.iter().map(|process| process.threads).sum();
        if found.len() > max_processes(limits) || threads > max_tasks(limits) {
            return Ending::Processes;
        }
        if memory(&found, limits.memory_bytes).is_none_or(|memory| memory > limits.memory_bytes) {
            return Ending::Memory;
        }
        if before.zip(Memory::now()).is_some_and(|(before, now)| now.is_low(&before, limits)) {
            return Ending::Machine;
        }
        // What multiplies must be seen early: later there is no time left to look.
        let many = tasks.saturating_add(limits.max_processes / 2);
        wait_for_growth(many, pause(start, PROCESSES));
    }
}

/// Waits this long, or until the system has more tasks than these.
fn wait_for_growth(tasks: usize, most: Duration) {
    let start = Instant::now();
    while start.elapsed() < most && tasks_of_the_system() <= tasks {
        thread::sleep(GLANCE);
    }
}

/// How many processes and threads the whole system has: one number, where the table of
/// processes takes long to read.
fn tasks_of_the_system() -> usize {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load.split_whitespace().nth(3).and_then(|tasks| tasks.split_once('/'));
    tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// How long to wait after a look that began then.
pub(super) fn pause(start: Instant, (least, most): (Duration, Duration)) -> Duration {
    (start.elapsed() * REST).clamp(least, most)
}

/// How much memory the processes occupy together; nothing when that cannot be told.
fn memory(processes: &[Process], limit: u64) -> Option<u64> {
    let resident = |process| kilobytes(process, "status", &["VmRSS:", "VmSwap:"]);
    let all = processes.iter().map(resident).sum::<Option<u64>>()?.saturating_mul(1024);
    if all <= limit {
        return Some(all);
    }
    // Pages that processes share were counted once for each. Counting them right takes long,
    // and some do not let us.
    let share = |process| kilobytes(process, "smaps_rollup", &["Pss:", "SwapPss:"]).or_else(|| resident(process));
    Some(processes.iter().map(share).sum::<Option<u64>>()?.saturating_mul(1024))
}

/// The sum of these lines in one of the process's files, zero when it has ended; nothing when
/// the file cannot be read.
fn kilobytes(process: &Process, file: &str, names: &[&str]) -> Option<u64> {
    match fs::read(format!("/proc/{}/{file}", process.pid)) {
        Ok(text) => Some(sum_lines(&String::from_utf8_lossy(&text), names)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Some(0),
        Err(_) => None,
    }
}

fn sum_lines(text: &str, names: &[&str]) -> u64 {
    let values = text.lines().filter_map(|line| {
        let value = names.iter().find_map(|name| line.strip_prefix(name))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = "Name:\tVmRSS: 9 kB\nVmRSS:\t     120 kB\nVmSwap:\t 3 kB\nVmRSSX:\t7 kB\nVmSize: x kB\n";
        assert_eq!(sum_lines(text, &["VmRSS:", "VmSwap:"]), 123);
        assert_eq!(sum_lines(text, &["VmSize:"]), 0);
    }
}
