//! The most recent lines of the log, buffered in memory for `pegboard logs`.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pegboard_gateway::control::{FOLLOW_QUEUE, Logs};
use tokio::sync::mpsc;

/// Maximum number of buffered lines, and of their bytes.
const MAX_LINES: usize = 5000;
const MAX_BYTES: usize = 2 << 20;

/// Maximum number of clients that follow the log.
const MAX_FOLLOWERS: usize = 16;

/// The most recent lines, and the clients that follow the log.
#[derive(Debug, Default)]
pub(crate) struct LogBuffer(Mutex<BufferState>);

#[derive(Debug, Default)]
struct BufferState {
    lines: VecDeque<Line>,
    bytes: usize,
    followers: Vec<(Option<String>, mpsc::Sender<String>)>,
}

#[derive(Debug)]
struct Line {
    /// The server that the line is about.
    server: Option<String>,
    text: String,
}

impl Line {
    fn is_about(&self, server: Option<&str>) -> bool {
        server.is_none_or(|server| self.server.as_deref() == Some(server))
    }
}

impl LogBuffer {
    /// Adds a line, without its line break.
    pub(super) fn push(&self, server: Option<String>, text: String) {
        let mut kept = self.lock();
        let line = Line { server, text };
        kept.followers.retain(|(server, follower)| {
            if !line.is_about(server.as_deref()) {
                return !follower.is_closed();
            }
            // A follower that does not keep up misses lines.
            !matches!(follower.try_send(line.text.clone()), Err(mpsc::error::TrySendError::Closed(_)))
        });
        kept.bytes += line.text.len();
        kept.lines.push_back(line);
        while kept.lines.len() > MAX_LINES || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.text.len();
        }
    }

    /// Ends the streams of all followers: the gateway stops, or the permission to read the log has
    /// changed.
    pub(crate) fn end_followers(&self) {
        self.lock().followers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Logs for LogBuffer {
    fn recent(&self, server: Option<&str>, most: usize) -> Vec<String> {
        let kept = self.lock();
        let about = kept.lines.iter().rev().filter(|line| line.is_about(server));
        let mut lines: Vec<String> = about.take(most).map(|line| line.text.clone()).collect();
        lines.reverse();
        lines
    }

    fn follow(&self, server: Option<&str>) -> Option<mpsc::Receiver<String>> {
        let (sender, receiver) = mpsc::channel(FOLLOW_QUEUE);
        let mut kept = self.lock();
        kept.followers.retain(|(_, follower)| !follower.is_closed());
        if kept.followers.len() >= MAX_FOLLOWERS {
            return None;
        }
        kept.followers.push((server.map(str::to_owned), sender));
        Some(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let log = LogBuffer::default();
        let push = |server: Option<&str>, text: &str| log.push(server.map(str::to_owned), text.to_owned());
        push(None, "one");
        push(Some("a"), "two");
        let mut of_a = log.follow(Some("a")).expect("there is room");
        push(Some("b"), "three");
        push(Some("a"), "four");
        assert_eq!(log.recent(None, 2), ["three", "four"]);
        assert_eq!(log.recent(Some("a"), 9), ["two", "four"]);
        assert_eq!((of_a.try_recv().ok().as_deref(), of_a.try_recv().ok()), (Some("four"), None));
        log.end_followers();
        assert!(of_a.is_closed());
        let followers: Vec<_> = (0..MAX_FOLLOWERS).map(|_| log.follow(None)).collect();
        assert!(followers.iter().all(Option::is_some) && log.follow(None).is_none());
        for at in 0..MAX_LINES {
            push(None, &at.to_string());
        }
        let all = log.recent(None, usize::MAX);
        assert_eq!((all.len(), all[0].as_str()), (MAX_LINES, "0"));
        push(None, &"x".repeat(MAX_BYTES));
        assert_eq!(log.recent(None, 9).len(), 1);
    }
}
