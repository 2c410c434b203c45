//! Checks at intervals whether the files of a command keep to its limits.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use pegboard_process::processes::{Process, ProcessTable};

use super::{
    disk::{self, FolderSize, MeasureError},
    held_files::{self, HeldResources},
    machine::FreeSpace,
    process_watch::pause,
    spec::{CommandLimits, CommandSpec, Kind},
};
use crate::shell::command_output::ExceededLimit;

/// Minimum and maximum interval between checks.
const FILES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Multiple of the file limit up to which files are counted before the command starts. A folder
/// with even more files must not shrink the free space of its disk.
const COUNTED: usize = 4;

/// Maximum number of consecutive checks in which a folder may disappear. Folders that are created
/// and removed all the time are harmless; a folder that keeps moving hides its content.
const MAX_MISSED: u32 = 10;

/// Maximum number of consecutive checks in which a file may be unreadable.
const MAX_UNREADABLE: u32 = 3;

/// Maximum number of consecutive checks in which a process may hide its descriptors. A process that
/// is being confined does, which takes a while on a busy machine; the free space of the disk is
/// watched meanwhile.
const MAX_HIDDEN: u32 = 20;

/// Folders in memory of a sandbox with its own file system.
const IN_MEMORY: [&str; 2] = ["tmp", "dev/shm"];

/// Watches the files of a command, with the sizes before it started.
pub(super) struct FileWatch {
    folders: Vec<PathBuf>,
    /// The devices of the folders.
    disks: Vec<u64>,
    before: Result<FolderSize, MeasureError>,
    free: Vec<(PathBuf, FreeSpace)>,
    sandbox: Kind,
    limits: CommandLimits,
    missed: u32,
    unreadable: u32,
    /// Processes that hide their descriptors, and for how many consecutive checks.
    hidden: BTreeMap<i32, u32>,
    has_seen: bool,
}

impl FileWatch {
    /// Measures the folders before the command starts. A folder that cannot be measured must not
    /// keep a command from removing it.
    pub(super) fn new(folders: &[PathBuf], spec: &CommandSpec) -> Self {
        let before = disk::measure(folders, spec.limits.max_files.saturating_mul(COUNTED));
        let free = folders.iter().filter_map(|folder| Some((folder.clone(), FreeSpace::of(folder)?)));
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

    /// Returns when a limit is exceeded, or cannot be checked any more.
    pub(super) fn watch(mut self, table: &mut ProcessTable) -> ExceededLimit {
        loop {
            let start = Instant::now();
            // Without a process list, any number of processes may run.
            let Ok(processes) = table.descendants() else { return ExceededLimit::Processes };
            if let Some(ending) = self.check_limits(&processes) {
                return ending;
            }
            thread::sleep(pause(start, FILES));
        }
    }

    fn check_limits(&mut self, processes: &[Process]) -> Option<ExceededLimit> {
        let (own, others) = self.split_processes(processes);
        // A process with too many descriptors to check hides something.
        let Ok(held) = held_files::measure_held(&others, &self.disks) else { return Some(ExceededLimit::Disk) };
        if held.memory > self.limits.memory_bytes {
            return Some(ExceededLimit::Memory);
        }
        if own.iter().any(|process| self.is_crowded(process)) {
            return Some(ExceededLimit::Disk);
        }
        self.check_files(&held).err()
    }

    /// Returns whether a process has hidden its descriptors for too long; a process that is just
    /// ending hides them too. Without a sandbox, programs of other users always do.
    fn is_hiding(&mut self, held: &HeldResources) -> bool {
        self.has_seen |= held.has_seen;
        let times = |pid: &i32| (*pid, self.hidden.get(pid).map_or(1, |times| times + 1));
        self.hidden = held.hidden.iter().map(times).collect();
        let is_long = self.hidden.values().any(|times| *times >= MAX_HIDDEN);
        is_long && self.has_seen && self.sandbox != Kind::None
    }

    /// Splits processes into the sandbox's own and the command's.
    fn split_processes(&self, processes: &[Process]) -> (Vec<Process>, Vec<Process>) {
        if !self.sandbox.has_own_namespaces() {
            return (Vec::new(), processes.to_vec());
        }
        let us = rustix::process::getpid().as_raw_nonzero().get();
        // One outside, and the first process inside.
        let outside: Vec<i32> = pids(processes.iter().filter(|process| process.parent == us));
        let is_own = |process: &&Process| process.parent == us || outside.contains(&process.parent);
        processes.iter().partition(is_own)
    }

    /// Returns whether the folders in memory contain too many files: empty files take memory too.
    /// They are reached through the first process inside.
    fn is_crowded(&self, process: &Process) -> bool {
        IN_MEMORY.iter().any(|folder| {
            let inside = PathBuf::from(format!("/proc/{}/root/{folder}", process.pid));
            // While the sandbox is being set up, these are the system's folders.
            let device = |path: &Path| fs::symlink_metadata(path).ok().map(|data| data.dev());
            let is_ours = device(&inside).is_some_and(|inside| Some(inside) != device(&Path::new("/").join(folder)));
            let files = rustix::fs::statvfs(&inside).map_or(0, |room| room.f_files.saturating_sub(room.f_ffree));
            is_ours && files > self.limits.max_files as u64
        })
    }

    fn check_files(&mut self, held: &HeldResources) -> Result<(), ExceededLimit> {
        let is_hiding = self.is_hiding(held);
        let free = self.free.iter().filter_map(|(folder, before)| Some((FreeSpace::of(folder)?, before)));
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
                return Err(ExceededLimit::Disk);
            }
            Ok(size) => {
                self.missed = if size.has_missed { self.missed + 1 } else { 0 };
                // From now on the folders can be measured.
                self.before = before.or(Ok(size));
            }
            Err(_) if before.is_err() => {}
            Err(MeasureError::Unreadable) => is_unclear = true,
            Err(MeasureError::TooMany | MeasureError::TooDeep) => return Err(ExceededLimit::Disk),
        }
        self.unreadable = if is_unclear { self.unreadable + 1 } else { 0 };
        let is_over = is_low || is_hiding || (self.before.is_err() && has_shrunk);
        match is_over || self.missed >= MAX_MISSED || self.unreadable >= MAX_UNREADABLE {
            true => Err(ExceededLimit::Disk),
            false => Ok(()),
        }
    }
}

fn pids<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<i32> {
    processes.map(|process| process.pid).collect()
}
