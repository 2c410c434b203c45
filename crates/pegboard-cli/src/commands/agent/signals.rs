//! Being asked to stop.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::terminal::Found;

/// The exit code of a program that was stopped from the keyboard.
pub(crate) const INTERRUPTED: u8 = 130;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The person, who wants this run to end.
    Interrupt,
    /// The system, which wants us to end.
    Terminate,
}

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
    pub(super) fn listen(found: Found) -> Self {
        let (asked, _) = watch::channel(None);
        let signals = Self { work: Arc::new(Mutex::new(Work::None)), asked: Arc::new(asked) };
        let (own, mut source) = (signals.clone(), Source::new());
        tokio::spawn(async move {
            while let Some(stop) = source.next().await {
                own.take(stop, &found);
            }
        });
        signals
    }

    fn take(&self, stop: Stop, found: &Found) {
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

/// Where signals come from.
#[cfg(unix)]
struct Source {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Source {
    /// A signal that cannot be listened to does what it always does.
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        }
    }

    async fn next(&mut self) -> Option<Stop> {
        async fn received(signal: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
            match signal {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            got = received(&mut self.interrupt) => got.map(|()| Stop::Interrupt),
            got = received(&mut self.terminate) => got.map(|()| Stop::Terminate),
            got = received(&mut self.hangup) => got.map(|()| Stop::Terminate),
        }
    }
}

#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) -> Option<Stop> {
        tokio::signal::ctrl_c().await.ok().map(|()| Stop::Interrupt)
    }
}
