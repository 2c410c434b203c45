//! What the agent is doing, for the line that is shown while nothing else happens.

use std::{
    mem,
    time::{Duration, Instant},
};

use pegboard_agent::Retry;

use super::terminal;
use crate::{
    progress::{PATIENCE, StatusLine},
    terminal_text::one_line,
};

/// The longest name or reason in the line.
const MAX_TEXT: usize = 300;

/// Columns that are left free for the `^C` that a terminal echoes, which must not begin another line.
const RESERVED: usize = 4;

/// What the agent is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// Something between turns and calls.
    #[default]
    Working,
    /// The model was asked and has not written anything.
    Waiting,
    /// The model thinks.
    Thinking,
    /// The model writes an answer that is shown when it is complete.
    Writing,
    /// The model summarizes the conversation.
    Summarizing,
    /// Tools are called, as the text says.
    Calling(String),
}

impl Activity {
    fn text(&self) -> &str {
        match self {
            Self::Working => "working",
            Self::Waiting => "waiting for the model",
            Self::Thinking => "the model is thinking",
            Self::Writing => "the model is writing",
            Self::Summarizing => "summarizing the conversation",
            Self::Calling(text) => text,
        }
    }
}

/// The line that says what the agent is doing, once that has taken a second. It is removed before
/// anything else is printed.
#[derive(Debug, Default)]
pub(super) struct ActivityLine {
    activity: Activity,
    /// When the activity began; `None` before its first drawing.
    since: Option<Instant>,
    /// The retry of the request that the agent waits for, and when it was announced.
    retry: Option<(Retry, Instant)>,
    line: StatusLine,
}

impl ActivityLine {
    /// Changes the activity. The time of another activity starts at zero; calls that run at the
    /// same time are one activity.
    pub(super) fn begin(&mut self, activity: Activity) {
        if mem::discriminant(&self.activity) != mem::discriminant(&activity) {
            self.restart();
        }
        self.activity = activity;
        self.retry = None;
    }

    /// Starts the time of the activity at zero.
    pub(super) fn restart(&mut self) {
        self.since = None;
    }

    /// Adds a retry of the request that the agent waits for.
    pub(super) fn retry(&mut self, retry: Retry) {
        self.retry = Some((retry, Instant::now()));
    }

    /// Draws the line.
    pub(super) fn show(&mut self) {
        let since = *self.since.get_or_insert_with(Instant::now);
        let retry = self.retry.as_ref().map(|(retry, announced)| (retry, announced.elapsed()));
        if let Some(text) = status(&self.activity, since.elapsed(), retry) {
            self.line.show(&one_line(&text, terminal::width().saturating_sub(RESERVED)));
        }
    }

    /// Removes the line.
    pub(super) fn hide(&mut self) {
        self.line.clear();
    }
}

/// Returns the text of the line: the activity, for how long it has lasted, and the retry with the
/// time since it was announced. `None` in the first second.
fn status(activity: &Activity, elapsed: Duration, retry: Option<(&Retry, Duration)>) -> Option<String> {
    if elapsed < PATIENCE {
        return None;
    }
    let shown = format!("{}, {}", one_line(activity.text(), MAX_TEXT), duration(elapsed));
    let Some((retry, announced)) = retry else { return Some(shown) };
    let left = retry.delay.saturating_sub(announced);
    let soon = if left.is_zero() { String::new() } else { format!(" in {}", duration(left + PATIENCE)) };
    let reason = one_line(&retry.reason, MAX_TEXT);
    Some(format!("{shown}; retry {} of {}{soon}: {reason}", retry.number, retry.most))
}

/// Formats a duration in whole seconds.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_takes_long() {
        let check = |activity: Activity, ms: u64, retry: Option<(u64, u64, &str)>, expected: Option<&str>| {
            let retry = retry.map(|(delay, announced, reason)| {
                let delay = Duration::from_millis(delay);
                (Retry { number: 2, most: 4, delay, reason: reason.to_owned() }, Duration::from_millis(announced))
            });
            let retry = retry.as_ref().map(|(retry, announced)| (retry, *announced));
            assert_eq!(status(&activity, Duration::from_millis(ms), retry).as_deref(), expected);
        };
        check(Activity::Waiting, 999, None, None);
        check(Activity::Waiting, 999, Some((9000, 0, "busy")), None);
        check(Activity::Waiting, 1000, None, Some("waiting for the model, 1 s"));
        check(Activity::Thinking, 61_900, None, Some("the model is thinking, 1 min 1 s"));
        check(Activity::Calling("calling a___b".to_owned()), 2500, None, Some("calling a___b, 2 s"));
        let waiting = "waiting for the model, 5 s; retry 2 of 4 in 3 s: busy";
        check(Activity::Waiting, 5000, Some((4000, 1500, "busy")), Some(waiting));
        let sent = "waiting for the model, 9 s; retry 2 of 4: busy";
        check(Activity::Waiting, 9000, Some((4000, 4000, "busy")), Some(sent));
        // Nothing that a provider or a server writes moves the cursor.
        let clean = "calling x, 1 s; retry 2 of 4: a b";
        check(Activity::Calling("calling \u{1b}[2Jx".to_owned()), 1000, Some((0, 0, "a\nb")), Some(clean));
    }

    #[test]
    fn the_time_starts_again_with_the_next_activity() {
        let mut line = ActivityLine::default();
        line.begin(Activity::Waiting);
        line.show();
        line.retry(Retry { number: 1, most: 4, delay: Duration::ZERO, reason: "busy".to_owned() });
        assert!(line.since.is_some() && line.retry.is_some());
        line.begin(Activity::Thinking);
        assert!(line.since.is_none() && line.retry.is_none());
        line.show();
        line.begin(Activity::Thinking);
        assert!(line.since.is_some(), "pieces of one activity are one activity");
    }
}
