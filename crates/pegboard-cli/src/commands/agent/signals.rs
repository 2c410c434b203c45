//! Stop signals during a run.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

pub(super) use crate::platform::Stop;
use crate::platform::{StopSignals, TerminalModes};

/// The exit code of a program that was interrupted from the keyboard.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a signal would stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalTarget {
    /// Nothing; the signal ends the program.
    None,
    /// Work that can be cancelled.
    Running,
    /// Work that is being cancelled; another signal ends the program at once.
    Ending,
}

/// A listener for signals for as long as the program runs.
#[derive(Clone)]
pub(super) struct Signals {
    work: Arc<Mutex<SignalTarget>>,
    asked: Arc<watch::Sender<Option<Stop>>>,
}

impl Signals {
    /// Starts to listen; `found` is restored before a signal ends the program.
    pub(super) fn listen(found: TerminalModes) -> Self {
        let (asked, _) = watch::channel(None);
        let signals = Self { work: Arc::new(Mutex::new(SignalTarget::None)), asked: Arc::new(asked) };
        let (own, mut source) = (signals.clone(), StopSignals::new());
        tokio::spawn(async move {
            while let Some(stop) = source.next().await {
                own.take(stop, &found);
            }
        });
        signals
    }

    fn take(&self, stop: Stop, found: &TerminalModes) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        match *work {
            SignalTarget::Running => {
                *work = SignalTarget::Ending;
                self.asked.send_replace(Some(stop));
            }
            // Supervisors end the servers.
            SignalTarget::None | SignalTarget::Ending => {
                found.restore();
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    }

    /// Makes signals cancel work instead of ending the program.
    pub(super) fn begin(&self) -> Cancellable {
        self.asked.send_replace(None);
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = SignalTarget::Running;
        Cancellable { work: Arc::clone(&self.work), asked: self.asked.subscribe() }
    }
}

/// Work that a signal can cancel. When it is dropped, signals end the program again.
pub(super) struct Cancellable {
    work: Arc<Mutex<SignalTarget>>,
    asked: watch::Receiver<Option<Stop>>,
}

impl Cancellable {
    /// Waits for a signal.
    pub(super) async fn wait_for_stop(&mut self) -> Stop {
        match self.asked.wait_for(Option::is_some).await {
            Ok(asked) => asked.unwrap_or(Stop::Interrupt),
            // No further signal can come.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = SignalTarget::None;
    }
}
