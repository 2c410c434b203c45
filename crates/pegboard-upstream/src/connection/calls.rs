//! The running calls of a connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use pegboard_mcp::json::Raw;
use tokio::{sync::oneshot, time::Instant};

use super::{CallError, CallEvent};
use crate::queue;

/// How long a server may still work on a cancelled call.
const CANCELLED_RETENTION: Duration = Duration::from_secs(60);

/// The outcome of a call.
pub(super) type Outcome = Result<Raw, CallError>;

/// The number of a started call, and the channel for its outcome.
pub(super) type StartedCall = (u64, oneshot::Receiver<Outcome>);

/// The running calls of a connection, by number.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Work>);

#[derive(Debug, Default)]
struct Work {
    /// Why no further call is accepted. Kept here too, so that no call can start unnoticed while the
    /// others end.
    closed: Option<Arc<str>>,
    last: u64,
    pending: HashMap<u64, Pending>,
    cancelled: HashMap<u64, CancelledCall>,
    /// The last answer to a call, and the last one in another conversation.
    answered: [Option<AnsweredCall>; 2],
}

/// A call whose answer is awaited.
#[derive(Debug)]
struct Pending {
    answer: oneshot::Sender<Outcome>,
    events: Option<queue::Sender<CallEvent>>,
    owner: u64,
    /// The time of the last message of the server about the call.
    active: Instant,
    /// Number of questions of the server about the call that wait for an answer.
    questions: usize,
}

/// A call that its caller does not wait for any more, and that the server may still work on.
#[derive(Debug)]
struct CancelledCall {
    owner: u64,
    since: Instant,
}

/// A call that the server has answered.
#[derive(Clone, Copy, Debug)]
struct AnsweredCall {
    owner: u64,
    /// The call that had begun last when the answer came.
    latest: u64,
}

impl Calls {
    /// Starts a call. Fails once the connection is closed.
    pub(super) fn begin(&self, owner: u64, events: Option<queue::Sender<CallEvent>>) -> Result<StartedCall, CallError> {
        let (answer, answered) = oneshot::channel();
        let mut work = lock(&self.0);
        if let Some(reason) = &work.closed {
            return Err(CallError::Closed(Arc::clone(reason)));
        }
        work.last += 1;
        let id = work.last;
        work.pending.insert(id, Pending { answer, events, owner, active: Instant::now(), questions: 0 });
        Ok((id, answered))
    }

    /// Completes a call; `false` if its caller does not wait any more.
    pub(super) fn settle(&self, id: u64, outcome: Outcome) -> bool {
        let mut work = lock(&self.0);
        let Some(pending) = work.pending.remove(&id) else {
            work.cancelled.remove(&id);
            return false;
        };
        if pending.events.is_some() {
            work.record_answered(pending.owner);
        }
        drop(work);
        let _ = pending.answer.send(outcome);
        true
    }

    /// Fails all running calls, and rejects new ones.
    pub(super) fn close(&self, reason: &Arc<str>) {
        let mut work = lock(&self.0);
        work.closed = Some(Arc::clone(reason));
        let pending = std::mem::take(&mut work.pending);
        drop(work);
        for pending in pending.into_values() {
            let _ = pending.answer.send(Err(CallError::Closed(Arc::clone(reason))));
        }
    }

    /// Removes a call that was not sent to the server.
    pub(super) fn forget(&self, id: u64) {
        let pending = lock(&self.0).pending.remove(&id);
        // Its waker runs here, and not while others wait for the lock.
        drop(pending);
    }

    /// Cancels a call that the server may still work on.
    pub(super) fn cancel(&self, id: u64) {
        let mut work = lock(&self.0);
        work.remove_old_cancelled();
        let pending = work.pending.remove(&id);
        // A server asks nothing about a call of the gateway itself.
        if let Some(pending) = pending.as_ref().filter(|pending| pending.events.is_some()) {
            work.cancelled.insert(id, CancelledCall { owner: pending.owner, since: Instant::now() });
        }
        drop(work);
        drop(pending);
    }

    /// Returns whether a call still waits for its answer.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        lock(&self.0).pending.contains_key(&id)
    }

    /// Returns the deadline of a call, counted from the last message about it; `None` if it is
    /// answered.
    pub(super) fn deadline(&self, id: u64, timeout: Duration) -> Option<Instant> {
        let mut work = lock(&self.0);
        let pending = work.pending.get_mut(&id)?;
        // As long as it waits for an answer itself, its time does not run.
        if pending.questions > 0 {
            pending.active = Instant::now();
        }
        Some(pending.active + timeout)
    }

    /// Records progress of a call; returns the channel for its events.
    pub(super) fn progressed(&self, id: u64) -> Option<queue::Sender<CallEvent>> {
        let mut work = lock(&self.0);
        let pending = work.pending.get_mut(&id)?;
        pending.active = Instant::now();
        pending.events.clone()
    }

    /// Records a question of the server about a call.
    pub(super) fn asked(&self, id: u64) {
        self.count_question(id, 1);
    }

    /// Records that a question about a call is answered.
    pub(super) fn replied(&self, id: u64) {
        self.count_question(id, -1);
    }

    fn count_question(&self, id: u64, change: isize) {
        if let Some(pending) = lock(&self.0).pending.get_mut(&id) {
            pending.questions = pending.questions.saturating_add_signed(change);
            pending.active = Instant::now();
        }
    }

    /// Returns the call that a message on a shared pipe belongs to: the latest call of the only
    /// conversation with running or just cancelled calls. If there are several such conversations,
    /// `None`. `related` is the call on whose own stream the message came.
    pub(super) fn caller(&self, related: Option<u64>) -> Option<(u64, queue::Sender<CallEvent>)> {
        lock(&self.0).caller(related).map(|(id, _, events)| (id, events))
    }

    /// Returns the call that a question belongs to, like [`caller`](Self::caller). A server can ask
    /// after its answer, and that question must not reach another client that happens to wait. So nobody
    /// is asked if a call of another conversation was answered since the calls of this one began.
    pub(super) fn addressee(&self, related: Option<u64>) -> Option<(u64, queue::Sender<CallEvent>)> {
        let mut work = lock(&self.0);
        let (id, owner, events) = work.caller(related)?;
        let oldest = work.pending.iter().filter(|(_, call)| call.owner == owner).map(|(id, _)| *id).min()?;
        let is_overlapping = |call: &AnsweredCall| call.owner != owner && call.latest >= oldest;
        let is_certain = related.is_some() || !work.answered.iter().flatten().any(is_overlapping);
        is_certain.then_some((id, events))
    }
}

impl Work {
    /// See [`Calls::caller`]; with the conversation.
    fn caller(&mut self, related: Option<u64>) -> Option<(u64, u64, queue::Sender<CallEvent>)> {
        if let Some(id) = related {
            let pending = self.pending.get(&id)?;
            return Some((id, pending.owner, pending.events.clone()?));
        }
        self.remove_old_cancelled();
        let listening = self.pending.iter().filter_map(|(id, call)| Some((*id, call.owner, call.events.as_ref()?)));
        let (latest, owner, events) = listening.clone().max_by_key(|(id, ..)| *id)?;
        let is_shared = listening.map(|(_, other, _)| other).any(|other| other != owner);
        let has_cancelled_of_others = self.cancelled.values().any(|call| call.owner != owner);
        (!is_shared && !has_cancelled_of_others).then(|| (latest, owner, events.clone()))
    }

    /// Records that a call of a conversation was answered. Two conversations are enough to know
    /// whether there was one other than a given one.
    fn record_answered(&mut self, owner: u64) {
        let latest = Some(AnsweredCall { owner, latest: self.last });
        let [last, _] = self.answered;
        self.answered = match last {
            Some(last) if last.owner != owner => [latest, Some(last)],
            _ => [latest, self.answered[1]],
        };
    }

    /// Removes cancelled calls after the time that servers get to notice.
    fn remove_old_cancelled(&mut self) {
        self.cancelled.retain(|_, call| call.since.elapsed() < CANCELLED_RETENTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(calls: &Calls, owner: u64, events: Option<&queue::Sender<CallEvent>>) -> StartedCall {
        calls.begin(owner, events.cloned()).expect("it is open")
    }

    /// Begins calls of these conversations, cancels some, and asks whose a message is.
    #[track_caller]
    fn check(owners: &[u64], cancelled: &[u64], expected: Option<u64>) {
        let calls = Calls::default();
        let (events, _heard) = queue::channel(1);
        let answers: Vec<_> = owners.iter().map(|owner| begun(&calls, *owner, Some(&events))).collect();
        cancelled.iter().for_each(|id| calls.cancel(*id));
        assert_eq!(calls.caller(None).map(|(id, _)| id), expected, "{answers:?}");
    }

    #[tokio::test]
    async fn a_message_is_the_latest_calls_of_the_only_conversation() {
        check(&[], &[], None);
        check(&[7], &[], Some(1));
        check(&[7, 7, 7], &[], Some(3));
        check(&[7, 7, 7], &[3], Some(2));
        check(&[7, 8], &[], None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_keeps_messages_from_other_conversations_for_a_while() {
        check(&[7, 8], &[2], None);
        let calls = Calls::default();
        let (events, _heard) = queue::channel(1);
        let _first = begun(&calls, 7, Some(&events));
        let (second, _answered) = begun(&calls, 8, Some(&events));
        calls.cancel(second);
        assert!(calls.caller(None).is_none());
        tokio::time::advance(CANCELLED_RETENTION).await;
        assert!(calls.caller(None).is_some());
    }

    #[tokio::test]
    async fn a_late_question_does_not_reach_another_conversation() {
        let calls = Calls::default();
        let (events, _heard) = queue::channel(1);
        let settle = |id: u64| calls.settle(id, Err(CallError::SessionExpired));
        let begin = |owner: u64| begun(&calls, owner, Some(&events)).0;
        let first = begin(7);
        let second = begin(8);
        assert!(calls.addressee(None).is_none(), "two conversations wait");
        settle(first);
        assert!(calls.addressee(None).is_none(), "the answered call may have caused it");
        assert!(calls.addressee(Some(second)).is_some(), "a stream of its own leaves no doubt");
        assert!(calls.caller(None).is_some(), "other messages are passed on");
        let third = begin(8);
        settle(second);
        assert!(calls.addressee(None).is_some(), "no call of another one was answered since it began");
        settle(third);
        for owner in [9, 7, 7] {
            let id = begin(owner);
            assert!(calls.addressee(None).is_some(), "the calls follow one another");
            settle(id);
        }
        let (ninth, _tenth) = (begin(9), begin(7));
        settle(ninth);
        let again = begin(9);
        settle(again);
        assert!(calls.addressee(None).is_none(), "both were answered beside the running call");
    }

    #[tokio::test]
    async fn an_answer_to_a_cancelled_call_ends_its_effect() {
        let calls = Calls::default();
        let (events, _heard) = queue::channel(1);
        let _first = begun(&calls, 7, Some(&events));
        let (second, _answered) = begun(&calls, 8, Some(&events));
        calls.cancel(second);
        assert!(!calls.settle(second, Err(CallError::SessionExpired)));
        assert!(calls.caller(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn time_does_not_run_while_a_server_waits_for_an_answer() {
        let calls = Calls::default();
        let limit = Duration::from_secs(10);
        let (id, _answered) = begun(&calls, 1, None);
        let begun = Instant::now();
        calls.asked(id);
        tokio::time::advance(limit).await;
        assert_eq!(calls.deadline(id, limit), Some(begun + limit * 2));
        calls.replied(id);
        tokio::time::advance(limit).await;
        assert_eq!(calls.deadline(id, limit), Some(begun + limit * 2));
        calls.forget(id);
        assert_eq!(calls.deadline(id, limit), None);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_are_cancelled_one_after_another_are_not_all_remembered() {
        let calls = Calls::default();
        let (events, _heard) = queue::channel(1);
        for _ in 0..3 {
            let (id, _answered) = begun(&calls, 7, Some(&events));
            calls.cancel(id);
            tokio::time::advance(CANCELLED_RETENTION).await;
        }
        assert_eq!(lock(&calls.0).cancelled.len(), 1);
        let (id, _answered) = begun(&calls, 8, None);
        calls.cancel(id);
        assert!(lock(&calls.0).cancelled.is_empty(), "nothing is asked about a call of the gateway itself");
    }

    #[tokio::test]
    async fn who_waits_is_told_of_the_end_and_who_comes_later_is_refused() {
        let calls = Calls::default();
        let (_, answered) = begun(&calls, 7, None);
        calls.close(&"gone".into());
        let waited = answered.await.expect("an outcome").expect_err("it is closed");
        let refused = calls.begin(7, None).expect_err("it is closed");
        for error in [waited, refused] {
            assert!(matches!(&error, CallError::Closed(reason) if &**reason == "gone"), "{error}");
        }
    }
}
