//! Measures what processes hold outside of folders: deleted files that are still open, and sockets.

use std::{
    collections::BTreeSet,
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt},
};

use pegboard_process::processes::Process;

use super::disk::{BLOCK, MeasureError};

/// Maximum number of descriptors that are checked. A process with more hides something.
const MAX_DESCRIPTORS: usize = 20_000;

/// Maximum number of bytes of a process's mappings that are read.
const MAPPINGS_BYTES: u64 = 1 << 20;

/// Upper bound of the kernel memory of an unread socket, by the usual limit of the kernel.
const SOCKET_BYTES: u64 = 2 * 212_992;

/// The disk space and memory that processes hold without a file name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldResources {
    /// Bytes in files on the disk of the working folder.
    pub(super) disk: u64,
    /// Bytes in other files, which are in memory, and in sockets.
    pub(super) memory: u64,
    /// Processes that hide their descriptors, or are just ending.
    pub(super) hidden: Vec<i32>,
    /// Whether at least one process could be checked.
    pub(super) has_seen: bool,
}

/// Measures what the processes hold; `disks` are the devices of the folders that they write to.
pub(super) fn measure_held(processes: &[Process], disks: &[u64]) -> Result<HeldResources, MeasureError> {
    // This program is also running inside, and its file may have been replaced meanwhile.
    let own = fs::metadata("/proc/self/exe").map(|data| (data.dev(), data.ino()));
    let mut scan = HeldScan { held: HeldResources::default(), seen: own.into_iter().collect(), disks, descriptors: 0 };
    for process in processes.iter().filter(|process| process.is_running) {
        let folder = format!("/proc/{}", process.pid);
        match scan.add_descriptors(&folder) {
            Ok(()) => scan.held.has_seen = true,
            Err(Failure::TooMany) => return Err(MeasureError::TooMany),
            Err(Failure::Read(error)) => match error.kind() {
                io::ErrorKind::NotFound => {}
                _ if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
                _ => scan.held.hidden.push(process.pid),
            },
        }
        scan.add_mappings(&folder);
    }
    Ok(scan.held)
}

struct HeldScan<'a> {
    held: HeldResources,
    seen: BTreeSet<(u64, u64)>,
    disks: &'a [u64],
    descriptors: usize,
}

enum Failure {
    TooMany,
    Read(io::Error),
}

impl HeldScan<'_> {
    fn add_descriptors(&mut self, process: &str) -> Result<(), Failure> {
        for descriptor in fs::read_dir(format!("{process}/fd")).map_err(Failure::Read)? {
            let descriptor = descriptor.map_err(Failure::Read)?;
            self.descriptors += 1;
            if self.descriptors > MAX_DESCRIPTORS {
                return Err(Failure::TooMany);
            }
            // A file that was closed meanwhile is not held any more.
            let _ = fs::metadata(descriptor.path()).map(|data| self.add_file(&data));
        }
        Ok(())
    }

    /// Adds files that are mapped and no longer open.
    fn add_mappings(&mut self, process: &str) {
        let mut list = Vec::new();
        let Ok(file) = File::open(format!("{process}/maps")) else { return };
        let _ = file.take(MAPPINGS_BYTES).read_to_end(&mut list);
        for mapping in String::from_utf8_lossy(&list).lines().filter_map(Mapping::parse_deleted) {
            let path = format!("{process}/map_files/{}", mapping.range);
            match fs::metadata(path) {
                Ok(data) => self.add_file(&data),
                // Only root can read the size: it is at least that of the mapping.
                Err(_) if self.seen.insert(mapping.file) => self.add(mapping.file.0, mapping.bytes),
                Err(_) => {}
            }
        }
    }

    fn add_file(&mut self, data: &Metadata) {
        let is_nameless = data.is_file() && data.nlink() == 0;
        if !(is_nameless || data.file_type().is_socket()) || !self.seen.insert((data.dev(), data.ino())) {
            return;
        }
        if is_nameless {
            self.add(data.dev(), data.blocks() * BLOCK);
        } else {
            self.held.memory += SOCKET_BYTES;
        }
    }

    /// Adds bytes to the disk or the memory. A file that is not on the disk of the working folder
    /// is in memory: a command can write nowhere else.
    fn add(&mut self, device: u64, bytes: u64) {
        let sum = if self.disks.contains(&device) { &mut self.held.disk } else { &mut self.held.memory };
        *sum = sum.saturating_add(bytes);
    }
}

/// A file that a process has mapped.
struct Mapping<'a> {
    range: &'a str,
    bytes: u64,
    /// The device and the inode number.
    file: (u64, u64),
}

impl<'a> Mapping<'a> {
    /// Parses a line of `/proc/PID/maps` if it is about a deleted file.
    fn parse_deleted(line: &'a str) -> Option<Self> {
        let fields = line.strip_suffix(" (deleted)")?;
        let mut fields = fields.split_whitespace();
        let range = fields.next()?;
        let (device, number) = (fields.nth(2)?, fields.next()?);
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (from, to) = range.split_once('-')?;
        let (major, minor) = device.split_once(':')?;
        let device = device_number(u32::try_from(hex(major)?).ok()?, u32::try_from(hex(minor)?).ok()?)?;
        let bytes = hex(to)?.checked_sub(hex(from)?)?;
        Some(Self { range, bytes, file: (device, number.parse().ok()?) })
    }
}

/// Returns the number of a device in the format of [`MetadataExt::dev`]. Its type differs between
/// systems.
fn device_number(major: u32, minor: u32) -> Option<u64> {
    u64::try_from(i128::from(rustix::fs::makedev(major, minor))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_without_a_name() {
        let check = |line, expected: Option<(u64, (u64, u64))>| {
            assert_eq!(Mapping::parse_deleted(line).map(|mapping| (mapping.bytes, mapping.file)), expected, "{line}");
        };
        let device = device_number(0, 1).expect("a number");
        check("7f00-8f00 rw-s 00000000 00:01 77    /dev/zero (deleted)", Some((0x1000, (device, 77))));
        check("7f00-8f00 r--p 00000000 00:01 78    /a b (deleted)", Some((0x1000, (device, 78))));
        check("7f00-8f00 rw-s 00000000 00:01 77    /dev/zero", None);
        check("8f00-7f00 rw-s 00000000 00:01 77    /x (deleted)", None);
        check("7f00 (deleted)", None);
    }
}
