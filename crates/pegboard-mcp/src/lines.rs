//! A reader of lines of bounded length.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::answer_scan::AnswerScanner;

/// One line, or a mark that a line was too long.
#[derive(Debug)]
pub enum Line<'a> {
    /// The line without its line break.
    Whole(&'a [u8]),
    /// A line over the limit, which was skipped.
    TooLong,
}

/// Reads lines of bounded length.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    /// The scan of the last line that was skipped.
    skipped: AnswerScanner,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines of at most `limit` bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            line: Vec::new(),
            limit,
            skipped: AnswerScanner::default(),
        }
    }

    /// Reads the next line without its line break; `None` at the end of the input. The last line need
    /// not have a line break.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        if self.line.capacity() > 1 << 20 {
            // The memory of one huge message must not be kept.
            self.line = Vec::new();
        }
        let mut is_too_long = false;
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                let is_end = self.line.is_empty() && !is_too_long;
                return Ok((!is_end).then_some(()).map(|()| self.finish(is_too_long)));
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            if self.line.len() + piece.len() > self.limit {
                if !is_too_long {
                    self.skipped = AnswerScanner::default();
                    self.skipped.push(&self.line);
                }
                is_too_long = true;
                self.skipped.push(piece);
                self.line.clear();
            } else if !is_too_long {
                self.line.extend_from_slice(piece);
            }
            let consumed = piece.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            if end.is_some() {
                return Ok(Some(self.finish(is_too_long)));
            }
        }
    }

    /// Takes the line that [`next`](Self::next) returned, without a copy.
    pub fn take_line(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    /// Returns the number of the request that the last skipped line answers, if it is an answer.
    pub fn skipped_answer_id(&self) -> Option<u64> {
        self.skipped.answered_request()
    }

    fn finish(&self, is_too_long: bool) -> Line<'_> {
        if is_too_long { Line::TooLong } else { Line::Whole(&self.line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_of_all_lengths() {
        let mut lines = LineReader::new(&b"a\n\nmuch too long\r\nlast"[..], 5);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.expect("readable") {
            found.push(match line {
                Line::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::TooLong => "TOO LONG".to_owned(),
            });
        }
        assert_eq!(found, ["a", "", "TOO LONG", "last"]);
    }
}
