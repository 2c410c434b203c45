//! The rounds of one answer: what the provider is asked until the client has its answer.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use pegboard_core::estimate_tokens;
use serde_json::Value;

use crate::{
    calls::{Calls, Delivery},
    conversation::{self, Conversations, Declared, History, Link, Turn},
    error::{self, RequestError},
    forward::{self, Disconnected, Outgoing, ReadError, StreamSender, Upstream},
    references::{self, References},
    report::{Counters, Report},
    request::{self, Template},
    route::Route,
    sse::FrameReader,
    wires::{self, End, HiddenAnswer, Round, Said, Splicer, Wire},
};

/// Maximum size of an answer of the provider that is not streamed.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Maximum size of all events of one answer that are held back from the client. Others do not count.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Maximum size of the events of one answer of which copies are kept, for the provider and for later requests. Beyond it,
/// the client gets the rest, and the turn is not kept.
const MAX_KEPT_BYTES: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Maximum size of one event of a stream.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Maximum size of an error of the provider that is read.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// How often a request with lost turns is changed and sent again.
const MAX_REPAIRS: usize = 8;

/// The error in place of one of a hidden round that cannot be passed on.
const HIDDEN_ERROR: &str = "the provider rejected a request for found tools";

/// What the model has said in the rounds of one turn that the client does not see.
#[derive(Debug, Default)]
pub(crate) struct HiddenTurn {
    /// The items of these rounds, with their answers.
    items: Vec<String>,
    /// Whether the first of these items were there before the first round.
    is_prefetched: bool,
    /// The number of these rounds.
    rounds: usize,
    /// The size of the events of which the client got nothing.
    held_bytes: usize,
    /// The size of all events.
    streamed_bytes: usize,
    /// Whether they are too large to be kept.
    is_not_kept: bool,
    /// Answers that go together with the client's next item.
    parked: Vec<String>,
    /// Whether the client sees something else than the model has said.
    is_rewritten: bool,
    /// A text for the end of the answer.
    notice: Option<String>,
}

/// One answer for a client.
pub(crate) struct Exchange {
    pub(crate) wire: &'static dyn Wire,
    pub(crate) route: Route,
    pub(crate) upstream: Upstream,
    pub(crate) outgoing: Outgoing,
    pub(crate) template: Template,
    pub(crate) history: History,
    pub(crate) declared: Vec<Declared>,
    /// The request's mark for the prompt cache at its tools.
    pub(crate) mark: Option<String>,
    /// A text that was added to the last item of the client.
    pub(crate) note: Option<String>,
    pub(crate) calls: Option<Calls>,
    pub(crate) splicer: Box<dyn Splicer>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) references: Arc<References>,
    pub(crate) model: String,
    pub(crate) counters: Arc<Counters>,
    pub(crate) max_rounds: usize,
    pub(crate) report: Report,
    /// The beginning of all conversations of the client with the provider.
    pub(crate) root: Link,
    pub(crate) hidden: HiddenTurn,
    /// Whether a request was sent again in another form, because the provider had refused it.
    pub(crate) is_retried: bool,
}

/// What the provider has answered to a request.
struct Asked {
    response: reqwest::Response,
    /// The body of the response, if the provider has refused the request.
    refusal: Option<ReadError>,
}

/// What was changed in a request that the provider had refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// References to tools were replaced by their definitions.
    References,
    /// The history was changed because of lost turns.
    History,
}

impl HiddenTurn {
    /// Begins a turn with items that the client does not see.
    pub(crate) fn starting_with(items: Vec<String>) -> Self {
        Self { is_prefetched: !items.is_empty(), items, ..Self::default() }
    }
}

/// The next step after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The client has its answer.
    Finish,
    /// The model goes on.
    Ask,
}

/// A stream to the client has ended early.
enum Interrupted {
    /// The client has disconnected.
    Disconnected,
    /// The client must see that the answer is incomplete.
    Failed(RequestError),
}

impl From<Disconnected> for Interrupted {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

impl From<RequestError> for Interrupted {
    fn from(error: RequestError) -> Self {
        Self::Failed(error)
    }
}

impl Exchange {
    /// Asks the provider, and returns the response for the client.
    pub(crate) async fn run(mut self) -> Result<Response<Body>, RequestError> {
        let Asked { response, refusal } = self.ask().await?;
        if !response.status().is_success() {
            let mut passed = match refusal {
                Some(refusal) => forward::pass_refusal(response, refusal),
                None => forward::pass_response(response),
            };
            self.report.mark_response(&mut passed);
            return Ok(passed);
        }
        if is_encoded(response.headers()) {
            return Err(RequestError::Encoded);
        }
        if is_event_stream(response.headers()) {
            let mut head = Response::new(Body::empty());
            *head.status_mut() = response.status();
            *head.headers_mut() = self.response_headers(response.headers());
            let (sender, body) = forward::stream_body();
            tokio::spawn(self.stream(response, sender));
            return Ok(head.map(|_| body));
        }
        self.answer(response).await
    }

    /// Sends the next request of the turn. If the provider refuses it, and another form of it may be accepted, sends that
    /// form, once for each answer.
    async fn ask(&mut self) -> Result<Asked, RequestError> {
        let asked = self.send().await?;
        let whole = asked.refusal.as_ref().and_then(ReadError::whole);
        let Some(change) = whole.and_then(|error| self.adapt(error)) else { return Ok(asked) };
        self.counters.of(self.route).retries += 1;
        let mut again = self.send().await?;
        if change == Change::References {
            if again.refusal.is_some() {
                // They were not the reason.
                self.references.forget(self.route, &self.model);
            }
            return Ok(again);
        }
        // Some errors name one lost call of several.
        for _ in 1..MAX_REPAIRS {
            let is_repaired = again.refusal.as_ref().and_then(ReadError::whole).and_then(|it| self.repair_history(it));
            if is_repaired.is_none() {
                break;
            }
            self.counters.of(self.route).retries += 1;
            again = self.send().await?;
        }
        // The client does not know the repaired request.
        Ok(if again.refusal.is_some() { asked } else { again })
    }

    async fn send(&self) -> Result<Asked, RequestError> {
        let tools = request::tool_list(self.wire, &self.declared, self.mark.as_deref());
        {
            let mut numbers = self.counters.of(self.route);
            numbers.tools_sent += self.declared.len() as u64;
            numbers.definition_tokens_sent += estimate_tokens(&tools) as u64;
        }
        let is_last = self.hidden.rounds >= self.max_rounds;
        let no_calls = is_last.then(|| self.wire.no_calls());
        let body = self.template.render(&self.history.text, &self.hidden.items, &tools, no_calls);
        let mut response = self.upstream.send(&self.outgoing, body.into()).await?;
        if response.status().is_success() && self.has_references() {
            self.references.accept(self.route, &self.model);
        }
        let refusal = match response.status() {
            StatusCode::BAD_REQUEST => Some(forward::read_error(&mut response, MAX_ERROR_BYTES).await),
            _ => None,
        };
        Ok(Asked { response, refusal })
    }

    /// Returns whether the request refers to tools, which are declared for that alone.
    fn has_references(&self) -> bool {
        self.declared.iter().any(|tool| self.wire.is_deferred(&tool.definition))
    }

    /// Changes the request so that it does not have what this error is about; returns what was changed if it is to be sent
    /// again.
    fn adapt(&mut self, error: &[u8]) -> Option<Change> {
        let text = String::from_utf8_lossy(error);
        let may_retry = !std::mem::replace(&mut self.is_retried, true);
        // Before references, unless they are named: lost turns are the more likely reason.
        if may_retry && !references::are_named(&text) && self.repair_history(error).is_some() {
            return Some(Change::History);
        }
        let is_rejection = self.has_references() && self.references.reject(self.route, &self.model, &text);
        if is_rejection {
            tracing::warn!(route = self.route.as_str(), model = self.model, "references to tools rejected");
        }
        if !may_retry {
            return None;
        }
        match is_rejection {
            true => self.give_up_references().map(|()| Change::References),
            false => self.repair_history(error).map(|()| Change::History),
        }
    }

    /// Changes the history of a request with lost turns; `None` if they are not the reason of this error.
    fn repair_history(&mut self, error: &[u8]) -> Option<()> {
        let error = serde_json::from_slice::<Value>(error).ok().filter(|_| self.report.is_miss)?;
        let repaired = self.wire.repaired(&self.history.text, &|key| self.template.value(key), &error)?;
        self.history.text = repaired.history;
        for (key, value) in repaired.fields {
            match value {
                Some(value) => self.template.set(key, &value),
                None => self.template.remove(key),
            }
        }
        Some(())
    }

    /// Replaces references to tools by their definitions. From now on, the model calls found tools through `call_tool`.
    fn give_up_references(&mut self) -> Option<()> {
        let calls = self.calls.as_mut()?;
        let tools = calls.shared_tools();
        self.declared = request::declare_without_references(self.wire, &tools, &self.declared)?;
        calls.give_up_references();
        self.report.sent = Some(self.declared.len());
        let change = |item: &str| request::item_without_references(self.wire, &tools, item);
        self.history.rewrite(change);
        for item in &mut self.hidden.items {
            *item = change(item).unwrap_or_else(|| std::mem::take(item));
        }
        Some(())
    }

    fn response_headers(&self, headers: &HeaderMap) -> HeaderMap {
        let mut headers = forward::end_to_end(headers);
        headers.remove(header::CONTENT_LENGTH);
        self.report.mark(&mut headers);
        headers
    }

    /// Answers with a stream until it is complete or the client disconnects.
    async fn stream(mut self, response: reqwest::Response, sender: StreamSender) {
        let ended = tokio::select! {
            // The request to the provider is cancelled with the client's.
            () = sender.disconnected() => return,
            ended = self.stream_rounds(response, &sender) => ended,
        };
        if let Err(Interrupted::Failed(error)) = ended {
            self.count_failed_round();
            tracing::info!(route = self.route.as_str(), %error, "stream failed");
            sender.fail(error).await;
        }
    }

    async fn stream_rounds(
        &mut self,
        mut response: reqwest::Response,
        sender: &StreamSender,
    ) -> Result<(), Interrupted> {
        loop {
            let round = self.read_round(&mut response, sender).await?;
            forward::read_to_end(response);
            match round.end {
                // The error was passed on.
                End::Failed => {
                    self.count_failed_round();
                    return Ok(());
                }
                End::Broken => return Err(RequestError::Incomplete.into()),
                End::Complete | End::Stopped => {}
            }
            if self.close_round(round).await == Next::Finish {
                // First, so that the client's next request finds it.
                self.record().await;
                let mut out = Vec::new();
                self.splicer.finish(self.hidden.notice.as_deref(), &mut out);
                return Ok(sender.send(out).await?);
            }
            let asked = self.ask().await?;
            response = asked.response;
            let is_readable = is_event_stream(response.headers()) && !is_encoded(response.headers());
            if !response.status().is_success() || !is_readable {
                self.count_failed_round();
                let error = self.hidden_error(&mut response, asked.refusal).await;
                let mut out = Vec::new();
                self.splicer.fail(&error, &mut out);
                return Ok(sender.send(out).await?);
            }
        }
    }

    /// Reads the events of one response, and passes on what is the client's.
    async fn read_round(
        &mut self,
        response: &mut reqwest::Response,
        sender: &StreamSender,
    ) -> Result<Round, Interrupted> {
        let mut reader = FrameReader::new(MAX_EVENT_BYTES);
        let mut is_cut = false;
        loop {
            let mut out = Vec::new();
            let (frames, mut is_end) = match response.chunk().await {
                Ok(Some(chunk)) => {
                    let too_large = |_| RequestError::EventTooLarge { limit: MAX_EVENT_BYTES };
                    (reader.push(&chunk).map_err(too_large)?, false)
                }
                Ok(None) => (reader.rest().into_iter().collect(), true),
                Err(_) => {
                    is_cut = true;
                    (Vec::new(), true)
                }
            };
            let Some(calls) = &mut self.calls else { return Err(RequestError::Incomplete.into()) };
            self.hidden.held_bytes += wires::splice_frames(self.splicer.as_mut(), &frames, calls, &mut out);
            self.hidden.streamed_bytes += frames.iter().map(|frame| frame.raw.len()).sum::<usize>();
            if self.hidden.streamed_bytes > MAX_KEPT_BYTES && !self.hidden.is_not_kept {
                self.hidden.is_not_kept = true;
                self.splicer.stop_keeping();
            }
            if self.splicer.is_round_over() {
                // Some providers keep the connection open, or break it off. The client has its answer.
                (is_end, is_cut) = (true, false);
            }
            if self.hidden.held_bytes > MAX_HELD_BYTES {
                return Err(RequestError::HeldTooLarge { limit: MAX_HELD_BYTES }.into());
            }
            if !is_end {
                sender.send(out).await?;
                continue;
            }
            let mut round = self.splicer.end_round(calls, &mut out);
            if is_cut && round.end != End::Failed {
                round.end = End::Broken;
            }
            sender.send(out).await?;
            if self.hidden.is_not_kept && (round.has_hidden_calls() || self.splicer.needs_copies()) {
                return Err(RequestError::KeptTooLarge { limit: MAX_KEPT_BYTES }.into());
            }
            return Ok(round);
        }
    }

    /// Returns the error of a hidden round in the form of the route.
    async fn hidden_error(&self, response: &mut reqwest::Response, refusal: Option<ReadError>) -> Value {
        let status = response.status();
        let read = match refusal {
            Some(refusal) => refusal,
            None => forward::read_error(response, MAX_ERROR_BYTES).await,
        };
        match serde_json::from_slice::<Value>(read.whole().unwrap_or_default()) {
            Ok(error) if error.is_object() && error.get("error").is_some() => error,
            _ => {
                let status = if status.is_success() { StatusCode::BAD_GATEWAY } else { status };
                error::body(self.route, status, HIDDEN_ERROR)
            }
        }
    }

    /// Returns the body of a refusal in a hidden round for an answer that is not streamed.
    fn refusal_body(&self, refusal: ReadError, status: StatusCode, headers: &mut HeaderMap) -> Vec<u8> {
        refusal.into_whole().unwrap_or_else(|| {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.remove(header::CONTENT_ENCODING);
            error::body(self.route, status, HIDDEN_ERROR).to_string().into_bytes()
        })
    }

    /// Counts an answer that has ended with an error, if the client does not see its last round.
    fn count_failed_round(&self) {
        self.counters.of(self.route).failed_rounds += u64::from(self.hidden.rounds > 0);
    }

    /// Answers with one body.
    async fn answer(mut self, response: reqwest::Response) -> Result<Response<Body>, RequestError> {
        let answered = self.answer_rounds(response).await;
        if answered.is_err() {
            self.count_failed_round();
        }
        answered
    }

    async fn answer_rounds(&mut self, mut response: reqwest::Response) -> Result<Response<Body>, RequestError> {
        let mut refusal = None;
        loop {
            let (status, mut headers) = (response.status(), response.headers().clone());
            let body = match refusal.take() {
                Some(refusal) => self.refusal_body(refusal, status, &mut headers),
                None => forward::read_answer(&mut response, MAX_ANSWER_BYTES).await?,
            };
            if status.is_success() && is_encoded(&headers) {
                return Err(RequestError::Encoded);
            }
            let parsed = serde_json::from_slice::<Value>(&body).ok().filter(|_| status.is_success());
            let round = match (parsed, &mut self.calls) {
                (Some(answer), Some(calls)) => self.splicer.answer(answer, calls),
                _ => Round { end: End::Failed, ..Round::default() },
            };
            let is_usable = matches!(round.end, End::Complete | End::Stopped);
            let is_finished = !is_usable || self.close_round(round).await == Next::Finish;
            if !is_finished {
                Asked { response, refusal } = self.ask().await?;
                continue;
            }
            if !is_usable {
                self.count_failed_round();
            }
            let is_same = self.hidden.rounds == 0 && !self.hidden.is_rewritten && !self.splicer.repeats_request();
            let body = match is_usable {
                true => {
                    self.record().await;
                    let notice = self.hidden.notice.take();
                    if is_same { body } else { self.splicer.finish_answer(notice.as_deref()).into_bytes() }
                }
                false => body,
            };
            self.report.rounds = Some(self.hidden.rounds);
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = status;
            *response.headers_mut() = self.response_headers(&headers);
            return Ok(response);
        }
    }

    /// Answers the hidden calls of a round, and decides how to go on.
    async fn close_round(&mut self, round: Round) -> Next {
        self.hidden.is_rewritten |= round.is_rewritten || round.has_hidden_calls();
        if !round.has_hidden_calls() {
            self.hidden.items.extend(round.items);
            return Next::Finish;
        }
        let answers = self.answer_hidden_calls(&round).await;
        let parts: Vec<String> = answers.iter().map(|answer| self.wire.answer_part(answer)).collect();
        self.hidden.items.extend(round.items);
        if round.client_calls > 0 {
            // All answers go together, and the client gives its own with its next request.
            self.hidden.parked = wires::park(self.wire, parts, &round.hidden_places);
            return Next::Finish;
        }
        if self.hidden.rounds >= self.max_rounds {
            self.hidden.parked = wires::park(self.wire, parts, &round.hidden_places);
            self.hidden.notice = Some(format!("The search for tools was stopped after {} rounds.", self.max_rounds));
            return Next::Finish;
        }
        self.hidden.items.extend(self.wire.answer_items(&parts));
        self.hidden.rounds += 1;
        self.counters.of(self.route).hidden_rounds += 1;
        Next::Ask
    }

    /// Returns the answers to the hidden calls of a round, in the order of the calls: providers may match both by it.
    async fn answer_hidden_calls(&mut self, round: &Round) -> Vec<HiddenAnswer> {
        let Some(mut calls) = self.calls.take() else { return Vec::new() };
        let hidden = round.hidden.clone();
        // A search may build an index.
        let answered = tokio::task::spawn_blocking(move || {
            let answers: Vec<HiddenAnswer> = hidden.into_iter().map(|call| calls.answer(call)).collect();
            (calls, answers)
        });
        let Ok((calls, answers)) = answered.await else { return Vec::new() };
        self.declare_found(&calls, &answers);
        self.calls = Some(calls);
        answers
    }

    /// Declares the tools that answers refer to.
    fn declare_found(&mut self, calls: &Calls, answers: &[HiddenAnswer]) {
        if calls.delivery() != Delivery::Reference {
            return;
        }
        for name in answers.iter().flat_map(|answer| &answer.references) {
            let is_known = self.declared.iter().any(|tool| tool.name.as_deref() == Some(name));
            let definition = calls.tools().definition(name).filter(|_| !is_known);
            if let Some(definition) = definition.and_then(|definition| self.wire.deferred(definition)) {
                self.declared.push(Declared { name: Some(name.clone()), definition });
            }
        }
    }

    /// Keeps what the client has not seen of the turn.
    async fn record(&mut self) {
        self.counters.of(self.route).cache_read_tokens += self.splicer.cache_read_tokens();
        if self.hidden.is_not_kept {
            return;
        }
        let hidden = &mut self.hidden;
        let mut said = self.history.open.clone();
        said.extend(self.splicer.said());
        said.extend(&Said { text: hidden.notice.clone().unwrap_or_default(), ..Said::default() });
        let mut items = std::mem::take(&mut self.history.open_items);
        items.append(&mut hidden.items);
        let is_hidden = self.history.is_open_hidden || hidden.is_rewritten || hidden.rounds > 0 || hidden.is_prefetched;
        let turn = Turn {
            items: is_hidden.then_some(items),
            parked: hidden.parked.clone(),
            note: self.note.clone(),
            declared: self.declared.clone(),
            response: self.splicer.response_ids().and_then(|(public, last)| (public != last).then_some(last)),
            is_behind_miss: self.report.is_miss,
        };
        let mut links = vec![conversation::after_model(&self.history.link, &said)];
        if let Some(said) = said.without_ids().filter(|_| self.wire.has_optional_ids()) {
            links.push(conversation::after_model(&self.history.link, &said));
        }
        let ids = self.splicer.response_ids();
        links.extend(ids.map(|(public, _)| conversation::after_response(&self.root, &public)));
        let (conversations, root) = (Arc::clone(&self.conversations), self.root);
        let items = self.splicer.referable_items(self.hidden.notice.as_deref());
        // A turn that is not kept is a miss later.
        let _ = tokio::task::spawn_blocking(move || {
            conversations.put(&links, turn);
            items.into_iter().for_each(|(id, item)| conversations.put_item(&root, &id, item));
            conversations.mark(&root);
        })
        .await;
    }
}

/// Returns whether a body is compressed although the request allows no encoding.
fn is_encoded(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    encodings.flat_map(|value| value.split(',')).any(|name| !["", "identity"].contains(&name.trim()))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

#[cfg(test)]
mod tests;
