//! Processes on Linux, read from `/proc`.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Read},
};

use rustix::{
    fs::{Dir, Mode, OFlags, openat},
    io::Errno,
};

use super::{Process, unix};

/// Maximum number of bytes of `/proc/PID/stat`, which is far shorter.
const STAT_BYTES: u64 = 4096;

/// Keeps other processes of the same user from reading the memory and the environment of this
/// one (`/proc/PID/environ`, `/proc/PID/mem`, `ptrace`): a server runs as the same user. Also
/// switches core dumps off. Programs that this process executes are not affected, and neither
/// are readers with root's capabilities.
pub fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    // The call fails only for unknown values.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Gives this thread a lower priority than all others from now on.
pub fn lower_thread_priority() {
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Makes this process adopt its orphaned descendants.
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Returns the memory that each of these processes and its descendants use now, in bytes; `None` for
/// one that does not run.
pub fn memory_of(roots: &[u32]) -> Vec<Option<u64>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let table = TableReader::open().and_then(|mut table| {
        table.for_each(|process| children.entry(process.parent).or_default().push(process.pid))?;
        Ok(table)
    });
    let Ok(table) = table else { return roots.iter().map(|_| None).collect() };
    let of_root = |root: &u32| {
        let root = i32::try_from(*root).ok()?;
        let mut total = table.resident(root)?;
        let (mut open, mut seen) = (vec![root], HashSet::from([root]));
        while let Some(pid) = open.pop() {
            for child in children.get(&pid).into_iter().flatten().filter(|child| seen.insert(**child)) {
                total = total.saturating_add(table.resident(*child).unwrap_or_default());
                open.push(*child);
            }
        }
        Some(total)
    };
    roots.iter().map(of_root).collect()
}

/// The open process table.
#[derive(Debug)]
pub(super) struct TableReader {
    folder: Dir,
}

impl TableReader {
    /// Opens the table.
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: Dir::new(rustix::fs::open("/proc", flags, Mode::empty())?)? })
    }

    /// Returns all descendants of this process.
    pub(super) fn descendants(&mut self) -> io::Result<Vec<Process>> {
        let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
        self.for_each(|process| children.entry(process.parent).or_default().push(process))?;
        let mut found = Vec::new();
        let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
        while let Some(pid) = open.pop() {
            // Removed from the list: a table that changes while it is read can have a cycle.
            for process in children.remove(&pid).into_iter().flatten() {
                // A zombie may still be the parent of a running process.
                found.push(process);
                open.push(process.pid);
            }
        }
        Ok(found)
    }

    /// Kills all descendants and returns whether there were any. Each is killed as soon as it is seen:
    /// process ids ascend, so most processes that start meanwhile are still to come.
    pub(super) fn kill(&mut self) -> io::Result<bool> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let ours = self.session(own)?;
        let mut known = HashSet::from([own]);
        let (mut groups, mut is_any) = (HashSet::new(), false);
        let looked = self.for_each(|process| {
            if !known.contains(&process.parent) {
                return;
            }
            known.insert(process.pid);
            // The whole group first, because new processes are in the group of their parent. The own
            // session may have groups of other programs; other sessions below this process were
            // created below it.
            if process.session != ours && groups.insert(process.group) {
                unix::kill_group(process.group);
            }
            if process.is_running {
                is_any = true;
                unix::kill(process.pid);
            }
        });
        // Process ids wrap around: a child with a lower one than its parent is left to the
        // complete scan.
        for process in looked.and_then(|()| self.descendants())?.iter().filter(|process| process.is_running) {
            is_any = true;
            unix::kill(process.pid);
        }
        Ok(is_any)
    }

    /// Returns the session of a process; 0 if its leader is outside the visible namespace, as in many
    /// containers, which `getsid` of `rustix` does not support.
    fn session(&self, pid: i32) -> io::Result<i32> {
        let stat = self.stat(pid)?;
        let process = parse_stat(pid, &String::from_utf8_lossy(&stat));
        process.map(|process| process.session).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Reads all processes, one by one.
    fn for_each(&mut self, mut see: impl FnMut(Process)) -> io::Result<()> {
        self.folder.rewind();
        while let Some(entry) = self.folder.read() {
            let name = entry?;
            let Some(pid) = name.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()) else { continue };
            match self.stat(pid) {
                Ok(stat) => {
                    let _ = parse_stat(pid, &String::from_utf8_lossy(&stat)).map(&mut see);
                }
                Err(error) if is_gone_or_foreign(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the resident memory of a process in bytes.
    fn resident(&self, pid: i32) -> Option<u64> {
        let status = self.read(pid, "status").ok()?;
        let status = String::from_utf8_lossy(&status);
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    fn stat(&self, pid: i32) -> io::Result<Vec<u8>> {
        self.read(pid, "stat")
    }

    fn read(&self, pid: i32, name: &str) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = File::from(openat(self.folder.fd()?, format!("{pid}/{name}"), flags, Mode::empty())?);
        let mut stat = Vec::new();
        file.take(STAT_BYTES).read_to_end(&mut stat)?;
        Ok(stat)
    }
}

/// Returns whether a process has ended meanwhile, or belongs to another user. Any other error means
/// that the table cannot be read.
fn is_gone_or_foreign(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::SRCH, Errno::ACCESS, Errno::PERM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Parses a line of `/proc/PID/stat`.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    // The name in parentheses may contain anything, the fields after it may not.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<i32>().ok());
    Some(Process {
        pid: (pid > 0).then_some(pid)?,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        threads: usize::try_from(number(17)?).ok()?,
        is_running: !matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_fields() {
        let stat = "77 (a) R 1 1 1) S 5 70 60 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 100 0 0";
        let process = parse_stat(77, stat).expect("a process");
        assert_eq!(process.parent, 5);
        assert_eq!((process.group, process.session, process.threads, process.is_running), (70, 60, 3, true));
        assert!(parse_stat(77, "77 (a) S").is_none());
        assert!(parse_stat(0, stat).is_none());
    }

    #[test]
    fn memory_includes_descendants() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let found = memory_of(&[std::process::id(), child.id(), u32::MAX]);
        child.kill().and_then(|()| child.wait().map(drop)).expect("it runs");
        let (Some(own), Some(of_child), None) = (found[0], found[1], found[2]) else { panic!("{found:?}") };
        assert!(own > of_child && of_child > 0, "{found:?}");
    }

    #[test]
    fn a_table_that_cannot_be_read_is_not_empty() {
        let mut table = TableReader::open().expect("there is one");
        // A machine that is short of something may need another look, as `end_all` takes it.
        let looks: Vec<_> = (0..100).map(|_| table.descendants().map(drop)).take_while(Result::is_err).collect();
        assert!(looks.len() < 100, "{:?}", looks.last());
        for (errno, is_gone) in
            [(Errno::NOENT, true), (Errno::SRCH, true), (Errno::MFILE, false), (Errno::NFILE, false)]
        {
            assert_eq!(is_gone_or_foreign(&errno.into()), is_gone, "{errno:?}");
        }
        // A folder that is none.
        let file = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).expect("it is there");
        let mut broken = TableReader { folder: Dir::new(file).expect("not looked at yet") };
        assert!(broken.descendants().is_err());
        assert!(broken.kill().is_err());
    }

    /// In a container, the leader of the own session often has no visible process id.
    #[test]
    fn a_session_led_from_outside() {
        let apart = |program: &std::path::Path, arguments: &[&str]| {
            let mut unshare = std::process::Command::new("unshare");
            unshare.args(["--map-root-user", "--pid", "--fork", "--mount-proc"]).arg(program).args(arguments).output()
        };
        if !apart("true".as_ref(), &[]).is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no process may be set apart here");
            return;
        }
        let this = std::env::current_exe().expect("a program runs");
        let same = "processes::linux::tests::a_table_that_cannot_be_read_is_not_empty";
        let output = apart(&this, &["--exact", same]).expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
