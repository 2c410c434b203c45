//! Checks at intervals whether the processes of a command keep to its limits.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use pegboard_process::processes::{Process, ProcessTable};

use super::{machine::Memory, spec::CommandLimits};
use crate::shell::command_output::ExceededLimit;

/// Minimum and maximum interval between checks of processes: long enough to cost little, short
/// enough that memory cannot grow much in between.
const PROCESSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));

/// Interval at which the number of all tasks is checked in between.
const GLANCE: Duration = Duration::from_millis(5);

/// Ratio of pause to work: checks may take a fifth of the time, within the maximum interval.
const REST: u32 = 4;

/// The number of processes of the sandbox itself: the one that created it, and our part inside.
const OWN_PROCESSES: usize = 2;

/// Average number of threads that a process may have.
const THREADS_EACH: usize = 8;

/// Returns the maximum number of processes and threads of a command.
pub(super) fn max_tasks(limits: &CommandLimits) -> usize {
    max_processes(limits).saturating_mul(THREADS_EACH)
}

fn max_processes(limits: &CommandLimits) -> usize {
    limits.max_processes.saturating_add(OWN_PROCESSES)
}

/// Returns when the processes below this one exceed a limit, or cannot be listed any more.
pub(super) fn watch_processes(table: &mut ProcessTable, limits: &CommandLimits) -> ExceededLimit {
    let before = Memory::now();
    loop {
        let (start, tasks) = (Instant::now(), tasks_of_the_system());
        // Processes that cannot be counted may be any number.
        let Ok(found) = table.descendants() else { return ExceededLimit::Processes };
        let threads: usize = found.iter().map(|process| process.threads).sum();
        if found.len() > max_processes(limits) || threads > max_tasks(limits) {
            return ExceededLimit::Processes;
        }
        if memory(&found, limits.memory_bytes).is_none_or(|memory| memory > limits.memory_bytes) {
            return ExceededLimit::Memory;
        }
        if before.zip(Memory::now()).is_some_and(|(before, now)| now.is_low(&before, limits)) {
            return ExceededLimit::Machine;
        }
        // A fork bomb must be detected early: later there is no time left to check.
        let many = tasks.saturating_add(limits.max_processes / 2);
        wait_for_growth(many, pause(start, PROCESSES));
    }
}

/// Waits this long, or until the system has more tasks than `tasks`.
fn wait_for_growth(tasks: usize, most: Duration) {
    let start = Instant::now();
    while start.elapsed() < most && tasks_of_the_system() <= tasks {
        thread::sleep(GLANCE);
    }
}

/// Returns the number of processes and threads of the whole system: a single number, while the
/// process table takes long to read.
fn tasks_of_the_system() -> usize {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = load.split_whitespace().nth(3).and_then(|tasks| tasks.split_once('/'));
    tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// Returns how long to wait after a check that began at `start`.
pub(super) fn pause(start: Instant, (least, most): (Duration, Duration)) -> Duration {
    (start.elapsed() * REST).clamp(least, most)
}

/// Returns the memory of the processes together; `None` if it cannot be read.
fn memory(processes: &[Process], limit: u64) -> Option<u64> {
    let resident = |process| kilobytes(process, "status", &["VmRSS:", "VmSwap:"]);
    let all = processes.iter().map(resident).sum::<Option<u64>>()?.saturating_mul(1024);
    if all <= limit {
        return Some(all);
    }
    // Shared pages were counted once for each process. Exact counts take long, and not every
    // process allows them.
    let share = |process| kilobytes(process, "smaps_rollup", &["Pss:", "SwapPss:"]).or_else(|| resident(process));
    Some(processes.iter().map(share).sum::<Option<u64>>()?.saturating_mul(1024))
}

/// Returns the sum of these lines in one of the process's files, zero if the process has ended;
/// `None` if the file cannot be read.
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
