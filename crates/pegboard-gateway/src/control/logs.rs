//! The recent log lines of a running gateway.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::Frame;
use tokio::sync::mpsc;

use super::query::pairs;

/// Maximum number of lines that wait for a client that follows the log; further lines are dropped.
pub const FOLLOW_QUEUE: usize = 1024;

/// The log of the program, which the gateway itself cannot read.
pub trait Logs: fmt::Debug + Send + Sync {
    /// Returns the last `most` lines, or those of one server, oldest first.
    fn recent(&self, server: Option<&str>, most: usize) -> Vec<String>;

    /// Returns new lines, or those of one server. `None` if too many clients follow the log
    /// already.
    fn follow(&self, server: Option<&str>) -> Option<mpsc::Receiver<String>>;
}

/// The parameters of a request for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogQuery {
    server: Option<String>,
    lines: usize,
    is_followed: bool,
}

impl LogQuery {
    /// Parses `server=NAME`, `lines=N` and `follow=true`.
    pub(super) fn parse(query: &str) -> Self {
        let mut wanted = Self { lines: 100, ..Self::default() };
        for (key, value) in pairs(query) {
            match key {
                "server" if !value.is_empty() => wanted.server = Some(value),
                "lines" => wanted.lines = value.parse().unwrap_or(wanted.lines),
                "follow" => wanted.is_followed = value == "true",
                _ => {}
            }
        }
        wanted
    }

    /// Returns the lines as a body; `None` if too many clients follow the log.
    pub(super) fn into_body(self, logs: &Arc<dyn Logs>) -> Option<Body> {
        // Followed before it is read, so that no line is lost in between; one may come twice.
        let server = self.server.as_deref();
        let next = if self.is_followed { Some(logs.follow(server)?) } else { None };
        let recent: String = logs.recent(server, self.lines).into_iter().map(|line| line + "\n").collect();
        Some(match next {
            Some(next) => Body::new(LogStream { recent: Some(recent), next }),
            None => Body::from(recent),
        })
    }
}

/// A body of lines that does not end.
struct LogStream {
    recent: Option<String>,
    next: mpsc::Receiver<String>,
}

impl http_body::Body for LogStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(recent) = self.recent.take().filter(|recent| !recent.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(recent.into()))));
        }
        self.next.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data((line + "\n").into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked() {
        let check = |query: &str, server: Option<&str>, lines: usize, is_followed: bool| {
            let expected = LogQuery { server: server.map(str::to_owned), lines, is_followed };
            assert_eq!(LogQuery::parse(query), expected, "{query}");
        };
        check("", None, 100, false);
        check("server=my%20server&lines=5&follow=true", Some("my server"), 5, true);
        check("lines=many&server=&other=1&follow", None, 100, false);
        check("server=%zz%4", Some("%zz%4"), 100, false);
    }
}
