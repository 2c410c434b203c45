//! Systems without Unix signals, terminals and sockets, such as Windows.

use std::{io, path::PathBuf};

use reqwest::ClientBuilder;

use super::Stop;

/// The signals that ask the program to stop: here Ctrl-C alone.
#[derive(Debug)]
pub(crate) struct StopSignals;

impl StopSignals {
    /// Starts to listen.
    pub(crate) fn new() -> Self {
        Self
    }

    /// Waits for the next signal; `None` if none can come.
    pub(crate) async fn next(&mut self) -> Option<Stop> {
        tokio::signal::ctrl_c().await.ok().map(|()| Stop::Interrupt)
    }
}

/// The settings of the terminal, which are not changed on this system.
#[derive(Clone, Debug)]
pub(crate) struct TerminalModes;

impl TerminalModes {
    /// Reads nothing.
    pub(crate) fn read() -> Self {
        Self
    }

    /// Does nothing, because nothing was changed.
    pub(crate) fn restore(&self) {}

    /// Does nothing: typed keys are shown.
    pub(crate) fn hide_typed(&self) {}

    /// Returns nothing: typed text stays for the next read.
    pub(crate) fn take_typed(&self) -> String {
        String::new()
    }
}

/// Returns columns and rows of the terminal of standard output: not known.
pub(crate) fn output_size() -> Option<(usize, usize)> {
    None
}

/// Returns columns and rows of the terminal of standard error: not known.
pub(crate) fn error_size() -> Option<(usize, usize)> {
    None
}

/// Does nothing: typed text cannot be dropped.
pub(crate) fn discard_typed() {}

/// Reads one line; `None` when there are no more lines. Blocks, also when `is_over` becomes true.
pub(crate) fn read_line<F: Fn() -> bool>(_is_over: F) -> io::Result<Option<String>> {
    let mut line = String::new();
    Ok((io::stdin().read_line(&mut line)? > 0).then_some(line))
}

/// Does nothing: another process cannot change how the standard streams of this one work.
pub(crate) fn make_streams_blocking() {}

/// Returns `None`: this system has no control sockets.
pub(crate) fn connect_through(_builder: ClientBuilder, _socket: PathBuf) -> Option<ClientBuilder> {
    None
}
