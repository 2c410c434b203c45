//! The processes below this one: finding them, waiting for them, ending them.
//!
//! A process that loses its parent is handed to the nearest ancestor that adopts orphans.
//! So a program that adopts them finds everything that it ever started in the table of
//! processes, whatever groups and sessions that has made for itself.
//!
//! Every function exists on every system with the same signature, and does nothing where the system
//! has no such thing. Tests also compile and run what other systems get.

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
use self::table::Entries;
#[cfg(unix)]
use self::unix as system;
pub use self::{
    system::{ended_by, is_running, kill, kill_group, raise_open_files, start_in_group, terminate, wait_for},
    table::{adopt_orphans, hide_memory, lower_thread_priority},
};

/// How often it is asked again whether anything is left.
const LOOK: Duration = Duration::from_millis(10);

/// For how many looks' time what is left is killed without a pause.
const HASTE: Duration = Duration::from_secs(1);

/// How long it is tried to read a table that cannot be read. What ends meanwhile gives back
/// what reading takes.
const BLIND: Duration = Duration::from_secs(2);

/// A process below this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The number of its parent.
    pub parent: i32,
    /// The group it is in.
    pub group: i32,
    /// The session it is in.
    pub session: i32,
    /// How many threads it has.
    pub threads: usize,
    /// Whether it still runs; otherwise its parent has not taken note of its end yet.
    pub is_running: bool,
}

/// A limit that ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// It used too much processor time.
    CpuTime,
    /// It used too much memory, or the machine had too little.
    Memory,
}

/// The table of all processes. It stays open: whoever takes our descriptors away must not
/// make everything look as if nothing were there.
#[derive(Debug)]
pub struct Table {
    entries: Entries,
}

impl Table {
    /// Opens the table.
    pub fn open() -> io::Result<Self> {
        Ok(Self { entries: Entries::open()? })
    }

    /// Every process below this one. On systems other than Linux none is found.
    pub fn descendants(&mut self) -> io::Result<Vec<Process>> {
        self.entries.descendants()
    }

    /// Asks everything below this process to end and makes what has not after `grace`, at once
    /// when that is zero. Returns when nothing is left, or with why that cannot be told.
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
            let is_empty =
                match if waited < grace { self.is_quiet() } else { self.entries.kill().map(|is_any| !is_any) } {
                    Ok(is_empty) => is_empty,
                    Err(error) if blind >= BLIND => return Err(error),
                    Err(_) => {
                        blind += LOOK;
                        thread::sleep(LOOK);
                        false
                    }
                };
            // The table is read entry by entry: one that changes its parent meanwhile can be
            // missed once.
            empty_looks = if is_empty { empty_looks + 1 } else { 0 };
            if empty_looks == 3 {
                return Ok(());
            }
            // What multiplies must not get time to; what cannot be killed yet must not cost us
            // all.
            if is_empty || waited < grace || waited > grace + HASTE {
                thread::sleep(LOOK);
            }
            waited += LOOK;
        }
    }

    fn is_quiet(&mut self) -> io::Result<bool> {
        Ok(!self.descendants()?.iter().any(|process| process.is_running))
    }
}

#[cfg(test)]
mod tests;
