//! Free memory and disk space of the whole machine: the last resort for what cannot be attributed
//! to a process or a folder.

use std::{fs, path::Path};

use super::spec::CommandLimits;

/// Tolerance for other programs.
const MEMORY_SLACK: u64 = 256 << 20;

/// Tolerance for other programs on the disk.
const DISK_SLACK: u64 = 1 << 30;

/// One part in so many of all memory must stay free.
const FLOOR: u64 = 20;

/// The memory of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    total: u64,
    available: u64,
    /// Files in memory and kernel memory of processes. Not computed from the free memory: freed
    /// memory takes long to appear there.
    kept: u64,
}

impl Memory {
    /// Reads the current memory; `None` if it cannot be read.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/meminfo").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            lines.next()?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        let kept = [value("Shmem")?, value("SUnreclaim")?, value("PageTables")?].iter().sum();
        Some(Self { total: value("MemTotal")?, available: value("MemAvailable")?, kept })
    }

    /// Returns whether so much memory was used since `before` that the command must be the cause.
    pub(super) fn is_low(&self, before: &Self, limits: &CommandLimits) -> bool {
        let most = limits.memory_bytes.saturating_mul(2).saturating_add(MEMORY_SLACK);
        let used = before.available.saturating_sub(self.available);
        let is_short = self.available < self.total / FLOOR && used > limits.memory_bytes / 2;
        is_short || self.kept.saturating_sub(before.kept) > most
    }
}

/// The free space of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeSpace {
    bytes: u64,
    files: u64,
}

impl FreeSpace {
    /// Reads the free space of the disk that holds this folder. What is reserved for root counts as
    /// free: the system can reserve more while a command runs, which has used nothing then.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let free = rustix::fs::statvfs(folder).ok()?;
        Some(Self { bytes: free.f_bfree.saturating_mul(free.f_frsize), files: free.f_ffree })
    }

    /// Returns whether more than twice the limit of a command was used since `before`.
    pub(super) fn is_low(&self, before: &Self, limits: &CommandLimits) -> bool {
        let most = limits.disk_bytes.saturating_mul(2).saturating_add(DISK_SLACK);
        before.bytes.saturating_sub(self.bytes) > most
    }

    /// Returns whether a relevant amount was used since `before`.
    pub(super) fn has_shrunk(&self, before: &Self) -> bool {
        /// Tolerance for other programs.
        const BYTES: u64 = 256 << 20;
        const FILES: u64 = 2000;
        before.bytes.saturating_sub(self.bytes) > BYTES || before.files.saturating_sub(self.files) > FILES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(available: u64, shared: u64) -> Memory {
        let text = format!(
            "MemTotal: {} kB\nMemFree: 9 kB\nMemAvailable: {} kB\nCached: 8 kB\nShmem: {} kB\nShmemHugePages: 7 kB\n\
             SUnreclaim: 1024 kB\nPageTables: 1024 kB\nSecPageTables: 6 kB\n",
            10_240 * 1024,
            available * 1024,
            shared * 1024
        );
        Memory::parse(&text).expect("it is all there")
    }

    fn limits() -> CommandLimits {
        CommandLimits {
            timeout_ms: 0,
            memory_bytes: 100 * MIB,
            max_processes: 0,
            disk_bytes: 100 * MIB,
            max_files: 0,
            max_file_bytes: 0,
            temporary_bytes: 0,
            output_bytes: 0,
        }
    }

    #[test]
    fn little_is_left_of_the_memory() {
        let before = memory(4096, 10);
        assert_eq!((before.total, before.available, before.kept), (10_240 * MIB, 4096 * MIB, 12 * MIB));
        assert!(!before.is_low(&before, &limits()));
        // What others have to themselves does not count; a file in memory does.
        assert!(!memory(1024, 10).is_low(&before, &limits()));
        assert!(!memory(4096, 400).is_low(&before, &limits()) && memory(4096, 500).is_low(&before, &limits()));
        assert!(memory(500, 10).is_low(&before, &limits()));
        // The machine had little before.
        assert!(!memory(480, 10).is_low(&memory(500, 10), &limits()));
        assert_eq!(Memory::parse("MemTotal: 1 kB\n"), None);
        assert!(Memory::now().is_none_or(|now| now.total > now.available));
    }

    #[test]
    fn little_is_left_of_the_disk() {
        let before = FreeSpace { bytes: 5000 * MIB, files: 100_000 };
        let now = |bytes, files| FreeSpace { bytes: bytes * MIB, files };
        assert!(!now(4000, 0).is_low(&before, &limits()) && now(3700, 0).is_low(&before, &limits()));
        assert!(!now(4750, 99_000).has_shrunk(&before) && now(4700, 99_000).has_shrunk(&before));
        assert!(now(4999, 97_000).has_shrunk(&before));
    }
}
