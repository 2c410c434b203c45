//! Queues that are bounded by the number of messages in them and by their bytes.
//!
//! A server can send many notifications about one call, and a client can be slow to read them. With
//! a bound on their number alone, each of them could have the maximum size of a message.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    mpsc::{
        self,
        error::{SendError, TryRecvError, TrySendError},
    },
};

/// Maximum number of bytes in one queue, and of a message whose sender does not wait for room.
pub const MAX_BYTES: usize = 512 << 10;

/// Messages that know their size.
pub trait Measured {
    /// Returns the approximate size of the message in bytes.
    fn bytes(&self) -> usize;
}

impl Measured for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// Creates a queue for at most `messages` messages of [`MAX_BYTES`] together. A single message may
/// be larger if its sender waits for room.
pub fn channel<T>(messages: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel(messages);
    (Sender { messages: sender, room: Arc::new(Semaphore::new(MAX_BYTES)) }, Receiver(receiver))
}

type Queued<T> = (T, OwnedSemaphorePermit);

/// The sending end of a queue.
#[derive(Debug)]
pub struct Sender<T> {
    messages: mpsc::Sender<Queued<T>>,
    room: Arc<Semaphore>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), room: Arc::clone(&self.room) }
    }
}

impl<T: Measured> Sender<T> {
    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// When there is no room, or the receiver was dropped.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        if self.is_closed() {
            return Err(TrySendError::Closed(message));
        }
        let bytes = u32::try_from(message.bytes()).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(bytes) else {
            return Err(TrySendError::Full(message));
        };
        self.messages.try_send((message, room)).map_err(|error| match error {
            TrySendError::Full((message, _)) => TrySendError::Full(message),
            TrySendError::Closed((message, _)) => TrySendError::Closed(message),
        })
    }

    /// Waits for room and sends a message.
    ///
    /// # Errors
    /// When the receiver was dropped.
    pub async fn send(&self, message: T) -> Result<(), SendError<T>> {
        let bytes = u32::try_from(message.bytes().min(MAX_BYTES)).unwrap_or(u32::MAX);
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(bytes) => room,
            () = self.messages.closed() => return Err(SendError(message)),
        };
        // The semaphore is never closed.
        let Ok(room) = room else { return Err(SendError(message)) };
        self.messages.send((message, room)).await.map_err(|SendError((message, _))| SendError(message))
    }
}

impl<T> Sender<T> {
    /// Returns whether the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        self.messages.is_closed()
    }

    /// Waits until the receiver is dropped.
    pub async fn closed(&self) {
        self.messages.closed().await;
    }
}

/// The receiving end of a queue.
#[derive(Debug)]
pub struct Receiver<T>(mpsc::Receiver<Queued<T>>);

impl<T> Receiver<T> {
    /// Waits for the next message; `None` if all senders were dropped.
    pub async fn recv(&mut self) -> Option<T> {
        self.0.recv().await.map(|(message, _)| message)
    }

    /// Returns the next message, if there is one now.
    ///
    /// # Errors
    /// When there is none.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv().map(|(message, _)| message)
    }

    /// Polls for the next message, for hand-written futures.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context).map(|queued| queued.map(|(message, _)| message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    #[tokio::test]
    async fn bytes_and_messages_are_bounded() {
        let (sender, mut receiver) = channel(2);
        assert!(matches!(sender.try_send(text(MAX_BYTES + 1)), Err(TrySendError::Full(_))));
        sender.try_send(text(MAX_BYTES - 1)).expect("room");
        assert!(matches!(sender.try_send(text(2)), Err(TrySendError::Full(_))), "no room for its bytes");
        sender.try_send(text(1)).expect("room");
        assert!(matches!(sender.try_send(text(0)), Err(TrySendError::Full(_))), "no room for a third message");
        assert_eq!(receiver.recv().await.map(|text| text.len()), Some(MAX_BYTES - 1));
        sender.try_send(text(MAX_BYTES - 1)).expect("room again");
        drop(receiver);
        assert!(matches!(sender.try_send(text(1)), Err(TrySendError::Closed(_))));
    }

    #[tokio::test]
    async fn a_large_message_waits_for_an_empty_queue() {
        let (sender, mut receiver) = channel(9);
        sender.send(text(1)).await.expect("room");
        let large = tokio::spawn({
            let sender = sender.clone();
            async move { sender.send(text(3 * MAX_BYTES)).await.is_ok() }
        });
        tokio::task::yield_now().await;
        assert!(!large.is_finished());
        assert_eq!(receiver.recv().await.map(|text| text.len()), Some(1));
        assert_eq!(receiver.recv().await.map(|text| text.len()), Some(3 * MAX_BYTES));
        assert!(large.await.expect("it ends"));
        sender.send(text(MAX_BYTES)).await.expect("room");
        let waiting = tokio::spawn(async move { sender.send(text(1)).await.is_err() });
        tokio::task::yield_now().await;
        drop(receiver);
        assert!(waiting.await.expect("it ends"), "nothing is waited for that cannot come");
    }
}
