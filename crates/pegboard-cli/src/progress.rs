//! A progress bar for work that takes longer than a second.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Delay before the bar appears; shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tick interval of the bar, so that a long step does not look like a standstill.
const TICK: Duration = Duration::from_millis(200);

/// A progress bar on standard error, if that is a terminal, once the work has taken a second.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Dropped to signal the waiting thread that the work is done.
    done: Option<Sender<()>>,
    waiting: Option<JoinHandle<()>>,
}

impl Progress {
    /// Returns a bar for work of so many steps.
    pub(crate) fn new(steps: usize, what: &str) -> Self {
        Self::start(Some(steps as u64), "{spinner} {msg} {wide_bar} {pos}/{len} {elapsed}", what)
    }

    /// Returns a spinner for work that cannot be counted.
    pub(crate) fn waiting(what: &str) -> Self {
        Self::start(None, "{spinner} {msg} {elapsed}", what)
    }

    fn start(steps: Option<u64>, template: &str, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        let (done, is_done) = mpsc::channel::<()>();
        let shown = bar.clone();
        let waiting = thread::spawn(move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Self { bar, done: Some(done), waiting: Some(waiting) }
    }

    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Shows how many steps are done.
    pub(crate) fn at(&self, done: usize) {
        self.bar.set_position(done as u64);
    }

    /// Waits for `work`, and shows how many steps `done` counts meanwhile.
    pub(crate) async fn follow<T>(&self, work: impl Future<Output = T>, done: impl Fn() -> usize) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                finished = &mut work => return finished,
                () = tokio::time::sleep(TICK) => self.at(done()),
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.take();
        if let Some(waiting) = self.waiting.take() {
            // It only waits and draws; had it panicked, there would be nothing to clean up.
            let _ = waiting.join();
        }
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_count_follows_the_work() {
        let progress = Progress::new(3, "working");
        let answer = progress
            .follow(
                async {
                    tokio::time::sleep(3 * TICK).await;
                    7
                },
                || 2,
            )
            .await;
        assert_eq!((answer, progress.bar.position(), progress.bar.length()), (7, 2, Some(3)));
        progress.step();
        assert_eq!(progress.bar.position(), 3);
    }
}
