//! Lines on a pipe, whatever the pieces in which they arrive, and the messages in them.

#![no_main]

use std::{pin::Pin, sync::OnceLock, task::{Context, Poll}};

use libfuzzer_sys::fuzz_target;
use pegboard_fuzz::{choice, pieces};
use pegboard_mcp::lines::{Line, LineReader};
use tokio::io::{AsyncRead, ReadBuf};

fuzz_target!(|bytes: &[u8]| {
    let Some((limit, bytes)) = choice(bytes) else { return };
    let Some((seed, bytes)) = choice(bytes) else { return };
    let limit = usize::from(limit);
    let expected = expected(limit, bytes);
    assert_eq!(read(limit, pieces(seed, bytes)), expected);
    assert_eq!(read(limit, pieces(1, bytes)), expected);
    assert_eq!(read(limit, vec![bytes]), expected);
});

/// The lines; `None` stands for one that is too long.
fn read(limit: usize, pieces: Vec<&[u8]>) -> Vec<Option<Vec<u8>>> {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"));
    runtime.block_on(async {
        let mut lines = LineReader::new(Pipe(pieces.into_iter().collect()), limit);
        let mut read = Vec::new();
        loop {
            let line = match lines.next().await.expect("a pipe that can be read") {
                Some(Line::Whole(line)) => Some(line.to_vec()),
                Some(Line::TooLong) => None,
                None => return read,
            };
            // A caller that keeps a line takes the one that was read.
            if let Some(line) = &line {
                assert_eq!(&lines.take_line(), line);
            }
            read.push(line);
        }
    })
}

/// The same in the plainest way.
fn expected(limit: usize, bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines.into_iter().map(|line| (line.len() <= limit).then(|| line.to_vec())).collect()
}

/// A pipe out of which these pieces come.
struct Pipe<'a>(std::collections::VecDeque<&'a [u8]>);

impl AsyncRead for Pipe<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if let Some(piece) = self.0.pop_front() {
            let (now, later) = piece.split_at(piece.len().min(buffer.remaining()));
            buffer.put_slice(now);
            if !later.is_empty() {
                self.0.push_front(later);
            }
        }
        Poll::Ready(Ok(()))
    }
}
