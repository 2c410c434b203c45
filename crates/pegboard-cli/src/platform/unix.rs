//! Unix signals, terminals and sockets.

use std::{
    io::{self, stderr, stdin, stdout},
    os::fd::AsFd,
    path::PathBuf,
};

use reqwest::ClientBuilder;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp,
        tcgetwinsize, tcsetattr,
    },
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{MAX_LINE, Stop};

/// Poll interval for questions that need no answer any more.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The signals that ask the program to stop.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl StopSignals {
    /// Starts to listen. A signal that cannot be handled keeps its default effect.
    pub(crate) fn new() -> Self {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(|kind| signal(kind).ok());
        Self { interrupt, terminate, hangup }
    }

    /// Waits for the next signal; `None` if none can come.
    pub(crate) async fn next(&mut self) -> Option<Stop> {
        async fn next_signal(signal: &mut Option<Signal>) -> Option<()> {
            match signal {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            got = next_signal(&mut self.interrupt) => got.map(|()| Stop::Interrupt),
            got = next_signal(&mut self.terminate) => got.map(|()| Stop::Terminate),
            got = next_signal(&mut self.hangup) => got.map(|()| Stop::Terminate),
        }
    }
}

/// The settings of the terminal as the program found them.
#[derive(Clone, Debug)]
pub(crate) struct TerminalModes(Option<Termios>);

impl TerminalModes {
    /// Reads the settings of the terminal of standard input.
    pub(crate) fn read() -> Self {
        Self(tcgetattr(stdin()).ok())
    }

    /// Restores the settings: a program that ends while a line is edited would leave a terminal
    /// that shows nothing.
    pub(crate) fn restore(&self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
    }

    /// Hides typed keys until the settings are restored.
    pub(crate) fn hide_typed(&self) {
        self.set(|modes| modes.local_modes.remove(LocalModes::ECHO));
    }

    /// Reads what was typed so far without waiting, and keeps hiding typed keys.
    pub(crate) fn take_typed(&self) -> String {
        // Without lines, everything typed can be read at once.
        self.set(|modes| {
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            modes.special_codes[SpecialCodeIndex::VMIN] = 0;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        });
        let mut typed = [0; MAX_LINE];
        let length = rustix::io::read(stdin(), &mut typed).unwrap_or(0);
        String::from_utf8_lossy(&typed[..length]).into_owned()
    }

    /// Changes the settings, unless another program has the terminal: that would stop this one.
    fn set(&self, change: impl FnOnce(&mut Termios)) {
        let is_ours = tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
        if let Some(modes) = self.0.as_ref().filter(|_| is_ours) {
            let mut modes = modes.clone();
            change(&mut modes);
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
    }
}

/// Returns columns and rows of the terminal of standard output.
pub(crate) fn output_size() -> Option<(usize, usize)> {
    size(stdout())
}

/// Returns columns and rows of the terminal of standard error.
pub(crate) fn error_size() -> Option<(usize, usize)> {
    size(stderr())
}

fn size(terminal: impl AsFd) -> Option<(usize, usize)> {
    let size = tcgetwinsize(terminal).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Drops what was typed before it was asked for.
pub(crate) fn discard_typed() {
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

/// Reads one line, unless `is_over` returns `true` first: then no input is consumed. `None` at the
/// end of input. Blocks.
pub(crate) fn read_line<F: Fn() -> bool>(is_over: F) -> io::Result<Option<String>> {
    let input = stdin();
    while !is_over() {
        // A terminal is readable when a line is complete; so much is read, and no more.
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let mut line = [0; MAX_LINE];
                return match rustix::io::read(&input, &mut line)? {
                    0 => Ok(None),
                    length => Ok(Some(String::from_utf8_lossy(&line[..length]).into_owned())),
                };
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Makes standard input and output blocking.
///
/// A client can have made the streams non-blocking. The flag belongs to the pipe and not to a
/// process: a client that reads or writes its own end through an event loop, as Node does with
/// inherited streams, sets it for this program too. A read that finds nothing would then be an
/// error.
pub(crate) fn make_streams_blocking() {
    let (input, output) = (stdin(), stdout());
    block(&input);
    block(&output);
}

fn block(stream: &impl AsFd) {
    let is_changed = fcntl_getfl(stream).and_then(|flags| match flags.contains(OFlags::NONBLOCK) {
        true => fcntl_setfl(stream, flags.difference(OFlags::NONBLOCK)),
        false => Ok(()),
    });
    if let Err(error) = is_changed {
        tracing::debug!(%error, "standard stream flags not readable");
    }
}

/// Connects through a Unix socket instead of a network.
pub(crate) fn connect_through(builder: ClientBuilder, socket: PathBuf) -> Option<ClientBuilder> {
    Some(builder.unix_socket(socket))
}
