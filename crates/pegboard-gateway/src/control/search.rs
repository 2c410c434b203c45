//! Searches of the console: the hits with their reasons, and the text that a model would get.
//!
//! The text comes from a session like that of a client: the same dialect, settings, names and
//! selection. The session is a copy, so that nothing is loaded anywhere.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Instant,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode},
    routing::post,
};
use pegboard_core::{
    Hit, Query, Ranker, Ranking, Reason, Vectors,
    naming::nearest,
    ranking::MAX_QUERY_BYTES,
    text::{brief, excerpt},
};
use pegboard_discovery::{DialectName, MetaTool, Session, estimate_tokens};
use pegboard_http::PeerAddress;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    ControlState,
    caller::ControlCaller,
    host::{HostError, HostErrorKind, NamedRankers},
    responses::{answer, blocking, error_response, read_body},
};
use crate::{
    caller::{Caller, Viewer},
    catalog::views::ToolView,
    lock,
    routes::lists,
    settings::{Listing, Shape},
    setup::Setup,
    shares::Party,
};

/// Number of hits, unless asked otherwise, and at most.
const HITS: usize = 10;
const MAX_HITS: usize = 100;

/// Maximum number of characters of a description.
const MAX_DESCRIPTION: usize = 1000;

/// Maximum number of characters that are repeated of a name that no tool has.
const MAX_NAME: usize = 80;

/// Maximum number of names that are suggested for it.
const NEAREST: usize = 3;

/// How many views of callers, dialects and rankers are kept.
const MAX_VIEWS: usize = 8;

/// Which view is meant: the caller, the number of the settings, the snapshot of the catalog, the
/// dialect and the ranker.
type ViewKey = (Caller, u64, u64, DialectName, Option<String>);

/// The sessions that searches begin from, the most recently used last.
#[derive(Debug, Default)]
pub(super) struct SearchViews(Mutex<VecDeque<(ViewKey, Arc<ToolView>)>>);

impl SearchViews {
    fn find(&self, key: &ViewKey) -> Option<Arc<ToolView>> {
        let mut views = lock(&self.0);
        let at = views.iter().position(|(one, _)| one == key)?;
        let found = views.remove(at)?;
        let view = Arc::clone(&found.1);
        views.push_back(found);
        Some(view)
    }

    fn add(&self, key: ViewKey, view: &Arc<ToolView>) {
        let mut views = lock(&self.0);
        if views.len() >= MAX_VIEWS {
            views.pop_front();
        }
        views.push_back((key, Arc::clone(view)));
    }
}

pub(super) fn routes() -> Router<ControlState> {
    Router::new().route("/control/search", post(search))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchRequest {
    query: String,
    ranker: Option<String>,
    dialect: Option<String>,
    limit: Option<usize>,
    token: Option<String>,
    why_not: Option<String>,
    #[serde(default)]
    explain: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchResult {
    query: String,
    ranker: &'static str,
    dialect: &'static str,
    total: usize,
    tools: usize,
    hits: Vec<HitView>,
    withheld: Vec<HitView>,
    confidence: Option<f64>,
    unmatched: Vec<String>,
    fallback: Option<&'static str>,
    translated: Option<String>,
    took_us: u64,
    reply: ModelReply,
    why_not: Option<WhyNot>,
    token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HitView {
    rank: usize,
    name: String,
    id: String,
    server: Option<String>,
    description: String,
    score: f64,
    why: Vec<ReasonView>,
    is_in_reply: bool,
}

#[derive(Debug, Serialize)]
struct ReasonView {
    field: &'static str,
    term: String,
    weight: f64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelReply {
    tool: String,
    arguments: Value,
    text: String,
    tokens: usize,
    is_error: bool,
    loads: Vec<String>,
    list_tokens: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WhyNot {
    name: String,
    /// `None` if the caller sees no tool of this name.
    id: Option<String>,
    rank: Option<usize>,
    score: Option<f64>,
    best_score: Option<f64>,
    matched: Vec<ReasonView>,
    missing: Vec<String>,
    reason: String,
}

async fn search(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    let party = Party::of(asking.caller(), request.extensions().get::<PeerAddress>().copied());
    let wanted: SearchRequest = match read_body(request.into_body()).await {
        Ok(wanted) => wanted,
        Err(response) => return response,
    };
    if wanted.query.len() > MAX_QUERY_BYTES {
        let message = format!("the query is {} bytes, over the limit of {MAX_QUERY_BYTES}", wanted.query.len());
        return error_response(StatusCode::BAD_REQUEST, &message);
    }
    let setup = state.control.setups.current();
    let viewer = match viewer(&setup, &asking, wanted.token.as_deref()) {
        Ok(viewer) => viewer,
        Err(response) => return *response,
    };
    // An index may have to be built first, and a long query keeps a processor busy.
    let prepare = {
        let (state, wanted) = (state.clone(), wanted.clone());
        move || Playground::open(&state, &setup, &viewer, &wanted)
    };
    let playground = match blocking(prepare).await {
        Ok(Ok(playground)) => playground,
        Ok(Err(error)) => return error.response(),
        Err(response) => return response,
    };
    let vectors = match playground.vectors() {
        Some(vectors) => vectors.await,
        None => Vectors::default(),
    };
    // As for a search of a client: one caller with long queries must not keep a processor from the others.
    let turn = match state.pipeline.limits.begin_work(party, wanted.query.len()).await {
        Ok(turn) => turn,
        Err(error) => return error_response(StatusCode::SERVICE_UNAVAILABLE, &error.message),
    };
    let rankers = state.options.host.rankers.clone();
    let search = move || {
        let _turn = turn;
        playground.search(&wanted, &vectors, rankers.as_deref())
    };
    match blocking(search).await {
        Ok(Ok(result)) => answer(&result),
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}

/// Returns what a search may see: the caller's part, or that of the named token.
fn viewer(setup: &Setup, asking: &ControlCaller, token: Option<&str>) -> Result<Viewer, Box<Response<Body>>> {
    let Some(name) = token else { return Ok(asking.viewer.clone()) };
    if !asking.has_full_access() {
        let message = "this token is restricted; it cannot search as another one";
        return Err(error_response(StatusCode::FORBIDDEN, message).into());
    }
    let viewer = setup.holder_named(name).and_then(|holder| setup.viewer(Caller::Token(holder)));
    viewer.ok_or_else(|| error_response(StatusCode::NOT_FOUND, &format!("no token `{}`", brief(name, MAX_NAME))).into())
}

/// A session to search in, as a client would.
struct Playground {
    session: Session,
    ranker: Arc<dyn Ranker>,
    /// The search of the dialect, and its arguments.
    tool: String,
    arguments: Value,
}

impl Playground {
    fn open(state: &ControlState, setup: &Setup, viewer: &Viewer, wanted: &SearchRequest) -> Result<Self, HostError> {
        let not_found = |message: String| HostError::new(HostErrorKind::NotFound, message, None);
        let dialect = match wanted.dialect.as_deref() {
            None => setup.profile.dialect(),
            Some(name) => {
                let found = DialectName::ALL.into_iter().find(|dialect| dialect.as_str() == name);
                found.ok_or_else(|| not_found(format!("no dialect `{}`", brief(name, MAX_NAME))))?
            }
        };
        let ranker = match wanted.ranker.as_deref() {
            None => setup.ranker_for(dialect, viewer.caller),
            Some(name) => {
                let named = state.options.host.rankers.as_ref().and_then(|rankers| rankers.ranker(name));
                named.ok_or_else(|| not_found(format!("no ranker `{}`", brief(name, MAX_NAME))))?
            }
        };
        let catalog = state.control.catalog.catalog();
        let key = (viewer.caller, viewer.setup, catalog.version(), dialect, wanted.ranker.clone());
        let view = state.searches.find(&key).unwrap_or_else(|| {
            let shape = Shape::new(dialect, Listing::Searchable);
            let view = Arc::new(ToolView::with_search(catalog, setup, viewer, shape, Arc::clone(&ranker)));
            state.searches.add(key, &view);
            view
        });
        let session = lock(&view.tools).fork();
        let (tool, arguments) = search_call(&session, &wanted.query, wanted.limit);
        Ok(Self { session, ranker, tool, arguments })
    }

    fn vectors(&self) -> Option<pegboard_core::vectors::BoxFuture<Vectors>> {
        self.session.vectors_for(&self.tool, &self.arguments)
    }

    fn search(
        mut self,
        wanted: &SearchRequest,
        vectors: &Vectors,
        rankers: Option<&dyn NamedRankers>,
    ) -> Result<SearchResult, HostError> {
        let limit = wanted.limit.unwrap_or(HITS).clamp(1, MAX_HITS);
        let query = Query::new(&wanted.query).limit(limit).explain(wanted.explain).vectors(Some(vectors));
        let began = Instant::now();
        let ranking = self.rank(&query)?;
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let why_not = match wanted.why_not.as_deref() {
            Some(name) => Some(self.why_not(name, &query, &ranking, rankers)?),
            None => None,
        };
        let reply = self.reply(vectors);
        let hit = |(at, hit): (usize, &Hit)| self.hit(at, hit, &reply);
        Ok(SearchResult {
            query: wanted.query.clone(),
            ranker: self.ranker.name(),
            dialect: self.session.dialect_name().as_str(),
            total: ranking.total,
            tools: self.session.known_names().len(),
            hits: ranking.hits.iter().enumerate().map(hit).collect(),
            withheld: ranking.withheld.iter().enumerate().map(hit).collect(),
            confidence: ranking.confidence,
            unmatched: ranking.unmatched.clone(),
            fallback: ranking.fallback.map(|fallback| fallback.as_str()),
            translated: ranking.translated.clone(),
            took_us,
            reply,
            why_not,
            token: wanted.token.clone(),
        })
    }

    fn rank(&self, query: &Query<'_>) -> Result<Ranking, HostError> {
        // While the user has not typed anything yet, nothing is wrong.
        if query.text.trim().is_empty() {
            return Ok(Ranking::default());
        }
        let ranked = self.ranker.rank(query, self.session.catalog(), self.session.selection());
        ranked.map_err(|error| HostError::new(HostErrorKind::Rejected, error.to_string(), None))
    }

    /// Makes the call that a model would make.
    fn reply(&mut self, vectors: &Vectors) -> ModelReply {
        let list_tokens = lists::shown_cost(&self.session).values().sum();
        let before = self.session.visible_names();
        let found = self.session.call_with(&self.tool, &self.arguments, vectors);
        let text = found.reply.into_text();
        let loads = self.session.visible_names().into_iter().filter(|name| !before.contains(name)).collect();
        ModelReply {
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            tokens: estimate_tokens(&text),
            text,
            is_error: found.is_error,
            loads,
            list_tokens,
        }
    }

    fn hit(&self, at: usize, hit: &Hit, reply: &ModelReply) -> HitView {
        let name = self.session.name_of(&hit.tool);
        HitView {
            rank: at + 1,
            is_in_reply: mentions(&reply.text, &name) || reply.loads.contains(&name),
            id: hit.tool.id().to_owned(),
            server: hit.tool.server_name().map(str::to_owned),
            description: excerpt(hit.tool.description(), MAX_DESCRIPTION).into_owned(),
            score: rounded(hit.score),
            why: reasons(&hit.why),
            name,
        }
    }

    /// Finds the tool in the whole ranking, and says what it lacks.
    fn why_not(
        &self,
        name: &str,
        query: &Query<'_>,
        ranking: &Ranking,
        rankers: Option<&dyn NamedRankers>,
    ) -> Result<WhyNot, HostError> {
        let Some(tool) = self.session.find(name) else { return Ok(self.no_tool(name)) };
        let everything =
            Query { limit: usize::MAX, threshold: 0.0, explain: false, least_confidence: Some(0.0), ..*query };
        let hits = self.rank(&everything)?.hits;
        let place = hits.iter().position(|hit| hit.tool.id() == tool.id());
        let mut matched = Vec::new();
        if let Some(at) = place {
            let explained = self.rank(&Query { limit: at + 1, explain: true, ..everything })?.hits;
            matched = explained.into_iter().nth(at).map(|hit| hit.why).unwrap_or_default();
        }
        let reason = match place {
            None => format!("not ranked: {} finds no query term in this tool", self.ranker.name()),
            Some(at) => {
                let side = if at < query.limit { "within" } else { "beyond" };
                let place = format!("ranked {}, {side} the limit of {}", at + 1, query.limit);
                match ranking.confidence.filter(|_| !ranking.withheld.is_empty()) {
                    Some(confidence) => {
                        format!("{place}, but hits are withheld: confidence {confidence:.2} is too low")
                    }
                    None => place,
                }
            }
        };
        Ok(WhyNot {
            name: self.session.name_of(&tool),
            id: Some(tool.id().to_owned()),
            rank: place.map(|at| at + 1),
            score: place.and_then(|at| hits.get(at)).map(|hit| rounded(hit.score)),
            best_score: hits.first().map(|hit| rounded(hit.score)),
            missing: rankers.map(|rankers| rankers.missing_words(query.text, &matched)).unwrap_or_default(),
            matched: reasons(&matched),
            reason,
        })
    }

    /// Answers a question for a tool that the caller does not see, for example a name that is only half
    /// typed. The hits are shown nevertheless.
    fn no_tool(&self, name: &str) -> WhyNot {
        let name = brief(name, MAX_NAME);
        let known = self.session.known_names();
        let near = nearest(&name, known.iter().map(String::as_str), NEAREST);
        let near: Vec<String> = near.into_iter().map(|name| format!("`{name}`")).collect();
        let similar = if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) };
        WhyNot {
            reason: format!("no tool `{name}`{similar}"),
            name,
            id: None,
            rank: None,
            score: None,
            best_score: None,
            matched: Vec::new(),
            missing: Vec::new(),
        }
    }
}

/// Returns whether `text` has `name` as a word of its own, and not only as a part of a longer name.
fn mentions(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        !name.is_empty() && !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

fn reasons(why: &[Reason]) -> Vec<ReasonView> {
    let view = |reason: &Reason| ReasonView {
        field: reason.field.as_str(),
        term: reason.term.clone(),
        weight: rounded(reason.weight),
    };
    why.iter().map(view).collect()
}

fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Returns the search of a session's dialect, and its arguments for a query: the parameters of its
/// own schema.
fn search_call(session: &Session, query: &str, limit: Option<usize>) -> (String, Value) {
    let is_search = |name: &str| session.meta_tool(name) == Some(MetaTool::Search);
    let visible = session.visible();
    let Some(search) = visible.iter().find(|definition| is_search(&definition.name)) else {
        // The dialect has a search that it does not list now.
        let name = session.dialect_name().meta_names().iter().find(|name| is_search(name)).copied();
        return (name.unwrap_or_default().to_owned(), json!({"query": query}));
    };
    let parameters = search.input_schema.get("properties").and_then(Value::as_object);
    let has = |name: &str| parameters.is_some_and(|parameters| parameters.contains_key(name));
    let mut arguments = Map::new();
    if has("query") || !has("keywords") {
        arguments.insert("query".to_owned(), query.into());
    } else {
        arguments.insert("keywords".to_owned(), query.into());
    }
    let limit_names = ["limit", "max_results", "top_k"];
    if let (Some(limit), Some(name)) = (limit, limit_names.into_iter().find(|name| has(name))) {
        arguments.insert(name.to_owned(), limit.into());
    }
    (search.name.clone(), Value::Object(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_mentioned_as_a_word() {
        let check = |text: &str, name: &str, expected: bool| assert_eq!(mentions(text, name), expected, "{text}");
        check("call git___list, please", "git___list", true);
        check("\"git___list\"", "git___list", true);
        check("git___list_issues", "git___list", false);
        check("my-git___list", "git___list", false);
        check("git___list_issues and git___list.", "git___list", true);
        check("", "git___list", false);
        check("anything", "", false);
    }
}
