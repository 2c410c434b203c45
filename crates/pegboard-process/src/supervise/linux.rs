//! The supervisor: it adopts what the server leaves behind and ends it.

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
    Part, ProcessNamespace, leaf,
    namespace::{self, Around},
};
use crate::processes;

/// An exit code, and what to write to standard error.
pub(super) type Failure = (u8, String);

/// How long what is left may take to end when asked to.
const GRACE: Duration = Duration::from_secs(1);

enum News {
    ServerEnded(u8),
    ReaderGone,
}

/// Runs this part of the program for `command` (a program and its arguments) and returns how
/// the server ended.
pub fn run(part: Part, command: &[OsString]) -> ExitCode {
    let code = match part {
        Part::Supervisor(namespace) => supervise(namespace, command),
        Part::Leaf(parent) => Err(leaf::run(parent, command)),
        Part::Init(parent) => namespace::run_init(parent, namespace::Around::Namespace, command),
        Part::UserInit(parent) => namespace::run_init(parent, namespace::Around::UserNamespace, command),
        Part::Trial(parent) => namespace::set_up(parent).map(|()| 0),
    };
    let code = code.unwrap_or_else(|(code, reason)| {
        let _ = writeln!(io::stderr(), "{reason}");
        code
    });
    ExitCode::from(code)
}

fn supervise(wanted: ProcessNamespace, command: &[OsString]) -> Result<u8, Failure> {
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
        let Ok(mut child) = child.recv() else { return };
        let _ = told.send(News::ServerEnded(processes::wait_for(&mut child)));
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
