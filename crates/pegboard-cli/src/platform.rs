//! The parts of the program that depend on the operating system: signals, the terminal, standard
//! streams, control sockets and the allocator.
//!
//! Both implementations have the same types and functions, and tests also run those of other systems.

pub(crate) mod memory;
#[cfg(any(test, not(unix)))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::other::{
    StopSignals, TerminalModes, connect_through, discard_typed, error_size, make_streams_blocking, output_size,
    read_line,
};
#[cfg(unix)]
pub(crate) use self::unix::{
    StopSignals, TerminalModes, connect_through, discard_typed, error_size, make_streams_blocking, output_size,
    read_line,
};

/// Maximum length of a line of terminal input.
pub(crate) const MAX_LINE: usize = 4096;

/// The origin of a stop signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The user at the keyboard, to end this run.
    Interrupt,
    /// The system, to end the program.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only signals tell this"))]
    Terminate,
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    #[tokio::test]
    async fn systems_without_unix_terminals_do_without() {
        let modes = other::TerminalModes::read();
        modes.hide_typed();
        assert_eq!(modes.take_typed(), "");
        modes.restore();
        other::discard_typed();
        other::make_streams_blocking();
        assert_eq!((other::output_size(), other::error_size()), (None, None));
        assert!(other::connect_through(reqwest::Client::builder(), "/x".into()).is_none());
        // Not called: it would take the next line of the terminal that runs the tests.
        let _ = other::read_line::<fn() -> bool>;
        let mut signals = other::StopSignals::new();
        let mut next = pin!(signals.next());
        let polled = std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "nobody asks");
    }
}
