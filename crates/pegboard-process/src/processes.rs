//! The descendants of this process: finding them, waiting for them, ending them.
//!
//! A process that loses its parent is handed to the nearest ancestor that adopts orphans. So a
//! program that adopts them finds everything that it ever started in the process table, even in
//! other groups and sessions.
//!
//! Every function exists on every system with the same signature, and does nothing if the system
//! lacks the feature. Tests also compile and run the variants of other systems.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(unreachable_pub, reason = "public where it is not compiled for tests alone"))]
mod not_linux;
#[cfg(any(test, not(unix)))]
#[cfg_attr(unix, expect(unreachable_pub, reason = "public where it is not compiled for tests alone"))]
mod not_unix;
#[cfg(unix)]
mod unix;

use std::{io, thread, time::Duration};

#[cfg(target_os = "linux")]
use self::linux as table;
#[cfg(not(target_os = "linux"))]
use self::not_linux as table;
#[cfg(not(unix))]
use self::not_unix as system;
use self::table::TableReader;
#[cfg(unix)]
use self::unix as system;
pub use self::{
    system::{ended_by, is_running, kill, kill_group, raise_open_files, start_in_group, terminate, wait_for},
    table::{adopt_orphans, hide_memory, lower_thread_priority, memory_of},
};

/// How often remaining processes are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long remaining processes are killed without a pause.
const BUSY_KILL_TIME: Duration = Duration::from_secs(1);

/// How long to retry when the process table cannot be read. Processes that end meanwhile free the
/// resources for reading it.
const READ_RETRY_TIME: Duration = Duration::from_secs(2);

/// A descendant of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// The process id of its parent.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The session.
    pub session: i32,
    /// Number of threads.
    pub threads: usize,
    /// Whether the process still runs; otherwise it is a zombie.
    pub is_running: bool,
}

/// The resource limit that ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceLimit {
    /// The limit of processor time.
    CpuTime,
    /// The limit of memory, or of the memory of the machine.
    Memory,
}

/// The process table. It stays open, so that a shortage of file descriptors cannot make it look
/// empty.
#[derive(Debug)]
pub struct ProcessTable {
    entries: TableReader,
}

impl ProcessTable {
    /// Opens the table.
    pub fn open() -> io::Result<Self> {
        Ok(Self { entries: TableReader::open()? })
    }

    /// Returns all descendants of this process. On systems other than Linux none is found.
    pub fn descendants(&mut self) -> io::Result<Vec<Process>> {
        self.entries.descendants()
    }

    /// Terminates all descendants, and kills those that are left after `grace`, at once if that is
    /// zero. Returns when none is left, or with the error of reading the table.
    pub fn end_all(&mut self, grace: Duration) -> io::Result<()> {
        let (mut waited, mut blind) = (Duration::ZERO, Duration::ZERO);
        let mut empty_looks = 0;
        if !grace.is_zero() {
            for process in self.descendants().unwrap_or_default() {
                system::terminate(process.pid);
            }
        }
        loop {
            system::reap();
            let is_empty = match if waited < grace {
                self.has_no_descendants()
            } else {
                self.entries.kill().map(|is_any| !is_any)
            } {
                Ok(is_empty) => is_empty,
                Err(error) if blind >= READ_RETRY_TIME => return Err(error),
                Err(_) => {
                    blind += POLL_INTERVAL;
                    thread::sleep(POLL_INTERVAL);
                    false
                }
            };
            // The table is read entry by entry: a process that changes its parent meanwhile can be
            // missed once.
            empty_looks = if is_empty { empty_looks + 1 } else { 0 };
            if empty_looks == 3 {
                return Ok(());
            }
            // Processes that multiply must be killed fast; those that cannot be killed yet must not
            // use a whole core.
            if is_empty || waited < grace || waited > grace + BUSY_KILL_TIME {
                thread::sleep(POLL_INTERVAL);
            }
            waited += POLL_INTERVAL;
        }
    }

    fn has_no_descendants(&mut self) -> io::Result<bool> {
        Ok(!self.descendants()?.iter().any(|process| process.is_running))
    }
}

#[cfg(test)]
mod tests;
