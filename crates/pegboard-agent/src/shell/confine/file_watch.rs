//! Looking again and again whether what a command writes keeps to its limits.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use pegboard_process::processes::{Process, Table};

use super::{
    disk::{self, Size, Unmeasured},
    held_files::{self, Held},
    machine::Free,
    process_watch::pause,
    spec::{Kind, Limits, Spec},
};
use crate::shell::command_output::Ending;

/// How often files are looked at.
const FILES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How many times as many files as allowed are counted before the command. A folder that
/// holds even more must not lose room on its disk.
const COUNTED: usize = 4;

/// In how many looks one after the other a folder may be gone when it is looked into. Those
/// that are made and removed all the time are no danger; one that wanders is hiding.
const MAX_MISSED: u32 = 10;

/// In how many looks one after the other something may be unreadable.
const MAX_UNREADABLE: u32 = 3;

/// In how many looks one after the other a process may not let us see what it holds. One that is
/// being confined does not, and on a busy machine that takes a while; the room on the disk is
/// watched meanwhile.
const MAX_HIDDEN: u32 = 20;

/// Folders that a sandbox with a file system of its own keeps in memory.
const IN_MEMORY: [&str; 2] = ["tmp", "dev/shm"];

/// What a command may write, and what was there before it.
pub(super) struct Files {
    folders: Vec<PathBuf>,
    /// The devices that the folders are on.
    disks: Vec<u64>,
    before: Result<Size, Unmeasured>,
    free: Vec<(PathBuf, Free)>,
    sandbox: Kind,
    limits: Limits,
    missed: u32,
    unreadable: u32,
    /// Processes that did not let us see what they hold, and how often in a row.
    hidden: BTreeMap<i32, u32>,
    has_seen: bool,
}

impl Files {
    /// Measures what is there. What cannot be measured must not keep a command from removing
    /// it.
    pub(super) fn new(folders: &[PathBuf], spec: &Spec) -> Self {
        let before = disk::measure(folders, spec.limits.max_files.saturating_mul(COUNTED));
        let free = folders.iter().filter_map(|folder| Some((folder.clone(), Free::of(folder)?)));
        let disks = folders.iter().filter_map(|folder| Some(fs::metadata(folder).ok()?.dev()));
        Self {
            folders: folders.to_vec(),
            disks: disks.collect(),
            before,
            free: free.collect(),
            sandbox: spec.sandbox.clone(),
            limits: spec.limits,
            missed: 0,
            unreadable: 0,
            hidden: BTreeMap::new(),
            has_seen: false,
        }
    }

    /// Returns when a limit is broken, or when it cannot be told any more whether one is.
    pub(super) fn watch(mut self, table: &mut Table) -> Ending {
        loop {
            let start = Instant::now();
            // What cannot be measured could be anything.
            let Ok(processes) = table.descendants() else { return Ending::Processes };
            if let Some(ending) = self.look(&processes) {
                return ending;
            }
            thread::sleep(pause(start, FILES));
        }
    }

    fn look(&mut self, processes: &[Process]) -> Option<Ending> {
        let (own, others) = self.divide(processes);
        // Whoever has more descriptors than can be looked at hides something.
        let Ok(held) = held_files::held(&others, &self.disks) else { return Some(Ending::Disk) };
        if held.memory > self.limits.memory_bytes {
            return Some(Ending::Memory);
        }
        if own.iter().any(|process| self.is_crowded(process)) {
            return Some(Ending::Disk);
        }
        self.judge(&held).err()
    }

    /// Whether a process has not let us look at what it holds for long; one that is just ending
    /// does not either. Without a sandbox there are programs of other users, who never do.
    fn is_hiding(&mut self, held: &Held) -> bool {
        self.has_seen |= held.has_seen;
        let times = |pid: &i32| (*pid, self.hidden.get(pid).map_or(1, |times| times + 1));
        self.hidden = held.hidden.iter().map(times).collect();
        let is_long = self.hidden.values().any(|times| *times >= MAX_HIDDEN);
        is_long && self.has_seen && self.sandbox != Kind::None
    }

    /// The sandbox's own processes, and the command's.
    fn divide(&self, processes: &[Process]) -> (Vec<Process>, Vec<Process>) {
        if !self.sandbox.is_apart() {
            return (Vec::new(), processes.to_vec());
        }
        let us = rustix::process::getpid().as_raw_nonzero().get();
        // One outside, and the first process inside.
        let outside: Vec<i32> = pids(processes.iter().filter(|process| process.parent == us));
        let is_own = |process: &&Process| process.parent == us || outside.contains(&process.parent);
        processes.iter().partition(is_own)
    }

    /// Whether there are too many files in the folders that are kept in memory: empty ones take
    /// room too. They are seen through the first process inside.
    fn is_crowded(&self, process: &Process) -> bool {
        IN_MEMORY.iter().any(|folder| {
            let inside = PathBuf::from(format!("/proc/{}/root/{folder}", process.pid));
            // While the sandbox is set up they are the system's.
            let device = |path: &Path| fs::symlink_metadata(path).ok().map(|data| data.dev());
            let is_ours = device(&inside).is_some_and(|inside| Some(inside) != device(&Path::new("/").join(folder)));
            let files = rustix::fs::statvfs(&inside).map_or(0, |room| room.f_files.saturating_sub(room.f_ffree));
            is_ours && files > self.limits.max_files as u64
        })
    }

    fn judge(&mut self, held: &Held) -> Result<(), Ending> {
        let is_hiding = self.is_hiding(held);
        let free = self.free.iter().filter_map(|(folder, before)| Some((Free::of(folder)?, before)));
        let (mut is_low, mut has_shrunk) = (false, false);
        for (now, before) in free {
            is_low |= now.is_low(before, &self.limits);
            has_shrunk |= now.has_shrunk(before);
        }
        let before = self.before;
        let (most_bytes, most_files) = match before {
            Ok(before) => (self.limits.disk_bytes.max(before.bytes), self.limits.max_files.max(before.files)),
            Err(_) => (self.limits.disk_bytes, self.limits.max_files),
        };
        let mut is_unclear = false;
        match disk::measure(&self.folders, most_files) {
            Ok(size) if before.is_ok() && size.bytes.saturating_add(held.disk) > most_bytes => {
                return Err(Ending::Disk);
            }
            Ok(size) => {
                self.missed = if size.has_missed { self.missed + 1 } else { 0 };
                // From now on it can be measured.
                self.before = before.or(Ok(size));
            }
            Err(_) if before.is_err() => {}
            Err(Unmeasured::Unreadable) => is_unclear = true,
            Err(Unmeasured::TooMany | Unmeasured::TooDeep) => return Err(Ending::Disk),
        }
        self.unreadable = if is_unclear { self.unreadable + 1 } else { 0 };
        let is_over = is_low || is_hiding || (self.before.is_err() && has_shrunk);
        match is_over || self.missed >= MAX_MISSED || self.unreadable >= MAX_UNREADABLE {
            true => Err(Ending::Disk),
            false => Ok(()),
        }
    }
}

fn pids<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<i32> {
    processes.map(|process| process.pid).collect()
}
