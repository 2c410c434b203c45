//! The supervisor on Linux: it adopts the orphans of the server and ends them.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, Command, ExitCode},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    ProcessNamespace, Role, leaf,
    namespace::{self, Isolation},
};
use crate::processes;

/// An exit code, and the text for standard error.
pub(super) type Failure = (u8, String);

/// Time for remaining processes to end after a request to do so.
const GRACE: Duration = Duration::from_secs(1);

/// The end of the server or of Pegboard.
enum SupervisorEvent {
    ServerEnded(u8),
    StderrClosed,
}

/// Runs a role for `command` (a program and its arguments) and returns the exit code of the
/// server.
pub fn run(role: Role, command: &[OsString]) -> ExitCode {
    let code = match role {
        Role::Supervisor(namespace) => supervise(namespace, command),
        Role::Leaf(parent) => Err(leaf::run(parent, command)),
        Role::Init(parent) => namespace::run_init(parent, namespace::Isolation::Namespace, command),
        Role::UserInit(parent) => namespace::run_init(parent, namespace::Isolation::UserNamespace, command),
        Role::Trial(parent) => namespace::set_up(parent).map(|()| 0),
    };
    let code = code.unwrap_or_else(|(code, reason)| {
        let _ = writeln!(io::stderr(), "{reason}");
        code
    });
    ExitCode::from(code)
}

fn supervise(wanted: ProcessNamespace, command: &[OsString]) -> Result<u8, Failure> {
    let Some((program, _)) = command.split_first() else { return Err((2, String::new())) };
    // Orphans of the server become children of this process, where they are found.
    processes::adopt_orphans();
    let table = processes::ProcessTable::open();
    let isolation = namespace::prepare(wanted)?;
    let (events, received) = mpsc::channel();
    let (hand_over, child) = mpsc::channel::<Child>();
    let server_events = events.clone();
    // Threads start before the namespace: a process that has entered one can start no more of them.
    thread::spawn(move || {
        let Ok(mut child) = child.recv() else { return };
        let _ = server_events.send(SupervisorEvent::ServerEnded(processes::wait_for(&mut child)));
    });
    thread::spawn(move || {
        wait_until_stderr_closed();
        let _ = events.send(SupervisorEvent::StderrClosed);
    });
    // Started by this thread, which lasts: the server ends with the thread that started it.
    let cannot = |error| (127, format!("cannot start `{}`: {error}", program.to_string_lossy()));
    let _ = hand_over.send(match isolation {
        Isolation::None => start(command).map_err(cannot)?,
        _ => namespace::start(command, isolation)?,
    });
    let code = match received.recv() {
        Ok(SupervisorEvent::ServerEnded(code)) => code,
        Ok(SupervisorEvent::StderrClosed) | Err(_) => 1,
    };
    // Without a process table no descendants are found.
    let _ = table.and_then(|mut table| table.end_all(GRACE));
    Ok(code)
}

/// Starts the server in its own process group, so that a server that ends its whole group does not
/// end the supervisor.
fn start(command: &[OsString]) -> io::Result<Child> {
    match leaf::command(command).process_group(0).spawn() {
        // Without `/proc` this program does not find its own file; the server is then started directly.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
            Command::new(program).args(args).process_group(0).spawn()
        }
        started => started,
    }
}

/// Waits until the read end of standard error is closed.
fn wait_until_stderr_closed() {
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
