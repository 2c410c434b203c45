//! The observation of one request while it is answered.

use std::time::{Duration, Instant};

use pegboard_mcp::json::Fields;

use super::{Activity, ContentsPlace, Entry, EntryListener, Kind, Outcome, Source, entry::now, log::Contents};
use crate::{
    caller::Caller,
    exchange::Exchange,
    request::{Reply, ToolCall},
    setup::Setup,
    steps::{measure, resolve::Called},
    text::shorten,
};

/// Maximum number of kept bytes of arguments, and of a result.
const MAX_CONTENTS: usize = 16 << 10;

/// Maximum number of kept bytes of a query.
const MAX_QUERY: usize = 2 << 10;

/// Maximum number of characters of an error.
const MAX_ERROR: usize = 300;

/// Maximum number of hits of an entry.
const MAX_HITS: usize = 10;

/// Maximum number of hits by which later calls are recognized.
const MAX_OFFERED: usize = 100;

/// A message for the thread that keeps entries.
#[derive(Debug)]
pub(super) enum Note {
    Happened(Box<Happened>),
    /// There is nothing more.
    End,
}

/// What happened, as the request knows it.
#[derive(Debug)]
pub(super) struct Happened {
    pub(super) entry: Entry,
    pub(super) caller: Caller,
    /// What searches and calls that belong together have in common.
    pub(super) conversation: String,
    /// The identities of the hits of a search, or of the called tool.
    pub(super) tools: Vec<String>,
    pub(super) contents: Contents,
    /// What wants to know the number of the entry.
    pub(super) listener: Option<EntryListener>,
    /// Whether the entry is kept; its tokens are counted in any case.
    pub(super) is_kept: bool,
}

/// The observation of a tool call; if it is dropped before the end, the call was cancelled.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    activity: &'a Activity,
    setup: &'a Setup,
    began: Instant,
    happened: Option<Box<Happened>>,
    /// Whether a server got the call and did not answer it.
    was_lost: bool,
}

/// Returns what the client of a request calls itself.
fn client_of(exchange: &Exchange) -> String {
    match &exchange.session {
        Some(session) if !session.client.is_empty() => session.client.clone(),
        _ => shorten(&exchange.client),
    }
}

fn blank_entry(setup: &Setup, exchange: &Exchange, kind: Kind) -> Entry {
    let lasting = exchange.session.as_ref().filter(|session| session.is_lasting);
    let token = setup.token_name(exchange.viewer.caller);
    Entry {
        seq: 0,
        at: now(),
        kind,
        source: if exchange.console.is_some() { Source::Console } else { Source::Client },
        client: client_of(exchange),
        session: lasting.map(|session| crate::control::session_handle(session.owner)),
        token: (!token.is_empty()).then(|| token.to_owned()),
        server: None,
        tool: None,
        query: None,
        dialect: Some(exchange.shape.dialect.as_str().to_owned()),
        hits: Vec::new(),
        matches: None,
        search: None,
        rank: None,
        duration_us: 0,
        outcome: Outcome::Rejected,
        error: None,
        bytes_in: 0,
        bytes_out: 0,
        tokens: 0,
        has_contents: false,
    }
}

impl Activity {
    /// Begins to observe a tool call.
    pub(crate) fn observe<'a>(&'a self, setup: &'a Setup, exchange: &Exchange, call: &ToolCall) -> Observation<'a> {
        let arguments = call.params.get("arguments").map_or("{}", |arguments| arguments.get());
        let mut entry = blank_entry(setup, exchange, Kind::Call);
        entry.bytes_in = arguments.len();
        entry.tool = Some(shorten(&call.name));
        let conversation = match &entry.session {
            Some(session) => session.clone(),
            None => format!("{:?} {}", exchange.viewer.caller, entry.client),
        };
        let kept = &setup.console.activity;
        let is_kept = kept.entries > 0;
        let has_contents = is_kept && kept.contents != ContentsPlace::None;
        let (text, is_cut) = cut(arguments, if has_contents { MAX_CONTENTS } else { 0 });
        let contents = Contents { arguments: has_contents.then_some(text), result: None, is_cut };
        let caller = exchange.viewer.caller;
        let listener = exchange.console.clone();
        let happened = Happened { entry, caller, conversation, tools: Vec::new(), contents, listener, is_kept };
        Observation {
            activity: self,
            setup,
            began: Instant::now(),
            happened: Some(Box::new(happened)),
            was_lost: false,
        }
    }

    /// Records a list that was sent to a client.
    pub(crate) fn record_list(&self, setup: &Setup, exchange: &Exchange, tools: usize, tokens: u64, took: Duration) {
        if setup.console.activity.entries == 0 {
            return;
        }
        let mut entry = blank_entry(setup, exchange, Kind::List);
        (entry.tokens, entry.outcome, entry.duration_us) = (tokens, Outcome::Ok, micros(took));
        entry.matches = Some(tools);
        let happened = Happened {
            entry,
            caller: exchange.viewer.caller,
            conversation: String::new(),
            tools: Vec::new(),
            contents: Contents::default(),
            listener: None,
            is_kept: true,
        };
        self.pass_on(setup, Box::new(happened));
    }

    fn pass_on(&self, setup: &Setup, happened: Box<Happened>) {
        self.send(&setup.console.activity, Note::Happened(happened));
    }
}

impl Observation<'_> {
    /// Records how the session has answered: what was found, or which tool is to be called.
    pub(crate) fn answered(&mut self, called: &Called) {
        let Some(happened) = &mut self.happened else { return };
        let answer = &called.answer;
        let is_noted = !answer.searched.is_empty() || answer.target.is_some() || answer.is_misfit;
        if !is_noted && called.unknown.is_none() {
            // A meta-tool that loads or describes tools.
            self.happened = None;
            return;
        }
        if let Some(searched) = answer.searched.first() {
            happened.entry.kind = Kind::Search;
            happened.entry.tool = None;
            let queries: Vec<&str> = answer.searched.iter().map(|searched| searched.query.as_str()).collect();
            happened.entry.query = Some(cut(&queries.join("; "), MAX_QUERY).0);
            happened.entry.matches = Some(searched.matches);
            let hits = || answer.searched.iter().flat_map(|searched| &searched.hits);
            happened.entry.hits = hits().take(MAX_HITS).map(|tool| tool.name().to_owned()).collect();
            happened.tools = hits().take(MAX_OFFERED).map(|tool| tool.id().to_owned()).collect();
        }
        if let Some(target) = &answer.target {
            happened.entry.kind = Kind::Call;
            happened.entry.server = target.server.clone();
            happened.tools = target.id.clone().into_iter().collect();
            if target.id.is_none() {
                happened.entry.tool = Some(target.name.clone());
            }
        }
    }

    /// Records that a server got the call and did not answer it.
    pub(crate) fn lost(&mut self) {
        self.was_lost = true;
    }

    /// Records the outcome.
    pub(crate) fn finish(mut self, outcome: &crate::request::Outcome) {
        let Some(mut happened) = self.happened.take() else { return };
        let entry = &mut happened.entry;
        entry.duration_us = micros(self.began.elapsed());
        let is_search = entry.kind == Kind::Search;
        let text = match outcome {
            Ok(Reply::Forwarded(forwarded)) => {
                entry.outcome = if measure::is_error(&forwarded.result) { Outcome::Error } else { Outcome::Ok };
                if entry.outcome == Outcome::Error {
                    entry.error = Some(error_text(&forwarded.result));
                }
                Some(forwarded.result.get())
            }
            Ok(Reply::Text(text)) => {
                entry.outcome = match text.is_error {
                    false => Outcome::Ok,
                    true if is_search => Outcome::Error,
                    true if self.was_lost => Outcome::Failed,
                    true => Outcome::Rejected,
                };
                entry.error = text.is_error.then(|| brief(&text.text));
                Some(text.text.as_str())
            }
            Ok(_) => None,
            Err(failure) => {
                entry.outcome = if self.was_lost { Outcome::Failed } else { Outcome::Rejected };
                entry.error = Some(brief(&failure.to_string()));
                None
            }
        };
        if let Some(text) = text {
            entry.bytes_out = text.len();
            let (text, is_cut) = cut(text, MAX_CONTENTS);
            happened.contents.is_cut |= is_cut;
            happened.contents.result = Some(text);
        }
        self.activity.pass_on(self.setup, happened);
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        let Some(mut happened) = self.happened.take() else { return };
        happened.entry.outcome = Outcome::Failed;
        happened.entry.error = Some("cancelled by the client".to_owned());
        happened.entry.duration_us = micros(self.began.elapsed());
        self.activity.pass_on(self.setup, happened);
    }
}

/// Returns the first text of a result that reports an error.
fn error_text(result: &serde_json::value::RawValue) -> String {
    let content = Fields::of(result).and_then(|fields| fields.read::<Vec<serde_json::Value>>("content"));
    let text = content.iter().flatten().find_map(|item| item.get("text")?.as_str());
    brief(text.unwrap_or("the tool reports an error"))
}

fn brief(text: &str) -> String {
    pegboard_core::text::brief(text, MAX_ERROR)
}

/// Returns the beginning of a text, and whether it has more.
fn cut(text: &str, most: usize) -> (String, bool) {
    let end = text.floor_char_boundary(most);
    (text[..end].to_owned(), end < text.len())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Happened {
    /// Returns the tokens that the model reads, estimated from the kept part.
    pub(super) fn tokens(&self) -> u64 {
        let Some(result) = self.contents.result.as_deref().filter(|result| !result.is_empty()) else {
            return self.entry.tokens;
        };
        let tokens = pegboard_core::estimate_tokens(result) as u64;
        tokens.saturating_mul(self.entry.bytes_out.max(1) as u64) / result.len() as u64
    }
}
