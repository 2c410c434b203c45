//! `pegboard search`.

mod args;
mod report;
pub(crate) mod why_not;

use std::{
    borrow::Cow,
    io::{Read, stdin},
    path::Path,
    sync::Arc,
    time::Instant,
};

use pegboard_core::{Catalog, Query, Ranker, Ranking, Selection};

pub(crate) use self::args::SearchArgs;
use self::report::Report;
use super::serve::runtime;
use crate::{
    Outcome,
    cache::CachedCatalog,
    catalogs,
    cli::options::Format,
    config::Config,
    embeddings::EmbeddingsClient,
    error::CliError,
    gateway_client::{GatewayClient, ServersToStart},
    models, output,
    progress::Progress,
    source::Source,
    usage,
};

/// Maximum size of a query file; every ranker rejects far shorter queries.
const MAX_QUERY_FILE_BYTES: usize = 16 << 20;

pub(crate) fn run(args: &SearchArgs) -> Result<Outcome, CliError> {
    let source = match args.source.catalog.as_slice() {
        [] => args.source.config.source(),
        // A file is searched as it is, with the settings of a configuration that is named.
        _ => args.source.config.config.clone().map_or(Source::Demo, Source::Named),
    };
    let config = source.read_offline(args.embeddings.state.as_deref())?;
    let text = query_text(args)?;
    if text.trim().is_empty() {
        return Err(
            CliError::new("the query is blank").hint("describe what the tool should do, for example `create an issue`")
        );
    }
    let Prepared { catalog, ranker, unsaved } = prepare(args, &source, &config)?;
    let query = Query {
        limit: args.limit.or(config.limit).unwrap_or(10),
        threshold: args.threshold.or(config.threshold).unwrap_or(0.0),
        explain: args.explain,
        least_confidence: args.least_confidence,
        ..Query::new(&text)
    };
    let asked = EmbeddingsClient::open(&args.embeddings, &config)?;
    // Without vectors of tools that of the query is of no use.
    let asked = asked.filter(|asked| asked.embed_tools(&*ranker, &catalog) && asked.has_tools());
    let vectors = asked.map(|asked| asked.embed_query(&*ranker, &text));
    let query = query.vectors(vectors.as_ref());
    let start = Instant::now();
    let ranking = rank(&*ranker, &query, &catalog)?;
    let took_us = start.elapsed().as_micros();
    let why_not = args.why_not.as_deref();
    let why_not = why_not.map(|name| why_not::why_not(name, &*ranker, &query, &catalog, &ranking)).transpose()?;
    let found = !ranking.hits.is_empty();
    let report = Report::new(&query, &*ranker, &ranking, took_us, why_not);
    match args.output.format() {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&report.to_text(&catalog))?,
    }
    // The user need not wait for this.
    if let Some(unsaved) = unsaved {
        unsaved.save(&catalog);
    }
    // The process ends here. To free each of 100,000 tools would take longer than to search them.
    std::mem::forget((catalog, ranker));
    Ok(if found { Outcome::Yes } else { Outcome::No })
}

/// The tools to search, and a ranker with their index.
struct Prepared {
    catalog: Catalog,
    ranker: Arc<dyn Ranker>,
    /// The catalog to cache for the next search.
    unsaved: Option<CachedCatalog>,
}

fn prepare(args: &SearchArgs, source: &Source, config: &Config) -> Result<Prepared, CliError> {
    let files = if args.source.catalog.is_empty() { &config.catalogs } else { &args.source.catalog };
    let model = || models::read(args.model.model.as_deref().or(config.model.as_deref()));
    let name = args.ranker.or(config.ranker).unwrap_or_default();
    let is_plain = args.usage.is_none() && !args.embeddings.has_endpoint() && config.embeddings.is_none();
    if is_plain
        && !files.is_empty()
        && let Some(ranker) = name.build_with_kept_index(model()?.as_ref())
    {
        let has_schemas = args.explain || args.why_not.is_some();
        let shared = Arc::clone(&ranker);
        let cached = CachedCatalog::open(&args.cache, files, args.source.max_catalog_bytes, shared, has_schemas);
        if let Some(mut cached) = cached {
            if let Some(catalog) = cached.load() {
                return Ok(Prepared { catalog, ranker, unsaved: None });
            }
            let catalog = cached.read_files()?;
            let _progress = Progress::waiting(&format!("indexing {}", output::pluralize(catalog.len(), "tool")));
            ranker.prepare(&catalog);
            return Ok(Prepared { catalog, ranker, unsaved: Some(cached) });
        }
    }
    let catalog = catalog(args, source, config)?;
    let _progress = Progress::waiting(&format!("indexing {}", output::pluralize(catalog.len(), "tool")));
    let ranker: Arc<dyn Ranker> = Arc::from(name.build(model()?.as_ref(), config.gateway.discovery.token_bonus));
    let ranker = match &args.usage {
        Some(caller) => with_habits(ranker, caller, args, config)?,
        None => ranker,
    };
    ranker.prepare(&catalog);
    Ok(Prepared { catalog, ranker, unsaved: None })
}

fn query_text(args: &SearchArgs) -> Result<Cow<'_, str>, CliError> {
    let Some(path) = &args.query_file else {
        return Ok(Cow::Owned(args.query.join(" ")));
    };
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        stdin()
            .take(MAX_QUERY_FILE_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| CliError::read(Path::new("standard input"), error))?;
        bytes
    } else {
        catalogs::read_bounded(path, MAX_QUERY_FILE_BYTES)?
    };
    let mut text = String::from_utf8(bytes).map_err(|error| CliError::new("the query is not UTF-8").because(error))?;
    // Editors end files with a line break that is not part of the query.
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(Cow::Owned(text))
}

/// Returns the tools to search: of the named files, else of the configured servers, else of the
/// demo.
fn catalog(args: &SearchArgs, source: &Source, config: &Config) -> Result<Catalog, CliError> {
    let files = if args.source.catalog.is_empty() { &config.catalogs } else { &args.source.catalog };
    if !files.is_empty() {
        return catalogs::read(files, args.source.max_catalog_bytes);
    }
    source.announce();
    if config.servers.is_empty() {
        return Ok(pegboard_demo::catalog()?);
    }
    let state = args.embeddings.state.as_deref();
    runtime()?.block_on(async {
        let client = GatewayClient::open(source, state, ServersToStart::All).await?;
        let catalog = client.catalog().await;
        client.close().await;
        catalog
    })
}

/// Returns `ranker` with the habits of a caller for this catalog.
fn with_habits(
    ranker: Arc<dyn Ranker>,
    caller: &str,
    args: &SearchArgs,
    config: &Config,
) -> Result<Arc<dyn Ranker>, CliError> {
    let book = usage::read(&config.state, args.embeddings.state.as_deref())?;
    let catalog = usage::catalog_of(args.source.config.config.as_deref(), &args.source.catalog);
    let name = ranker.name();
    usage::with_habits(ranker, &book, (&catalog, caller), config.usage.unwrap_or_default()).ok_or_else(|| {
        CliError::new(format!("the ranker `{name}` does not support learned usage")).hint("`hybrid` and `lexical` do")
    })
}

fn rank(ranker: &dyn Ranker, query: &Query<'_>, catalog: &Catalog) -> Result<Ranking, CliError> {
    ranker.rank(query, catalog, &Selection::everything()).map_err(|error| {
        use pegboard_core::QueryError;
        let cli = CliError::new(error.to_string());
        match error {
            QueryError::InvalidRegex { .. } => {
                cli.hint("escape literal characters with a backslash, or shorten the pattern")
            }
            QueryError::TooLong { .. } => cli.hint("a few words are enough to find a tool"),
            _ => cli,
        }
    })
}
