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

/// Maximum number of bytes of an error, and of those that are looked at.
const MAX_ERROR: usize = 300;
const MAX_ERROR_BYTES: usize = 4 * MAX_ERROR;

/// How much of a text is passed to the thread beyond what is kept, in bytes: secrets are removed there, and
/// one that is cut off is not recognized. The part of a secret by which it is recognized is shorter, also
/// in its encoded forms.
const MARGIN: usize = 16 << 10;

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
        let text = has_contents.then(|| cut(arguments, MAX_CONTENTS + MARGIN).to_owned());
        let contents = Contents { arguments: text, result: None, is_cut: false };
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
            happened.entry.query = Some(cut(&queries.join("; "), MAX_QUERY + MARGIN).to_owned());
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
                entry.error = text.is_error.then(|| cut(&text.text, MAX_ERROR_BYTES + MARGIN).to_owned());
                Some(text.text.as_str())
            }
            Ok(_) => None,
            Err(failure) => {
                entry.outcome = if self.was_lost { Outcome::Failed } else { Outcome::Rejected };
                entry.error = Some(cut(&failure.to_string(), MAX_ERROR_BYTES + MARGIN).to_owned());
                None
            }
        };
        if let Some(text) = text {
            entry.bytes_out = text.len();
            happened.contents.result = Some(cut(text, MAX_CONTENTS + MARGIN).to_owned());
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
    cut(text.unwrap_or("the tool reports an error"), MAX_ERROR_BYTES + MARGIN).to_owned()
}

/// Returns the beginning of a text.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Replaces a text that was passed on with the part that is kept of it, without secrets. Returns whether
/// that is less than the whole.
fn redact(text: &mut String, most: usize, without_secrets: impl Fn(&str) -> String) -> bool {
    // A cut at a character boundary takes at most three bytes more.
    let was_cut = text.len() + 3 >= most + MARGIN;
    *text = without_secrets(text);
    let known = if was_cut { text.len().saturating_sub(MARGIN) } else { text.len() };
    let end = text.floor_char_boundary(known.min(most));
    let is_cut = was_cut || end < text.len();
    text.truncate(end);
    is_cut
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Happened {
    /// Removes secrets, and what is more than is kept.
    pub(super) fn redact(&mut self, without_secrets: impl Fn(&str) -> String) {
        if let Some(query) = &mut self.entry.query {
            redact(query, MAX_QUERY, &without_secrets);
        }
        if let Some(error) = &mut self.entry.error {
            redact(error, MAX_ERROR_BYTES, &without_secrets);
            *error = pegboard_core::text::brief(error, MAX_ERROR);
        }
        for text in [&mut self.contents.arguments, &mut self.contents.result].into_iter().flatten() {
            self.contents.is_cut |= redact(text, MAX_CONTENTS, &without_secrets);
        }
    }

    /// Returns the tokens that the model reads, estimated from the kept part.
    pub(super) fn tokens(&self) -> u64 {
        let Some(result) = self.contents.result.as_deref().filter(|result| !result.is_empty()) else {
            return self.entry.tokens;
        };
        let tokens = pegboard_core::estimate_tokens(result) as u64;
        tokens.saturating_mul(self.entry.bytes_out.max(1) as u64) / result.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2-hunter2";

    #[test]
    fn no_part_of_a_secret_is_kept_at_the_end_of_a_cut_text() {
        const MOST: usize = 1000;
        for start in (MOST - SECRET.len()..MOST + 2).chain(MOST + MARGIN - SECRET.len()..MOST + MARGIN + 2) {
            for padding in [0, 3 * MARGIN] {
                let whole = format!("{}{SECRET}{}", "x".repeat(start), "y".repeat(padding));
                let mut text = cut(&whole, MOST + MARGIN).to_owned();
                let is_cut = redact(&mut text, MOST, |text| text.replace(SECRET, " "));
                assert!(!text.contains('h') && text.len() <= MOST, "{start} {padding}: {}", text.len());
                assert!(is_cut || text.len() >= MOST.min(start), "{start} {padding}");
            }
        }
    }

    #[test]
    fn secrets_that_shrink_a_text_bring_no_cut_one_into_view() {
        const MOST: usize = 1000;
        let whole = SECRET.repeat(2 * MARGIN);
        let mut text = cut(&whole, MOST + MARGIN).to_owned();
        assert!(redact(&mut text, MOST, |text| text.replace(SECRET, " ")));
        assert!(!text.contains("hunter"), "{text}");
    }

    #[test]
    fn short_texts_stay_whole() {
        let mut text = "just a text".to_owned();
        assert!(!redact(&mut text, 100, str::to_owned));
        assert_eq!(text, "just a text");
        assert!(redact(&mut text, 4, str::to_owned));
        assert_eq!(text, "just");
    }
}
