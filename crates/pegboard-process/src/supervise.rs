//! The small program between us and a server, that leaves no process behind.
//!
//! A child whose parent is killed goes on running, and so does everything it started. A
//! parent-death signal would reach the child alone. So each server runs under a supervisor:
//! it hands its own standard streams to the server, and watches the pipe of standard error.
//! When nobody reads that pipe any more, we are gone, in whatever way, and it ends the
//! server with all its descendants, those in other sessions and groups included.
//!
//! When the supervisor is killed as well, the kernel is all that is left: the server has a
//! parent-death signal (`leaf.rs`), and in a process namespace everything below it ends with the
//! namespace's first process (`namespace.rs`).

#[cfg(target_os = "linux")]
mod leaf;
#[cfg(target_os = "linux")]
mod namespace;

use std::{ffi::OsString, process::ExitCode};

/// Whether a server that is a child process runs in a process (PID) namespace, so that
/// everything it has started ends with it even when Pegboard and its supervisor are killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessNamespace {
    /// No.
    #[default]
    Off,
    /// Where that needs no user namespace, that is with `CAP_SYS_ADMIN`; otherwise no.
    Auto,
    /// Yes, in a user namespace where that is needed; where it fails, the server does not start.
    On,
}

impl ProcessNamespace {
    /// The names that configurations use.
    pub const NAMES: &'static [&'static str] = &["off", "auto", "on"];

    /// Returns the value with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "on" => Some(Self::On),
            _ => None,
        }
    }

    /// Returns the name of the value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        }
    }
}

/// Which part of the program this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Watches over a server, in a process namespace or not.
    Supervisor(ProcessNamespace),
    /// Becomes the server, and ends with the process of this number, its parent.
    Leaf(i32),
    /// The first process of a process namespace: starts the server and ends with the process of
    /// this number, its parent.
    Init(i32),
    /// The same in a user namespace, whose capabilities are not for the server.
    UserInit(i32),
    /// Tries whether a process namespace can be set up, and starts nothing.
    Trial(i32),
}

/// Runs this part of the program for `command` (a program and its arguments) and returns how
/// the server ended.
#[cfg(target_os = "linux")]
pub fn run(part: Part, command: &[OsString]) -> ExitCode {
    let code = match part {
        Part::Supervisor(namespace) => imp::run(namespace, command),
        Part::Leaf(parent) => Err(leaf::run(parent, command)),
        Part::Init(parent) => namespace::run_init(parent, namespace::Around::Namespace, command),
        Part::UserInit(parent) => namespace::run_init(parent, namespace::Around::UserNamespace, command),
        Part::Trial(parent) => namespace::set_up(parent).map(|()| 0),
    };
    let code = code.unwrap_or_else(|(code, reason)| {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{reason}");
        code
    });
    ExitCode::from(code)
}

/// Runs `command` (a program and its arguments) and says how it ended. Descendants are not
/// tracked on this system, and there are no process namespaces.
#[cfg(not(target_os = "linux"))]
pub fn run(part: Part, command: &[OsString]) -> ExitCode {
    if part == Part::Supervisor(ProcessNamespace::On) {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "only Linux has process namespaces (`processNamespace` is `on`)");
        return ExitCode::from(126);
    }
    let Some((program, args)) = command.split_first() else { return ExitCode::from(2) };
    let status = std::process::Command::new(program).args(args).status();
    let code = status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

/// An exit code, and what to write to standard error.
#[cfg(target_os = "linux")]
type Failure = (u8, String);

#[cfg(target_os = "linux")]
mod imp {
    use std::{
        ffi::OsString,
        io,
        os::{fd::AsFd, unix::process::CommandExt},
        process::{Child, Command},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use rustix::event::{PollFd, PollFlags, poll};

    use super::{
        Failure, ProcessNamespace, leaf,
        namespace::{self, Around},
    };
    use crate::processes;

    /// How long what is left may take to end when asked to.
    const GRACE: Duration = Duration::from_secs(1);

    enum News {
        ServerEnded(u8),
        ReaderGone,
    }

    pub(super) fn run(wanted: ProcessNamespace, command: &[OsString]) -> Result<u8, Failure> {
        let Some((program, _)) = command.split_first() else { return Err((2, String::new())) };
        // What the server leaves behind becomes ours, so that we find it.
        processes::adopt_orphans();
        let table = processes::Table::open();
        let around = namespace::prepare(wanted)?;
        let (tell, news) = mpsc::channel();
        let (hand_over, child) = mpsc::channel::<Child>();
        let told = tell.clone();
        // Threads before the namespace: a process that has entered one can start no more of them.
        thread::spawn(move || {
            let Ok(child) = child.recv() else { return };
            let _ = told.send(News::ServerEnded(processes::wait_for(&child)));
        });
        thread::spawn(move || {
            wait_until_unread();
            let _ = tell.send(News::ReaderGone);
        });
        // By this thread, which lasts: the server ends with the thread that started it.
        let cannot = |error| (127, format!("cannot start `{}`: {error}", program.to_string_lossy()));
        let _ = hand_over.send(match around {
            Around::Nothing => start(command).map_err(cannot)?,
            _ => namespace::start(command, around)?,
        });
        let code = match news.recv() {
            Ok(News::ServerEnded(code)) => code,
            Ok(News::ReaderGone) | Err(_) => 1,
        };
        // Where there is no table of processes, nothing is found.
        let _ = table.and_then(|mut table| table.end_all(GRACE));
        Ok(code)
    }

    /// Starts the server, in a group of its own: a server that ends its whole group must not
    /// end us with it.
    fn start(command: &[OsString]) -> io::Result<Child> {
        match leaf::command(command).process_group(0).spawn() {
            // Without `/proc` this program does not find itself. The server runs all the same.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
                Command::new(program).args(args).process_group(0).spawn()
            }
            started => started,
        }
    }

    /// Returns when the other end of standard error is closed.
    fn wait_until_unread() {
        let stderr = io::stderr();
        let mut fds = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::empty())];
        loop {
            match poll(&mut fds, None) {
                Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
