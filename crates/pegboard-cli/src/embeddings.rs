//! Vectors of an external embedding model, for commands.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use pegboard_core::{
    Catalog, Ranker, Secret, Selection, ToolVectors, Vectors,
    vectors::{BoxFuture, QueryTexts},
};
use pegboard_llm::embeddings::{Embedder, EmbeddingError, EmbeddingRanker, EndpointSettings};
use pegboard_upstream::{config::servers::is_url, with_causes};
use tokio::runtime::Runtime;

use crate::{
    commands::serve::runtime,
    config::{Config, state::StateFolder},
    error::{CliError, warn},
    output,
    progress::Progress,
};

/// The variable for the API key of `--embeddings`.
const KEY: &str = "PEGBOARD_EMBEDDINGS_KEY";

/// Flags for the embeddings endpoint.
#[derive(Debug, Args)]
pub(crate) struct EmbeddingsArgs {
    /// OpenAI-compatible embeddings endpoint to use for ranking, such as
    /// `http://127.0.0.1:11434/v1`; set its API key in `PEGBOARD_EMBEDDINGS_KEY`
    #[arg(long, value_name = "URL", env = "PEGBOARD_EMBEDDINGS", requires = "embeddings_model")]
    embeddings: Option<String>,

    /// Embedding model to request from the endpoint
    #[arg(long, value_name = "MODEL", env = "PEGBOARD_EMBEDDINGS_MODEL")]
    embeddings_model: Option<String>,

    /// Prefix that the model expects before a query, such as `query: `
    #[arg(long, value_name = "TEXT", requires = "embeddings")]
    embeddings_query_prefix: Option<String>,

    /// Prefix that the model expects before a tool, such as `passage: `
    #[arg(long, value_name = "TEXT", requires = "embeddings")]
    embeddings_document_prefix: Option<String>,

    /// State folder for embeddings and usage data; `none` saves nothing
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,
}

impl EmbeddingsArgs {
    /// Returns whether the flags name an endpoint.
    pub(crate) fn has_endpoint(&self) -> bool {
        self.embeddings.is_some()
    }

    /// Returns the endpoint of the flags, if they name one.
    fn settings(&self) -> Result<Option<EndpointSettings>, CliError> {
        let (Some(url), Some(model)) = (&self.embeddings, &self.embeddings_model) else { return Ok(None) };
        if !is_url(url) {
            // It may hold a password, so it is not repeated.
            return Err(CliError::new("`--embeddings` is not an http or https URL")
                .hint("for example `http://127.0.0.1:11434/v1`"));
        }
        let key = std::env::var(KEY).ok().filter(|key| !key.trim().is_empty());
        Ok(Some(EndpointSettings {
            key: key.map(|key| Secret::new(key.trim())),
            query_prefix: self.embeddings_query_prefix.clone().unwrap_or_default(),
            document_prefix: self.embeddings_document_prefix.clone().unwrap_or_default(),
            ..EndpointSettings::new(url, model)
        }))
    }
}

/// Returns the folder for tool vectors below the state folder.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("embeddings")
}

/// An endpoint, and the tools that are sent to it.
pub(crate) type EndpointChoice = (EndpointSettings, Selection);

/// Returns the configured endpoint: tools that are hidden from all callers are not sent.
pub(crate) fn configured_endpoint(config: &Config) -> Option<EndpointChoice> {
    config.embeddings.clone().map(|settings| (settings, config.gateway.selection.clone()))
}

/// Returns the embedder of a long-running program, if an endpoint is configured.
pub(crate) fn embedder(chosen: Option<EndpointChoice>, state: Option<&Path>) -> Option<Arc<Embedder>> {
    let (settings, selection) = chosen?;
    let made = Embedder::new(settings, state.map(folder).as_deref());
    let log = |error: &EmbeddingError| tracing::error!("embeddings endpoint disabled: {}", with_causes(error));
    made.inspect_err(log).ok().map(|embedder| Arc::new(embedder.with_selection(selection)))
}

/// An embeddings endpoint for commands that end with their answer, and wait for it.
#[derive(Debug)]
pub(crate) struct EmbeddingsClient {
    pub(crate) runtime: Runtime,
    pub(crate) embedder: Arc<Embedder>,
}

impl EmbeddingsClient {
    /// Opens the endpoint of the flags, else the one of the configuration.
    pub(crate) fn open(args: &EmbeddingsArgs, config: &Config) -> Result<Option<Self>, CliError> {
        let Some(settings) = args.settings()?.or_else(|| config.embeddings.clone()) else { return Ok(None) };
        let state = match &args.state {
            Some(flag) => StateFolder::named(flag).resolve(None),
            None => config.state.resolve(None),
        };
        let embedder = Embedder::new(settings, state.as_deref().map(folder).as_deref());
        let embedder = embedder.map_err(|error| CliError::new("cannot use the embeddings endpoint").because(error))?;
        Ok(Some(Self { runtime: runtime()?, embedder: Arc::new(embedder) }))
    }

    /// Gives the ranker the vectors of all tools, as far as they are available, and returns whether
    /// it uses them.
    pub(crate) fn embed_tools(&self, ranker: &dyn Ranker, catalog: &Catalog) -> bool {
        if !ranker.use_vectors(&Arc::default()) {
            warn(&format!("the ranker `{}` does not use embeddings; use `hybrid`", ranker.name()));
            return false;
        }
        let progress = Progress::new(catalog.len(), "embedding the tools");
        let mut publish = |table: &Arc<ToolVectors>| _ = ranker.use_vectors(table);
        let nothing = ToolVectors::default();
        let work = self.embedder.embed_tools(catalog, &nothing, &mut publish);
        let done = self.runtime.block_on(progress.follow(work, || self.embedder.status().embedded));
        drop(progress);
        let status = self.embedder.status();
        if let Err(error) = done {
            let (some, all) = (status.embedded, status.tools);
            warn_missing(
                &format!(
                    "only {some} of {} been embedded",
                    if all == 1 { "1 tool has".to_owned() } else { format!("{all} tools have") }
                ),
                &error,
            );
        } else if status.refused > 0 {
            warn(&format!(
                "the embeddings endpoint rejected {}, even when shortened",
                output::pluralize(status.refused, "tool")
            ));
        }
        true
    }

    /// Returns whether any tool has a vector.
    pub(crate) fn has_tools(&self) -> bool {
        self.embedder.status().embedded > 0
    }

    /// Returns a ranker that requests vectors and has those of all tools, if `ranker` uses vectors.
    pub(crate) fn wrap_ranker(&self, ranker: Arc<dyn Ranker>, catalog: &Catalog) -> Arc<dyn Ranker> {
        if self.embed_tools(&*ranker, catalog) { EmbeddingRanker::wrap_static(ranker, &self.embedder) } else { ranker }
    }

    /// Waits for the vectors of `queries` that a session requested, and warns if they are missing.
    /// Missing vectors of the single requests in a query are ignored.
    pub(crate) fn wait_for_vectors(&self, queries: &[String], soon: BoxFuture<Vectors>) -> Vectors {
        let vectors = self.runtime.block_on(soon);
        // Missing vectors of tools were reported before.
        if self.has_tools() && count_missing(queries.iter(), &vectors) > 0 {
            let problem = self.embedder.status().problem;
            warn(&format!("{WITHOUT}: {}", problem.as_deref().unwrap_or(NOT_TAKEN)));
        }
        vectors
    }

    /// Returns the vectors of a query and of its requests, without caching them.
    pub(crate) fn embed_query(&self, ranker: &dyn Ranker, query: &str) -> Vectors {
        let limit = self.embedder.settings().query_timeout;
        let asked = self.runtime.block_on(self.embedder.embed_query(&query_texts(ranker, query), limit));
        asked.inspect_err(|error| warn_missing(WITHOUT, error)).unwrap_or_default()
    }

    /// Returns the vectors of labelled queries and caches them, because they are measured
    /// repeatedly.
    pub(crate) fn embed_labelled<'q>(&self, ranker: &dyn Ranker, queries: impl Iterator<Item = &'q str>) -> Vectors {
        let limit = self.embedder.settings().timeout;
        let queries: Vec<QueryTexts> = queries.map(|query| query_texts(ranker, query)).collect();
        let asked = self.runtime.block_on(self.embedder.embed_cached_queries(&queries, limit));
        let warn_of = |error: &EmbeddingError| warn_missing("ranking the queries without embeddings", error);
        let Ok(vectors) = asked.inspect_err(warn_of) else { return Vectors::default() };
        let (lacking, all) = (count_missing(queries.iter().map(|query| &query.whole), &vectors), queries.len());
        if lacking > 0 {
            warn(&format!("ranking {lacking} of {all} queries without embeddings: {NOT_TAKEN}"));
        }
        vectors
    }
}

const WITHOUT: &str = "searching without the embedding of the query";

const NOT_TAKEN: &str = "the endpoint rejected it";

/// Returns how many queries have a text but no vector.
fn count_missing<'q>(queries: impl Iterator<Item = &'q String>, vectors: &Vectors) -> usize {
    queries.filter(|query| !query.trim().is_empty() && vectors.get(query).is_none()).count()
}

/// Returns a query and the requests in it that `ranker` compares on their own.
fn query_texts(ranker: &dyn Ranker, query: &str) -> QueryTexts {
    let requests = ranker.requests(query).into_iter().map(str::to_owned).collect();
    QueryTexts { whole: query.to_owned(), requests }
}

fn warn_missing(what: &str, error: &EmbeddingError) {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    warn(&format!("{what}: {}{hint}", with_causes(error)));
}
