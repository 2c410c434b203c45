//! Searches and calls, page by page.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderValue, Response, StatusCode, header},
    routing::get,
};
use pegboard_core::Tool;
use serde::Serialize;

use super::{
    ControlState,
    caller::ControlCaller,
    query::pairs,
    responses::{answer, blocking, error_response, typed_response},
};
use crate::{
    activity::{Contents, Entry, Filter, Kind},
    record::{Conversation, FORMAT, Line, Search, ToolCall, catalog_entry, identity},
    setup::Setup,
};

/// The number of entries of a page, unless asked otherwise, and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 500;

pub(super) fn routes() -> Router<ControlState> {
    Router::new()
        .route("/control/activity", get(activity))
        .route("/control/activity/export", get(export))
        .route("/control/activity/{seq}", get(detail))
}

#[derive(Debug, Serialize)]
struct Page {
    entries: Vec<Arc<Entry>>,
    next: Option<u64>,
    total: usize,
    newest: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    entry: Arc<Entry>,
    arguments: Option<String>,
    result: Option<String>,
    is_cut: bool,
    calls: Vec<u64>,
}

/// Returns the filter of a request. A restricted token sees its own entries.
fn filter_of(setup: &Setup, asking: &ControlCaller, query: &str) -> Filter {
    let mut filter = Filter::default();
    for (key, value) in pairs(query).filter(|(_, value)| !value.is_empty()) {
        match key {
            "kind" => filter.kind = Some(value),
            "server" => filter.server = Some(value),
            "session" => filter.session = Some(value),
            "client" => filter.client = Some(value),
            "outcome" => filter.outcome = Some(value),
            "q" => filter.text = Some(value.to_lowercase()),
            _ => {}
        }
    }
    if !asking.has_full_access() {
        filter.token = Some(setup.token_name(asking.caller()).to_owned());
    }
    filter
}

fn number(query: &str, name: &str) -> Option<u64> {
    pairs(query).find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok())
}

async fn activity(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    let (setup, query) = (state.control.setups.current(), request.uri().query().unwrap_or_default());
    let filter = filter_of(&setup, &asking, query);
    let before = number(query, "before").unwrap_or(u64::MAX);
    let limit = number(query, "limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let page = state.activity.read(|log| {
        let (entries, has_more) = log.page(&filter, before, limit);
        let next = entries.last().map(|entry| entry.seq).filter(|_| has_more);
        Page { entries, next, total: log.count(&filter), newest: log.newest(filter.token.as_deref()) }
    });
    answer(&page)
}

async fn detail(State(state): State<ControlState>, Path(seq): Path<String>, asking: ControlCaller) -> Response<Body> {
    let setup = state.control.setups.current();
    let filter = filter_of(&setup, &asking, "");
    let found = seq.parse().ok().and_then(|seq| state.activity.read(|log| log.detail(&filter, seq)));
    let Some((entry, contents, calls)) = found else {
        return error_response(StatusCode::NOT_FOUND, "entry not found, or already evicted");
    };
    let Contents { arguments, result, is_cut } = contents.unwrap_or_default();
    answer(&Detail { entry, arguments, result, is_cut, calls })
}

/// Returns all entries as a file.
async fn export(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    let (setup, query) = (state.control.setups.current(), request.uri().query().unwrap_or_default());
    let filter = filter_of(&setup, &asking, query);
    let format = pairs(query).find(|(key, _)| *key == "format").map(|(_, value)| value);
    let is_eval = match format.as_deref() {
        None | Some("jsonl") => false,
        Some("eval") if !asking.has_full_access() => {
            return error_response(StatusCode::FORBIDDEN, "this token is restricted; the file has all tools");
        }
        Some("eval") => true,
        Some(_) => return error_response(StatusCode::BAD_REQUEST, "`format` must be `jsonl` or `eval`"),
    };
    let entries = state.activity.read(|log| log.all(&filter));
    let catalog = state.control.catalog.catalog();
    let made = blocking(move || match is_eval {
        false => lines(&entries),
        true => record(&entries, catalog.iter().map(AsRef::as_ref)),
    });
    let text = match made.await {
        Ok(text) => text,
        Err(response) => return response,
    };
    let mut response = typed_response(StatusCode::OK, Body::from(text), "application/x-ndjson");
    let name =
        if is_eval { "attachment; filename=\"searches.jsonl\"" } else { "attachment; filename=\"activity.jsonl\"" };
    response.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name));
    response
}

fn lines(entries: &[Arc<Entry>]) -> String {
    let lines = entries.iter().filter_map(|entry| serde_json::to_string(entry).ok());
    lines.map(|line| line + "\n").collect()
}

/// Returns the entries as a record for `pegboard eval`: the tools, the searches and the calls.
fn record<'a>(entries: &[Arc<Entry>], tools: impl Iterator<Item = &'a Tool>) -> String {
    let begin =
        Line::Begin { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned(), at: crate::activity::now() };
    let mut names = std::collections::HashMap::new();
    let mut all = vec![begin];
    for tool in tools {
        let id = identity(tool);
        all.push(Line::Tool(catalog_entry(tool)));
        names.insert(tool.name().to_owned(), id);
    }
    let id_of = |name: &String| names.get(name).cloned();
    for entry in entries {
        let conversation = Conversation {
            conversation: entry.session.clone().unwrap_or_else(|| format!("client-{}", entry.client)),
            is_guess: entry.session.is_none(),
        };
        match (entry.kind, &entry.query, &entry.tool) {
            (Kind::Search, Some(query), _) => all.push(Line::Search(Search {
                at: entry.at,
                conversation,
                query: query.clone(),
                tools: names.len(),
                offered: entry.hits.iter().filter_map(id_of).collect(),
            })),
            (Kind::Call, _, Some(tool)) => {
                let called = id_of(tool).map(|tool| Line::Call(ToolCall { at: entry.at, conversation, tool }));
                all.extend(called);
            }
            _ => {}
        }
    }
    all.iter().filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect()
}
