//! A timeout for connections whose other end has stopped reading.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// A stream that fails when the other end accepts no bytes for the length of the timeout. Without
/// it, a client that sends a request and does not read keeps the response in memory and occupies a
/// connection. Only the time in which a write waits counts: an event stream may be silent for any
/// time, and a slow reader is still reading.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    /// Returns the result of a write, or an error when the write has waited for too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, written)
    }

    // Were this `false`, answers would be copied before they are sent.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Nothing here takes this long.
    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_write_that_waits_too_long_fails() {
        let (ours, _theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, SHORT);
        let error = ours.write_all(b"12345").await.expect_err("nobody reads");
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, "the client does not read"));
    }

    #[tokio::test]
    async fn every_byte_that_is_taken_starts_the_time_anew() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, LONG);
        let mut write =
            async |bytes: &'static [u8]| poll_fn(|cx| Poll::Ready(Pin::new(&mut ours).poll_write(cx, bytes))).await;
        assert!(matches!(write(b"1234").await, Poll::Ready(Ok(4))));
        assert!(write(b"5").await.is_pending() && write(b"5").await.is_pending());
        assert_eq!(theirs.read_u8().await.ok(), Some(b'1'));
        assert!(matches!(write(b"5").await, Poll::Ready(Ok(1))));
        assert!(ours.waiting.is_none());
    }

    #[tokio::test]
    async fn silence_is_no_stall() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, SHORT);
        let mut read = [0];
        ours.write_all(b"1").await.expect("room");
        assert!(tokio::time::timeout(5 * SHORT, ours.read(&mut read)).await.is_err(), "nothing comes, nothing fails");
        ours.write_all(b"2").await.expect("room");
        ours.shutdown().await.expect("an end");
        drop(ours);
        let mut told = Vec::new();
        theirs.read_to_end(&mut told).await.expect("an end");
        assert_eq!(told, b"12");
    }
}
