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
        collections::HashMap,
        ffi::OsString,
        fs, io,
        os::{fd::AsFd, unix::process::CommandExt},
        process::{Child, Command, ExitCode},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use rustix::{
        event::{PollFd, PollFlags, poll},
        process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait},
    };

    /// How long what is left may take to end when asked to.
    const GRACE: Duration = Duration::from_secs(1);

    /// How often it is asked again whether anything is left.
    const LOOK: Duration = Duration::from_millis(10);

    enum News {
        ServerEnded(u8),
        ReaderGone,
    }

    pub(super) fn run(command: &[OsString]) -> ExitCode {
        let Some((program, args)) = command.split_first() else { return ExitCode::from(2) };
        // What the server leaves behind becomes ours, so that we find it.
        let _ = set_child_subreaper(Some(rustix::process::getpid()));
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
            let _ = told.send(News::ServerEnded(wait_for(&child)));
        });
        thread::spawn(move || {
            wait_until_unread();
            let _ = tell.send(News::ReaderGone);
        });
        let code = match news.recv() {
            Ok(News::ServerEnded(code)) => code,
            Ok(News::ReaderGone) | Err(_) => 1,
        };
        end_descendants();
        ExitCode::from(code)
    }

    /// Waits until the server has ended, and takes note of everything else that ends
    /// meanwhile: what the server leaves behind is ours.
    fn wait_for(child: &Child) -> u8 {
        let server = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if Some(pid) == server => {
                    let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                    return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return 1,
            }
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

    /// Asks all descendants to end, and makes those that do not.
    fn end_descendants() {
        let mut waited = Duration::ZERO;
        let mut empty_looks = 0;
        signal_all(Signal::TERM);
        loop {
            reap();
            // The table of processes is read entry by entry: one that changes its parent
            // meanwhile can be missed once.
            empty_looks = if descendants().is_empty() { empty_looks + 1 } else { 0 };
            if empty_looks == 3 {
                return;
            }
            if waited >= GRACE {
                signal_all(Signal::KILL);
            }
            thread::sleep(LOOK);
            waited += LOOK;
        }
    }

    fn signal_all(signal: Signal) {
        for pid in descendants() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Takes note of descendants that have ended.
    fn reap() {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }

    /// Every process below this one that still runs.
    fn descendants() -> Vec<Pid> {
        let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
            // The name in parentheses may hold anything; the fields behind it may not.
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
            if let (Some(state), Some(parent)) = (state, parent) {
                children.entry(parent).or_default().push((pid, state != "Z"));
            }
        }
        let mut found = Vec::new();
        let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
        while let Some(pid) = open.pop() {
            for (child, is_running) in children.get(&pid).into_iter().flatten() {
                // One that has ended may still be the parent of one that has not.
                found.extend(Pid::from_raw(*child).filter(|_| *is_running));
                open.push(*child);
            }
        }
        found
    }
}
