//! The keeper, the outermost part of the program: it starts the watcher and ends what is left if
//! the watcher is killed.
//!
//! A watcher that is killed, by a command without a sandbox or for lack of memory, cannot enforce
//! its limits any more. All processes below it then become children of the keeper.

use std::{
    env, io,
    os::fd::AsFd,
    process::{Command, ExitCode},
    sync::mpsc,
    thread,
    time::Duration,
};

use pegboard_process::processes::{self, ProcessTable};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::setsid,
};

/// The environment variable that makes this program the watcher.
const ROLE: &str = "PEGBOARD_CONFINE_ROLE";

/// How long the watcher may take to end all processes after its parent has exited.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns whether this process is the watcher.
pub(super) fn is_watcher() -> bool {
    env::var_os(ROLE).is_some()
}

pub(super) fn run() -> ExitCode {
    // A keyboard signal that stops the parent must not stop the keeper before the command.
    let _ = setsid();
    processes::adopt_orphans();
    let own = env::current_exe();
    let (Ok(mut table), Ok(own)) = (ProcessTable::open(), own) else { return ExitCode::FAILURE };
    let Ok(mut watcher) = Command::new(own).arg("confine").env_clear().env(ROLE, "watch").spawn() else {
        return ExitCode::FAILURE;
    };
    let (tell, news) = mpsc::channel();
    let tell_end = tell.clone();
    thread::spawn(move || {
        let _ = tell_end.send(Some(processes::wait_for(&mut watcher)));
    });
    thread::spawn(move || {
        wait_until_orphaned();
        let _ = tell.send(None);
    });
    let code = match news.recv() {
        Ok(None) => news.recv_timeout(PATIENCE).ok().flatten(),
        code => code.ok().flatten(),
    };
    // A watcher that exits normally has already checked thoroughly.
    let is_done = code == Some(0) && table.descendants().is_ok_and(|left| left.is_empty());
    if is_done || table.end_all(Duration::ZERO).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Waits until the other end of standard input is closed. The input is for the watcher.
fn wait_until_orphaned() {
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
