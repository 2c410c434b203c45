//! Labelled queries that the user has saved, and how the rankers do on them.

use std::{collections::BTreeSet, io, path::Path as FilePath, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{Response, StatusCode},
    routing::{delete, get},
};
use pegboard_core::{Hit, Query, Ranker, Vectors, vectors::QueryTexts};
use pegboard_discovery::Session;
use pegboard_state::Folder;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    ControlState,
    caller::ControlCaller,
    responses::{answer, blocking, error_response, json_response, read_body},
};
use crate::{
    ids::random_id,
    lock,
    settings::{Listing, Shape},
};

/// Maximum number of cases.
const MAX_CASES: usize = 500;

/// Maximum number of expected tools of a case.
const MAX_EXPECTED: usize = 20;

/// Maximum number of bytes of a query, and of a note.
const MAX_TEXT: usize = 4 << 10;

/// How deep an expected tool is looked for.
const DEPTH: usize = 100;

/// How many queries are sent at a time to a source of vectors, which takes few.
const QUERIES: usize = 16;

/// The name of the file, its lock, and its largest size.
const NAME: &str = "cases.json";
const LOCK: &str = "cases.lock";
const MAX_BYTES: usize = 16 << 20;

pub(super) fn routes() -> Router<ControlState> {
    Router::new().route("/control/cases", get(cases).post(save_case)).route("/control/cases/{id}", delete(delete_case))
}

/// A labelled query.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Case {
    id: String,
    query: String,
    expected: Vec<String>,
    #[serde(default)]
    note: String,
    at: u64,
}

#[derive(Debug, Deserialize)]
struct CaseRequest {
    id: Option<String>,
    query: String,
    expected: Vec<String>,
    #[serde(default)]
    note: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cases {
    cases: Vec<Case>,
    scores: Vec<Score>,
    results: Vec<CaseResult>,
    is_saved: bool,
}

/// A ranker on the cases.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Score {
    ranker: &'static str,
    recall_at1: Option<f64>,
    recall_at5: Option<f64>,
    recall_at10: Option<f64>,
    mrr: Option<f64>,
    took_us: u64,
}

#[derive(Debug, Serialize)]
struct CaseResult {
    id: String,
    ranks: Vec<RankOfCase>,
    missing: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RankOfCase {
    ranker: &'static str,
    rank: Option<usize>,
}

/// The reason why cases cannot be changed.
#[derive(Debug, thiserror::Error)]
enum CasesError {
    #[error("there are {MAX_CASES} cases already; delete one first")]
    Full,
    #[error("no such case")]
    Missing,
    #[error("cannot save cases: {0}")]
    Io(#[from] io::Error),
}

impl CasesError {
    fn response(&self) -> Response<Body> {
        let status = match self {
            Self::Full => StatusCode::CONFLICT,
            Self::Missing => StatusCode::NOT_FOUND,
            Self::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        error_response(status, &self.to_string())
    }
}

fn read(folder: &Folder) -> io::Result<Vec<Case>> {
    match folder.read(NAME, MAX_BYTES) {
        Ok(Some(text)) => Ok(serde_json::from_slice(&text)?),
        Ok(None) => Err(io::Error::other("the file is too large")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Changes the cases in the file. Several gateways may share it.
fn change<T>(path: &FilePath, change: impl FnOnce(&mut Vec<Case>) -> Result<T, CasesError>) -> Result<T, CasesError> {
    let folder = Folder::open(path)?;
    let _lock = folder.lock(LOCK)?;
    let mut cases = read(&folder)?;
    let changed = change(&mut cases)?;
    folder.replace(NAME, &serde_json::to_vec(&cases).map_err(io::Error::from)?)?;
    Ok(changed)
}

/// Returns the response to a restricted token.
fn refusal(asking: &ControlCaller) -> Option<Response<Body>> {
    let message = "this token is restricted; cases concern all tools";
    (!asking.has_full_access()).then(|| error_response(StatusCode::FORBIDDEN, message))
}

async fn cases(State(state): State<ControlState>, asking: ControlCaller) -> Response<Body> {
    if let Some(response) = refusal(&asking) {
        return response;
    }
    let opened = match blocking(move || Measurement::open(&state, &asking)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return error.response(),
        Err(response) => return response,
    };
    let mut vectors = Vec::new();
    for ranker in &opened.rankers {
        vectors.push(vectors_for(&**ranker, &opened.cases).await);
    }
    match blocking(move || opened.results(&vectors)).await {
        Ok(cases) => answer(&cases),
        Err(response) => response,
    }
}

/// Fetches the vectors of the queries of cases, as a search does: those of [`QUERIES`] cases together.
/// Nothing if the ranker has no source of vectors.
async fn vectors_for(ranker: &dyn Ranker, cases: &[Case]) -> Vec<Vectors> {
    let Some(source) = ranker.vector_source() else { return Vec::new() };
    let texts = |case: &Case| QueryTexts {
        whole: case.query.clone(),
        requests: ranker.requests(&case.query).into_iter().map(str::to_owned).collect(),
    };
    let mut vectors = Vec::new();
    for part in cases.chunks(QUERIES) {
        vectors.push(source.ask(part.iter().map(texts).collect()).await);
    }
    vectors
}

/// The cases, and what is measured on them.
struct Measurement {
    cases: Vec<Case>,
    rankers: Vec<Arc<dyn Ranker>>,
    session: Session,
    is_saved: bool,
}

/// The ranks of the expected tools of a case, from 1, best first.
#[derive(Debug, PartialEq, Eq)]
struct CaseRanks {
    found: Vec<usize>,
    /// The number of expected tools, also of those that do not exist.
    expected: usize,
}

impl Measurement {
    fn open(state: &ControlState, asking: &ControlCaller) -> Result<Self, CasesError> {
        let setup = state.control.setups.current();
        let folder = setup.console.folder.as_deref();
        let cases = match folder {
            Some(path) if path.is_dir() => read(&Folder::open(path)?)?,
            _ => Vec::new(),
        };
        let dialect = setup.profile.dialect();
        let host = state.options.host.rankers.as_ref();
        let named = host.map(|rankers| rankers.names().into_iter().filter_map(|name| rankers.ranker(name)).collect());
        let rankers = named.unwrap_or_else(|| vec![(setup.rankers)(dialect)]);
        let view = state.control.catalog.view(&setup, &asking.viewer, Shape::new(dialect, Listing::Searchable));
        let session = lock(&view.tools).fork();
        Ok(Self { cases, rankers, session, is_saved: folder.is_some() })
    }

    /// Returns the cases with the results of every ranker. `vectors` are those of
    /// [`vectors_for`], by ranker.
    fn results(self, vectors: &[Vec<Vectors>]) -> Cases {
        let mut scores = Vec::new();
        let mut results: Vec<CaseResult> = self
            .cases
            .iter()
            .map(|case| CaseResult { id: case.id.clone(), ranks: Vec::new(), missing: self.missing(case) })
            .collect();
        for (ranker, vectors) in self.rankers.iter().zip(vectors) {
            let began = Instant::now();
            let of_case = |(at, case): (usize, &Case)| self.ranks(&**ranker, case, vectors.get(at / QUERIES));
            let ranks: Vec<CaseRanks> = self.cases.iter().enumerate().map(of_case).collect();
            let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            for (result, ranks) in results.iter_mut().zip(&ranks) {
                result.ranks.push(RankOfCase { ranker: ranker.name(), rank: ranks.found.first().copied() });
            }
            scores.push(score(ranker.name(), &ranks, took_us));
        }
        Cases { cases: self.cases, scores, results, is_saved: self.is_saved }
    }

    /// Returns the expected names of a case that no tool has, in any spelling.
    fn missing(&self, case: &Case) -> Vec<String> {
        case.expected.iter().filter(|name| self.session.find(name).is_none()).cloned().collect()
    }

    /// Returns where a ranker finds the expected tools of a case.
    fn ranks(&self, ranker: &dyn Ranker, case: &Case, vectors: Option<&Vectors>) -> CaseRanks {
        let tools = case.expected.iter().filter_map(|name| self.session.find(name));
        let expected: BTreeSet<String> = tools.map(|tool| tool.id().to_owned()).collect();
        let query = Query::new(&case.query).limit(DEPTH).least_confidence(0.0).vectors(vectors);
        let ranked = ranker.rank(&query, self.session.catalog(), self.session.selection());
        let hits = ranked.map(|ranking| ranking.hits).unwrap_or_default();
        let is_expected = |(at, hit): (usize, &Hit)| expected.contains(hit.tool.id()).then_some(at + 1);
        let found = hits.iter().enumerate().filter_map(is_expected).collect();
        CaseRanks { found, expected: expected.len() + self.missing(case).len() }
    }
}

/// Returns the quality of a ranker from the ranks of all cases. Each expected tool is an equal share of
/// its case, as in `pegboard eval`.
fn score(ranker: &'static str, cases: &[CaseRanks], took_us: u64) -> Score {
    let mean = |sum: f64| (!cases.is_empty()).then(|| (sum / cases.len() as f64 * 1e4).round() / 1e4);
    let recall = |most: usize| {
        let found = |case: &CaseRanks| case.found.iter().filter(|rank| **rank <= most).count();
        mean(cases.iter().map(|case| found(case) as f64 / case.expected.max(1) as f64).sum())
    };
    let mrr = mean(cases.iter().filter_map(|case| case.found.first()).map(|rank| 1.0 / *rank as f64).sum());
    Score { ranker, recall_at1: recall(1), recall_at5: recall(5), recall_at10: recall(10), mrr, took_us }
}

async fn save_case(State(state): State<ControlState>, asking: ControlCaller, request: Request) -> Response<Body> {
    if let Some(response) = refusal(&asking) {
        return response;
    }
    let wanted: CaseRequest = match read_body(request.into_body()).await {
        Ok(wanted) => wanted,
        Err(response) => return response,
    };
    let is_blank = wanted.query.trim().is_empty() || wanted.expected.is_empty();
    let is_large = wanted.expected.len() > MAX_EXPECTED
        || wanted.query.len().max(wanted.note.len()) > MAX_TEXT
        || wanted.expected.iter().any(|name| name.len() > MAX_TEXT);
    if is_blank || is_large {
        let message = format!(
            "a case needs a query of at most {MAX_TEXT} bytes and the names of 1 to {MAX_EXPECTED} expected tools"
        );
        return error_response(StatusCode::BAD_REQUEST, &message);
    }
    let Some(folder) = state.control.setups.current().console.folder.clone() else {
        return error_response(StatusCode::CONFLICT, "this gateway has no state folder to keep cases in");
    };
    let save = move || {
        change(&folder, |cases| {
            let id = wanted.id.unwrap_or_else(random_id);
            let case = Case {
                id,
                query: wanted.query,
                expected: wanted.expected,
                note: wanted.note,
                at: crate::activity::now(),
            };
            match cases.iter().position(|one| one.id == case.id) {
                Some(at) => cases[at] = case.clone(),
                None if cases.len() >= MAX_CASES => return Err(CasesError::Full),
                None => cases.push(case.clone()),
            }
            Ok(case)
        })
    };
    match blocking(save).await {
        Ok(Ok(case)) => answer(&case),
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}

async fn delete_case(
    State(state): State<ControlState>,
    Path(id): Path<String>,
    asking: ControlCaller,
) -> Response<Body> {
    if let Some(response) = refusal(&asking) {
        return response;
    }
    let Some(folder) = state.control.setups.current().console.folder.clone() else {
        return CasesError::Missing.response();
    };
    let remove = move || {
        change(&folder, |cases| {
            let before = cases.len();
            cases.retain(|case| case.id != id);
            if cases.len() < before { Ok(()) } else { Err(CasesError::Missing) }
        })
    };
    match blocking(remove).await {
        Ok(Ok(())) => json_response(StatusCode::OK, &json!({"done": "deleted"})),
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_of_a_ranker() {
        let case = |found: &[usize], expected| CaseRanks { found: found.to_vec(), expected };
        let found = score("keyword", &[case(&[1], 1), case(&[4], 1), case(&[], 1), case(&[7], 1)], 5);
        assert_eq!((found.recall_at1, found.recall_at5, found.recall_at10), (Some(0.25), Some(0.5), Some(0.75)));
        assert_eq!(found.mrr, Some(0.3482));
        assert_eq!(score("keyword", &[], 0).recall_at1, None);
    }

    #[test]
    fn recall_is_the_share_of_the_expected_tools() {
        let ranks = CaseRanks { found: vec![1, 8], expected: 4 };
        let found = score("keyword", &[ranks], 0);
        assert_eq!((found.recall_at1, found.recall_at5, found.recall_at10), (Some(0.25), Some(0.25), Some(0.5)));
        assert_eq!(found.mrr, Some(1.0));
    }

    #[test]
    fn cases_are_kept_in_a_file() {
        let path = std::env::temp_dir().join(format!("pegboard-cases-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let case = |id: &str| Case {
            id: id.to_owned(),
            query: "open an issue".to_owned(),
            expected: vec!["create_issue".to_owned()],
            note: String::new(),
            at: 1,
        };
        let add = |cases: &mut Vec<Case>| {
            cases.extend([case("a"), case("b")]);
            Ok(())
        };
        change(&path, add).expect("a file");
        let remove = |cases: &mut Vec<Case>| {
            cases.retain(|case| case.id != "a");
            Ok(())
        };
        change(&path, remove).expect("a file");
        let folder = Folder::open(&path).expect("a folder");
        assert_eq!(read(&folder).expect("cases"), [case("b")]);
        assert!(matches!(change(&path, |_| Err::<(), _>(CasesError::Missing)), Err(CasesError::Missing)));
        std::fs::remove_dir_all(path).expect("a folder");
    }
}
