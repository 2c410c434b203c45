//! The outermost part of the program: it starts the watcher and ends what is left should that
//! come to an end that is not its own.
//!
//! A watcher that is killed, by a command without a sandbox or for want of memory, takes its
//! limits with it. Then everything below it becomes ours.

use std::{
    env, io,
    os::fd::AsFd,
    process::{Command, ExitCode},
    sync::mpsc,
    thread,
    time::Duration,
};

use pegboard_process::processes::{self, Table};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::setsid,
};

/// The variable that makes this program the watcher.
const ROLE: &str = "PEGBOARD_CONFINE_ROLE";

/// How long the watcher may take to end everything when whoever ordered the command is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether this is the watcher.
pub(super) fn is_kept() -> bool {
    env::var_os(ROLE).is_some()
}

pub(super) fn run() -> ExitCode {
    // A key press that stops whoever started us must not stop us before the command.
    let _ = setsid();
    processes::adopt_orphans();
    let own = env::current_exe();
    let (Ok(mut table), Ok(own)) = (Table::open(), own) else { return ExitCode::FAILURE };
    let Ok(mut watcher) = Command::new(own).arg("confine").env_clear().env(ROLE, "watch").spawn() else {
        return ExitCode::FAILURE;
    };
    let (tell, news) = mpsc::channel();
    let told = tell.clone();
    thread::spawn(move || {
        let _ = told.send(Some(processes::wait_for(&mut watcher)));
    });
    thread::spawn(move || {
        wait_until_alone();
        let _ = tell.send(None);
    });
    let code = match news.recv() {
        Ok(None) => news.recv_timeout(PATIENCE).ok().flatten(),
        code => code.ok().flatten(),
    };
    // It has looked thoroughly itself, when it came so far.
    let is_done = code == Some(0) && table.descendants().is_ok_and(|left| left.is_empty());
    if is_done || table.end_all(Duration::ZERO).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns when the other end of standard input is closed. What comes from there is for the
/// watcher.
fn wait_until_alone() {
    let stdin = io::stdin();
    let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::empty())];
    loop {
        match poll(&mut fds, None) {
            Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
