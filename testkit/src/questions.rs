//! Requests that this server sends to a legacy client, and their answers.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};

use serde_json::Value;

use crate::wire::lock;

/// A client's result, or its error.
pub(crate) type ClientAnswer = Result<Value, Value>;

/// The questions that are still open.
#[derive(Default)]
pub(crate) struct Questions {
    asked: AtomicU64,
    open: Mutex<HashMap<u64, Question>>,
}

struct Question {
    call: Value,
    answer: Sender<ClientAnswer>,
}

impl Questions {
    /// Opens a question on behalf of the request `call`. The receiver fails once that
    /// request is cancelled.
    pub(crate) fn open(&self, call: &Value) -> (u64, Receiver<ClientAnswer>) {
        // Ids begin at 1 like those of clients: the two directions are separate, and a gateway that
        // confuses them must fail a test.
        let id = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answers) = channel();
        lock(&self.open).insert(id, Question { call: call.clone(), answer });
        (id, answers)
    }

    /// Delivers a response to its question; one without a question is dropped.
    pub(crate) fn answer(&self, message: &Value) {
        let Some(id) = message["id"].as_u64() else { return };
        let Some(question) = lock(&self.open).remove(&id) else { return };
        let answer = match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        };
        // The request may have ended meanwhile.
        let _ = question.answer.send(answer);
    }

    /// Closes the questions of a cancelled request and returns their ids.
    pub(crate) fn close(&self, call: &Value) -> Vec<u64> {
        let mut open = lock(&self.open);
        let ids: Vec<u64> = open.iter().filter(|(_, question)| question.call == *call).map(|(id, _)| *id).collect();
        for id in &ids {
            open.remove(id);
        }
        ids
    }
}
