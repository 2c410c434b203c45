//! Labelled queries that the user has saved, and how the rankers do on them.

use std::{io, path::Path as FilePath, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{Response, StatusCode},
    routing::{delete, get},
};
use pegboard_core::{Query, Ranker};
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
    match blocking(move || measured(&state, &asking)).await {
        Ok(Ok(cases)) => answer(&cases),
        Ok(Err(error)) => error.response(),
        Err(response) => response,
    }
}

/// Returns the cases, and the results of every ranker on them.
fn measured(state: &ControlState, asking: &ControlCaller) -> Result<Cases, CasesError> {
    let setup = state.control.setups.current();
    let folder = setup.console.folder.as_deref();
    let cases = match folder {
        Some(path) if path.is_dir() => read(&Folder::open(path)?)?,
        _ => Vec::new(),
    };
    let dialect = setup.profile.dialect();
    let host = state.options.host.rankers.as_ref();
    let named = host.map(|rankers| rankers.names().into_iter().filter_map(|name| rankers.ranker(name)).collect());
    let rankers: Vec<Arc<dyn Ranker>> = named.unwrap_or_else(|| vec![(setup.rankers)(dialect)]);
    let view = state.control.catalog.view(&setup, &asking.viewer, Shape::new(dialect, Listing::Searchable));
    let session = lock(&view.tools).fork();
    let expected: Vec<Vec<String>> = cases.iter().map(|case| ids(&session, &case.expected)).collect();
    let mut scores = Vec::new();
    let mut results: Vec<CaseResult> = cases
        .iter()
        .map(|case| CaseResult {
            id: case.id.clone(),
            ranks: Vec::new(),
            missing: case.expected.iter().filter(|name| session.find(name).is_none()).cloned().collect(),
        })
        .collect();
    for ranker in rankers {
        let began = Instant::now();
        let ranks: Vec<Option<usize>> =
            cases.iter().zip(&expected).map(|(case, ids)| rank_of(&session, &*ranker, &case.query, ids)).collect();
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        for (result, rank) in results.iter_mut().zip(&ranks) {
            result.ranks.push(RankOfCase { ranker: ranker.name(), rank: *rank });
        }
        scores.push(score(ranker.name(), &ranks, took_us));
    }
    Ok(Cases { cases, scores, results, is_saved: folder.is_some() })
}

/// Returns the identities of tools by their names, in any spelling.
fn ids(session: &Session, names: &[String]) -> Vec<String> {
    names.iter().filter_map(|name| session.find(name)).map(|tool| tool.id().to_owned()).collect()
}

/// Returns the best rank of an expected tool, from 1.
fn rank_of(session: &Session, ranker: &dyn Ranker, query: &str, expected: &[String]) -> Option<usize> {
    let query = Query::new(query).limit(DEPTH).least_confidence(0.0);
    let ranking = ranker.rank(&query, session.catalog(), session.selection()).ok()?;
    ranking.hits.iter().position(|hit| expected.iter().any(|id| id == hit.tool.id())).map(|at| at + 1)
}

/// Returns the quality of a ranker from the ranks of all cases.
fn score(ranker: &'static str, ranks: &[Option<usize>], took_us: u64) -> Score {
    let share = |sum: f64| (!ranks.is_empty()).then(|| (sum / ranks.len() as f64 * 1e4).round() / 1e4);
    let within = |most: usize| share(ranks.iter().flatten().filter(|rank| **rank <= most).count() as f64);
    let mrr = share(ranks.iter().flatten().map(|rank| 1.0 / *rank as f64).sum());
    Score { ranker, recall_at1: within(1), recall_at5: within(5), recall_at10: within(10), mrr, took_us }
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
        let found = score("keyword", &[Some(1), Some(4), None, Some(7)], 5);
        assert_eq!((found.recall_at1, found.recall_at5, found.recall_at10), (Some(0.25), Some(0.5), Some(0.75)));
        assert_eq!(found.mrr, Some(0.3482));
        assert_eq!(score("keyword", &[], 0).recall_at1, None);
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
