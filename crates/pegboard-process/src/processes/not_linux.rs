//! Processes of systems other than Linux, whose table of processes is not read.

use std::io;

use super::Process;

/// Does nothing: this system offers no such protection to a program without special rights.
pub fn hide_memory() {}

/// Does nothing: priorities of single threads are not set on this system.
pub fn lower_thread_priority() {}

/// Does nothing: this system hands orphans to its first process.
pub fn adopt_orphans() {}

/// Returns nothing: the memory of processes is not read on this system.
pub fn memory_of(roots: &[u32]) -> Vec<Option<u64>> {
    roots.iter().map(|_| None).collect()
}

/// The process table, which is always empty here.
#[derive(Debug)]
pub(super) struct TableReader;

impl TableReader {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn descendants(&mut self) -> io::Result<Vec<Process>> {
        Ok(Vec::new())
    }

    /// Kills nothing, because nothing is found.
    pub(super) fn kill(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_found_and_nothing_fails() {
        hide_memory();
        lower_thread_priority();
        adopt_orphans();
        assert_eq!(memory_of(&[1]), [None]);
        let mut entries = TableReader::open().expect("nothing to open");
        assert_eq!(entries.descendants().expect("nothing to read"), []);
        assert!(!entries.kill().expect("nothing to kill"));
    }
}
