//! The small program between us and a server, that leaves no process behind.
//!
//! A child whose parent is killed goes on running, and so does everything it started. A
//! parent-death signal would reach the child alone. So each server runs under a supervisor:
//! it hands its own standard streams to the server, and watches the pipe of standard error.
//! When nobody reads that pipe any more, we are gone, in whatever way, and it ends the
//! server with all its descendants, those in other sessions and groups included.

use std::{ffi::OsString, process::ExitCode};

/// Runs `command` (a program and its arguments) as a supervised server and says how it
/// ended.
#[cfg(target_os = "linux")]
pub fn run(command: &[OsString]) -> ExitCode {
    imp::run(command)
}

/// Runs `command` (a program and its arguments) and says how it ended. Descendants are not
/// tracked on this system.
#[cfg(not(target_os = "linux"))]
pub fn run(command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else { return ExitCode::from(2) };
    let status = std::process::Command::new(program).args(args).status();
    let code = status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

#[cfg(target_os = "linux")]
mod imp {
    use std::{
        ffi::OsString,
        io,
        os::{fd::AsFd, unix::process::CommandExt},
        process::{Command, ExitCode},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use rustix::event::{PollFd, PollFlags, poll};

    use crate::processes;

    /// How long what is left may take to end when asked to.
    const GRACE: Duration = Duration::from_secs(1);

    enum News {
        ServerEnded(u8),
        ReaderGone,
    }

    pub(super) fn run(command: &[OsString]) -> ExitCode {
        let Some((program, args)) = command.split_first() else { return ExitCode::from(2) };
        // What the server leaves behind becomes ours, so that we find it.
        processes::adopt_orphans();
        let table = processes::Table::open();
        // In a group of its own: a server that ends its whole group must not end us with it.
        let child = match Command::new(program).args(args).process_group(0).spawn() {
            Ok(child) => child,
            Err(error) => {
                use io::Write as _;
                let _ = writeln!(io::stderr(), "cannot start `{}`: {error}", program.to_string_lossy());
                return ExitCode::from(127);
            }
        };
        let (tell, news) = mpsc::channel();
        let told = tell.clone();
        thread::spawn(move || {
            let _ = told.send(News::ServerEnded(processes::wait_for(&child)));
        });
        thread::spawn(move || {
            wait_until_unread();
            let _ = tell.send(News::ReaderGone);
        });
        let code = match news.recv() {
            Ok(News::ServerEnded(code)) => code,
            Ok(News::ReaderGone) | Err(_) => 1,
        };
        // Where there is no table of processes, nothing is found.
        let _ = table.and_then(|mut table| table.end_all(GRACE));
        ExitCode::from(code)
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
