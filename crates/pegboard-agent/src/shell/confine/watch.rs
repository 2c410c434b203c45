//! Looking again and again whether a command keeps to its limits.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use pegboard_upstream::processes::{self, Process};

use super::disk::{self, Size, Unmeasured};
use crate::shell::{ran::Ending, spec::Limits};

/// How often processes are looked at: rarely enough to cost little, often enough that memory
/// cannot grow by much between two looks.
const PROCESSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));

/// How often the number of all tasks is looked at between two looks at processes.
const GLANCE: Duration = Duration::from_millis(5);

/// How often files are.
const FILES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Looking may take a fifth of the time, unless that would be too rare.
const REST: u32 = 4;

/// The processes of the sandbox itself: twice bubblewrap, and our part inside.
const OWN_PROCESSES: usize = 3;

/// How many threads a process may have on the average.
const THREADS_EACH: usize = 8;

/// How many processes and threads a command may have.
pub(super) fn max_tasks(limits: &Limits) -> usize {
    max_processes(limits).saturating_mul(THREADS_EACH)
}

fn max_processes(limits: &Limits) -> usize {
    limits.max_processes.saturating_add(OWN_PROCESSES)
}

/// Returns when the processes below this one break a limit.
pub(super) fn processes(limits: &Limits) -> Ending {
    loop {
        let (start, tasks) = (Instant::now(), tasks_of_the_system());
        let found = processes::descendants();
        let threads: usize = found.iter().map(|process| process.threads).sum();
        if found.len() > max_processes(limits) || threads > max_tasks(limits) {
            return Ending::Processes;
        }
        if memory(&found, limits.memory_bytes) > limits.memory_bytes {
            return Ending::Memory;
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

/// Returns when the files of the command break a limit; `before` is what was there before it.
pub(super) fn files(folders: &[PathBuf], before: Size, limits: &Limits) -> Ending {
    let max_bytes = limits.disk_bytes.max(before.bytes);
    let max_files = limits.max_files.max(before.files);
    loop {
        let start = Instant::now();
        let nameless = disk::nameless(&processes::descendants());
        match disk::measure(folders, max_files) {
            Ok(size) if size.bytes.saturating_add(nameless) <= max_bytes => thread::sleep(pause(start, FILES)),
            // What cannot be measured could be anything.
            Ok(_) | Err(Unmeasured::TooMany | Unmeasured::Unreadable(_)) => return Ending::Disk,
        }
    }
}

/// How long to wait after a look that began then.
fn pause(start: Instant, (least, most): (Duration, Duration)) -> Duration {
    (start.elapsed() * REST).clamp(least, most)
}

/// How much memory the processes occupy together.
fn memory(processes: &[Process], limit: u64) -> u64 {
    let resident = processes.iter().map(|process| kilobytes(process, "status", &["VmRSS:", "VmSwap:"]).unwrap_or(0));
    let resident = resident.sum::<u64>().saturating_mul(1024);
    if resident <= limit {
        return resident;
    }
    // Pages that processes share were counted once for each. Counting them right takes long.
    let shares = processes.iter().map(|process| {
        let share = kilobytes(process, "smaps_rollup", &["Pss:", "SwapPss:"]);
        share.or_else(|| kilobytes(process, "status", &["VmRSS:", "VmSwap:"])).unwrap_or(0)
    });
    shares.sum::<u64>().saturating_mul(1024)
}

/// The sum of these lines in one of the process's files.
fn kilobytes(process: &Process, file: &str, names: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/{file}", process.pid.as_raw_nonzero())).ok()?;
    Some(sum_lines(&text, names))
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
