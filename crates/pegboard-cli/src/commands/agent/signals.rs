//! Being asked to stop.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

pub(super) use crate::platform::Stop;
use crate::platform::{StopSignals, TerminalModes};

/// The exit code of a program that was stopped from the keyboard.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a signal would stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Nothing; it ends the program.
    None,
    /// Something that can be cancelled.
    Running,
    /// Something that is being cancelled; asked again, we end at once.
    Ending,
}

/// Listens to signals for as long as the program runs.
#[derive(Clone)]
pub(super) struct Signals {
    work: Arc<Mutex<Work>>,
    asked: Arc<watch::Sender<Option<Stop>>>,
}

impl Signals {
    /// Starts to listen; `found` is restored before a signal ends the program.
    pub(super) fn listen(found: TerminalModes) -> Self {
        let (asked, _) = watch::channel(None);
        let signals = Self { work: Arc::new(Mutex::new(Work::None)), asked: Arc::new(asked) };
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
            Work::Running => {
                *work = Work::Ending;
                self.asked.send_replace(Some(stop));
            }
            // Supervisors end the servers.
            Work::None | Work::Ending => {
                found.restore();
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    }

    /// From now on a signal asks for this to end.
    pub(super) fn begin(&self) -> Listening {
        self.asked.send_replace(None);
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Work::Running;
        Listening { work: Arc::clone(&self.work), asked: self.asked.subscribe() }
    }
}

/// Something that a signal can end. Dropped, signals end the program again.
pub(super) struct Listening {
    work: Arc<Mutex<Work>>,
    asked: watch::Receiver<Option<Stop>>,
}

impl Listening {
    /// Waits until it should end.
    pub(super) async fn stopped(&mut self) -> Stop {
        match self.asked.wait_for(Option::is_some).await {
            Ok(asked) => asked.unwrap_or(Stop::Interrupt),
            // Nobody can ask any more.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Work::None;
    }
}
