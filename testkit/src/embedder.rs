//! An embeddings endpoint that rejects what real ones reject, and fails on demand.
//!
//! Its vectors are the same in every run and closer the more words two texts share; words of
//! one [meaning](Endpoint::means) count as the same.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use serde_json::{Value, json};

use crate::provider::embeddings::vector;

/// The behavior of the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// It answers them.
    #[default]
    Answers,
    /// It answers with this status, and with `Retry-After` if there is a number.
    Refuses(u16, Option<u64>),
    /// It refuses once, and answers from then on.
    RefusesOnce(u16, Option<u64>),
    /// It does not answer until its behavior is changed.
    Hangs,
    /// It does not answer requests with this very text.
    HangsAt(&'static str),
    /// It sends something that is not JSON.
    Garbage,
    /// It sends vectors for one half of the texts.
    Half,
    /// It sends `NaN`.
    NotANumber,
    /// It sends vectors of this length.
    Dimensions(usize),
    /// It answers requests with this word in a text with this status, and repeats the text.
    RefusesWord(&'static str, u16),
    /// It sends zeros for texts with this word.
    ZerosFor(&'static str),
    /// It closes the connection in the middle of its answer.
    Breaks,
}

impl Behavior {
    /// Returns whether a request for these texts is not answered.
    fn hangs(&self, texts: &[String]) -> bool {
        match self {
            Self::Hangs => true,
            Self::HangsAt(text) => texts.iter().any(|one| one == text),
            _ => false,
        }
    }
}

/// The limits of the endpoint.
#[derive(Clone, Debug)]
pub struct EndpointLimits {
    /// The only known model.
    pub model: String,
    /// The required API key, if any.
    pub key: Option<String>,
    /// The number of dimensions of its vectors.
    pub dimensions: usize,
    /// Maximum number of texts in one request.
    pub inputs: usize,
    /// Maximum number of bytes of a text.
    pub bytes: usize,
}

impl Default for EndpointLimits {
    fn default() -> Self {
        Self { model: "test-model".into(), key: None, dimensions: 64, inputs: 2048, bytes: 8000 }
    }
}

#[derive(Debug, Default)]
struct State {
    behavior: Behavior,
    limits: EndpointLimits,
    meanings: HashMap<String, String>,
    requests: Vec<Vec<String>>,
    is_gone: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running endpoint, which is stopped when it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Endpoint {
    /// Starts an endpoint on a free port.
    ///
    /// # Panics
    /// Without a port.
    pub fn start(limits: EndpointLimits) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { state: Mutex::new(State { limits, ..State::default() }), ..Shared::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.state().is_gone {
                    return;
                }
                let shared = Arc::clone(&accepting);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { shared, address }
    }

    /// Returns the URL of the endpoint, with `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Changes the behavior from now on.
    pub fn set_behavior(&self, behavior: Behavior) {
        self.shared.state().behavior = behavior;
        self.shared.news.notify_all();
    }

    /// Makes words equivalent to another one.
    pub fn means(&self, words: &[&str], meaning: &str) {
        let pairs = words.iter().map(|word| ((*word).to_owned(), meaning.to_owned()));
        self.shared.state().meanings.extend(pairs);
    }

    /// Returns the texts of all requests that were read, in their order.
    pub fn requests(&self) -> Vec<Vec<String>> {
        self.shared.state().requests.clone()
    }

    /// Waits until the requests satisfy a condition.
    ///
    /// # Panics
    /// If they are not within ten seconds.
    pub fn wait_until(&self, is_it: impl Fn(&[Vec<String>]) -> bool) {
        let state = self.shared.state();
        let limit = std::time::Duration::from_secs(10);
        let (state, waited) = self
            .shared
            .news
            .wait_timeout_while(state, limit, |state| !is_it(&state.requests))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "the requests are {:?}", state.requests);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.state().is_gone = true;
        self.shared.news.notify_all();
        // Wakes the listener, which then stops.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, shared: &Shared) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = read(&mut reader) {
        if shared.state().is_gone {
            return;
        }
        let (status, after, text) = answer(&head, &body, shared);
        let after = after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        let length = text.len();
        let start =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{after}content-length: {length}\r\n\r\n");
        let is_broken = shared.state().behavior == Behavior::Breaks;
        let text = if is_broken { &text[..length / 2] } else { &text };
        if writer.write_all(start.as_bytes()).and_then(|()| writer.write_all(text.as_bytes())).is_err() || is_broken {
            return;
        }
    }
}

/// Reads the lines before the body, and the body.
fn read(reader: &mut BufReader<TcpStream>) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let length = head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Returns the status, `Retry-After` and body of the answer.
fn answer(head: &[String], body: &[u8], shared: &Shared) -> (u16, Option<u64>, String) {
    let refusal = |status: u16, message: &str| (status, None, json!({"error": {"message": message}}).to_string());
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let inputs: Vec<String> = match &body["input"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let mut state = shared.state();
    state.requests.push(inputs.clone());
    shared.news.notify_all();
    while state.behavior.hangs(&inputs) && !state.is_gone {
        state = shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let limits = state.limits.clone();
    if !head.first().is_some_and(|line| line.starts_with("POST /v1/embeddings ")) {
        return refusal(404, "there is nothing here");
    }
    let bearer = head.iter().find_map(|line| line.strip_prefix("authorization: Bearer "));
    if limits.key.is_some() && limits.key.as_deref() != bearer {
        return refusal(401, &format!("incorrect key provided: {}", bearer.unwrap_or("none")));
    }
    if body["model"].as_str() != Some(&limits.model) {
        return refusal(404, &format!("the model {} does not exist", body["model"]));
    }
    if inputs.is_empty() || inputs.iter().any(String::is_empty) {
        return refusal(400, "input cannot be empty");
    }
    if inputs.len() > limits.inputs {
        return refusal(400, &format!("at most {} inputs are taken", limits.inputs));
    }
    if inputs.iter().any(|text| text.len() > limits.bytes) {
        return refusal(400, &format!("an input is longer than {} bytes", limits.bytes));
    }
    let asked = body["dimensions"].as_u64().map_or(limits.dimensions, |count| count as usize);
    match state.behavior.clone() {
        Behavior::Refuses(status, after) => (status, after, String::new()),
        Behavior::RefusesOnce(status, after) => {
            state.behavior = Behavior::Answers;
            (status, after, String::new())
        }
        Behavior::Garbage => (200, None, "<html>It works!</html>".into()),
        Behavior::NotANumber => (200, None, r#"{"data": [{"index": 0, "embedding": [NaN]}]}"#.into()),
        Behavior::Half => (200, None, vectors(&inputs[..inputs.len() / 2], asked, &state.meanings)),
        Behavior::RefusesWord(word, status) => match inputs.iter().find(|text| text.contains(word)) {
            Some(text) => (status, Some(0), json!({"error": {"message": format!("not `{text}`")}}).to_string()),
            None => (200, None, vectors(&inputs, asked, &state.meanings)),
        },
        Behavior::ZerosFor(word) => {
            let mut answer: Value = serde_json::from_str(&vectors(&inputs, asked, &state.meanings)).unwrap_or_default();
            for item in answer["data"].as_array_mut().into_iter().flatten() {
                let text = item["index"].as_u64().and_then(|at| inputs.get(at as usize));
                if text.is_some_and(|text| text.contains(word)) {
                    item["embedding"] = json!(vec![0; asked]);
                }
            }
            (200, None, answer.to_string())
        }
        Behavior::Dimensions(count) => (200, None, vectors(&inputs, count, &state.meanings)),
        _ => (200, None, vectors(&inputs, asked, &state.meanings)),
    }
}

/// Returns the vectors of an answer, the last text first: the order is in the indices.
fn vectors(inputs: &[String], dimensions: usize, meanings: &HashMap<String, String>) -> String {
    let meant = |text: &String| {
        let words = text.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
        words.map(|word| meanings.get(&word).cloned().unwrap_or(word)).collect::<Vec<_>>().join(" ")
    };
    let entry =
        |(index, text): (usize, &String)| json!({"index": index, "embedding": vector(&meant(text), dimensions)});
    let data: Vec<Value> = inputs.iter().enumerate().rev().map(entry).collect();
    json!({"object": "list", "data": data}).to_string()
}
