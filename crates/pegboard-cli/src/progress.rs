//! A progress bar for work that takes longer than a second.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anstream::{AutoStream, ColorChoice};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

/// Delay before the bar appears; shorter work shows nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Tick interval of the bar, so that a long step does not look like a standstill.
const TICK: Duration = Duration::from_millis(200);

/// Removes the text of the cursor's line.
const CLEAR_LINE: &str = "\r\u{1b}[2K";

/// What is on the last line of the terminal.
enum Shown {
    Bar(WeakProgressBar),
    Status(String),
}

/// The bar or status line that was shown last.
static SHOWN: Mutex<Option<Shown>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<Shown>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `print`, which writes lines to standard error, above a bar or status line that is shown.
pub(crate) fn print_above<T>(print: impl FnOnce() -> T) -> T {
    let shown = shown();
    match &*shown {
        Some(Shown::Status(text)) => {
            write_control(CLEAR_LINE);
            let printed = print();
            write_control(text);
            printed
        }
        Some(Shown::Bar(bar)) => {
            let bar = bar.upgrade();
            drop(shown);
            match bar {
                Some(bar) => bar.suspend(print),
                None => print(),
            }
        }
        None => print(),
    }
}

/// Writes text with control sequences to a terminal, also where colours are switched off. A failure
/// cannot be reported anywhere.
fn write_control(text: &str) {
    let mut out = AutoStream::new(stderr(), ColorChoice::AlwaysAnsi);
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// One line on standard error that is replaced and removed, if that is a terminal. Bars use the whole
/// width, so that the echo of Ctrl-C begins another line; this line leaves the cursor behind its
/// text.
#[derive(Debug)]
pub(crate) struct StatusLine {
    is_possible: bool,
    is_shown: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        Self { is_possible: stderr().is_terminal() && !is_dumb, is_shown: false }
    }
}

impl StatusLine {
    /// Shows a text without control characters that fits on one line and leaves room for `^C`, which
    /// a terminal echoes. The cursor must be on a new line.
    pub(crate) fn show(&mut self, text: &str) {
        if !self.is_possible {
            return;
        }
        let mut shown = shown();
        if let Some(Shown::Status(now)) = &*shown
            && self.is_shown
            && now == text
        {
            return;
        }
        write_control(&format!("{CLEAR_LINE}{text}"));
        *shown = Some(Shown::Status(text.to_owned()));
        self.is_shown = true;
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let mut shown = shown();
            write_control(CLEAR_LINE);
            *shown = None;
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

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
        *self::shown() = Some(Shown::Bar(bar.downgrade()));
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
