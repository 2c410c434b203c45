//! `pegboard tokens`.

mod tokenizer;

use std::{
    collections::HashSet,
    panic::resume_unwind,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use clap::Args;
use pegboard_core::{
    Catalog, Selection, Tool,
    naming::{Prefixes, Style},
};
use pegboard_discovery::{
    Decision, DialectName, Exposure, Session, Settings, ToolDefinition, estimate_tokens, has_complete_signature,
};
use pegboard_engine::metrics::percentile;
use serde_json::{Value, json};

use self::tokenizer::Tokenizer;
use crate::{
    Outcome, catalogs,
    cli::options::{Format, OutputArgs},
    configured_tools,
    error::CliError,
    output,
    progress::Progress,
    rankers::RankerName,
    source::ConfigArgs,
};

/// Maximum number of queries whose answers are counted.
const QUERIES: usize = 100;

/// Maximum product of queries and tools; larger catalogs get fewer queries, because some rankers
/// take up to a second for one search in them.
const MAX_COMPARISONS: usize = 1_000_000;

/// Minimum number of queries, as far as there are tools; fewer say little about the ninth of ten
/// answers.
const MIN_QUERIES: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// Catalog file to use instead of the configured servers
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["config", "demo"])]
    pub(crate) catalog: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Maximum size of a catalog file
    #[arg(long, value_name = "BYTES", default_value_t = pegboard_core::LoadLimits::default().file_bytes)]
    pub(crate) max_catalog_bytes: usize,

    /// State folder with the logins to remote servers; `none` uses no logins
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &TokensArgs) -> Result<Outcome, CliError> {
    let catalog = match args.catalog.as_slice() {
        [] => configured_tools::catalog_or_demo(&args.config.source(), args.state.as_deref())?.0,
        files => catalogs::read(files, args.max_catalog_bytes)?,
    };
    // All tools at once, and then each query in each dialect.
    let progress = Progress::new(1 + DialectName::ALL.len() * queries(&catalog).len(), "counting tokens");
    let report = Report::measure(&catalog, &Tokenizer::load()?, &progress)?;
    drop(progress);
    match args.output.format() {
        Format::Json => output::json(&report.to_json())?,
        Format::Text => output::text(&report.to_text())?,
    }
    Ok(Outcome::Yes)
}

struct Report {
    tools: usize,
    /// Number of queries for each dialect.
    queries: usize,
    tokens: usize,
    estimate: usize,
    /// The estimate that the figures of `pegboard status` are based on.
    gateway_estimate: usize,
    /// Number of tools whose signature shows the type of every required parameter.
    complete_signatures: usize,
    /// Whether a session over this catalog would use search, and why.
    exposure: Decision,
    rows: Vec<Row>,
}

struct Row {
    dialect: &'static str,
    first_list: usize,
    prompt: usize,
    /// Tokens of the answers to the queries, in ascending order.
    answers: Vec<f64>,
}

impl Row {
    fn measure(
        dialect: DialectName,
        catalog: &Catalog,
        queries: &[String],
        tokenizer: &Tokenizer,
        progress: &Progress,
    ) -> Result<Self, CliError> {
        let count = |text: &str| tokenizer.count(text);
        let ranker = Arc::from(RankerName::of(dialect).build(None, Settings::default().token_bonus));
        let everything = Selection::everything();
        let session = Session::new(dialect, Settings::default(), catalog.clone(), everything, ranker);
        let mut session = session.map_err(|error| CliError::new(error.to_string()))?;
        let list: Vec<Value> = session.visible().iter().map(|tool| tool.to_json()).collect();
        let first_list = count(&Value::from(list).to_string());
        // `gateway` lists a small catalog whole, and has no search then.
        let search = session.search_name().map(str::to_owned);
        let mut answers: Vec<f64> = Vec::new();
        for query in queries {
            if let Some(search) = &search {
                answers.push(count(&session.call(search, &json!({"query": query})).reply.to_text()) as f64);
            }
            progress.step();
        }
        answers.sort_by(f64::total_cmp);
        Ok(Self { dialect: dialect.as_str(), first_list, prompt: count(&session.prompt()), answers })
    }
}

/// Returns the tokens of all definitions, counted and estimated.
fn count_all(catalog: &Catalog, tokenizer: &Tokenizer) -> (usize, usize) {
    let definition = |tool: &Arc<Tool>| ToolDefinition::of(tool, tool.name()).to_json();
    let all = Value::from(catalog.iter().map(definition).collect::<Vec<_>>()).to_string();
    (tokenizer.count(&all), estimate_tokens(&all))
}

/// Returns the estimated tokens of all definitions as a gateway counts them: one by one, with its
/// names.
fn estimate_in_gateway(catalog: &Catalog) -> usize {
    let servers: HashSet<&str> = catalog.iter().filter_map(|tool| tool.server_name()).collect();
    let style = Style { is_prefixed: Prefixes::Auto.applies_to(servers.len()), ..Style::default() };
    let tokens = |tool: &Arc<Tool>| {
        let name = match tool.server_name() {
            Some(server) => style.name(server, tool.bare_name()),
            None => tool.name().to_owned(),
        };
        let definition = ToolDefinition { name, ..ToolDefinition::of(tool, tool.name()) };
        estimate_tokens(&definition.to_json().to_string())
    };
    catalog.iter().map(tokens).sum()
}

impl Report {
    /// Measures the catalog and, at the same time, each dialect.
    fn measure(catalog: &Catalog, tokenizer: &Tokenizer, progress: &Progress) -> Result<Self, CliError> {
        let queries = queries(catalog);
        let next = AtomicUsize::new(0);
        let measure_dialects = || {
            let mut rows: Vec<(usize, Result<Row, CliError>)> = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(dialect) = DialectName::ALL.get(at) else { return rows };
                rows.push((at, Row::measure(*dialect, catalog, &queries, tokenizer, progress)));
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (mut rows, (tokens, estimate)) = thread::scope(|scope| {
            let others: Vec<_> = (1..cores).map(|_| scope.spawn(measure_dialects)).collect();
            let all = count_all(catalog, tokenizer);
            progress.step();
            let mut rows = measure_dialects();
            for thread in others {
                rows.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            (rows, all)
        });
        rows.sort_by_key(|(at, _)| *at);
        let rows = rows.into_iter().map(|(_, row)| row).collect::<Result<Vec<Row>, CliError>>()?;
        let complete_signatures = catalog.iter().filter(|tool| has_complete_signature(tool)).count();
        let exposure = Exposure::default().decide(catalog, &Selection::everything());
        let (tools, queries) = (catalog.len(), queries.len());
        let gateway_estimate = estimate_in_gateway(catalog);
        Ok(Self { tools, queries, tokens, estimate, gateway_estimate, complete_signatures, exposure, rows })
    }

    fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let (p50, p90) = (percentile(&row.answers, 0.5), percentile(&row.answers, 0.9));
            let figures = json!({
                "first_list": row.first_list,
                "prompt": row.prompt,
                "answer_p50": output::number(p50),
                "answer_p90": output::number(p90),
            });
            (row.dialect.to_owned(), figures)
        };
        json!({
            "tools": self.tools,
            "queries": self.queries,
            "tokens": self.tokens,
            "estimate": self.estimate,
            "gateway_estimate": self.gateway_estimate,
            "complete_signatures": self.complete_signatures,
            "exposure": {"search": self.exposure.is_on, "reason": self.exposure.reason},
            "dialects": self.rows.iter().map(row).collect::<serde_json::Map<String, Value>>(),
        })
    }

    fn to_text(&self) -> String {
        let row = |row: &Row| {
            let share = 100.0 * row.first_list as f64 / self.tokens.max(1) as f64;
            let mark = if row.dialect == DialectName::Bridge.as_str() { " (default)" } else { "" };
            vec![
                format!("{}{mark}", row.dialect),
                output::count(row.first_list as u64),
                format!("{share:.1} %"),
                output::count(row.prompt as u64),
                format!("{}", percentile(&row.answers, 0.5)),
                format!("{}", percentile(&row.answers, 0.9)),
            ]
        };
        let head = ["DIALECT", "FIRST LIST", "OF ALL", "PROMPT", "ANSWER P50", "ANSWER P90"];
        let table = output::table(&head, self.rows.iter().map(row).collect(), &[1, 2, 3, 4, 5]);
        let Self { tools, queries, tokens, estimate, gateway_estimate, complete_signatures, exposure, .. } = self;
        let search = if exposure.is_on { "on" } else { "off" };
        let asked = match *queries {
            fewer if fewer < QUERIES.min(*tools) => {
                format!("{fewer} queries for each dialect, instead of {QUERIES} in catalogs of up to 10,000 tools\n")
            }
            _ => String::new(),
        };
        let number = |number: &usize| output::count(*number as u64);
        let summary = format!(
            "{}, {} tokens all at once (estimate: {}), {} with a complete signature",
            output::pluralize(*tools, "tool"),
            number(tokens),
            number(estimate),
            number(complete_signatures),
        );
        let as_status = format!(
            "as `pegboard status` counts them, with the names of a gateway: {} (estimate)",
            number(gateway_estimate)
        );
        let search = format!("automatic tool search: {search} ({})", exposure.reason);
        let lines = [summary, as_status, search].map(|line| output::wrap(&line, 0, 0, output::width()));
        format!("{}\n{asked}{table}", lines.join("\n"))
    }
}

/// Returns the words of tool names throughout the catalog, as queries of users who want these
/// tools.
fn queries(catalog: &Catalog) -> Vec<String> {
    let most = query_count(catalog.len());
    let step = (catalog.len() / most).max(1);
    let words = |tool: &Arc<Tool>| {
        let words: Vec<&str> =
            tool.name().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        words.join(" ")
    };
    catalog.iter().step_by(step).take(most).map(words).collect()
}

/// Returns the number of queries for a catalog of so many tools.
fn query_count(tools: usize) -> usize {
    (MAX_COMPARISONS / tools.max(1)).clamp(MIN_QUERIES, QUERIES)
}

#[cfg(test)]
mod tests {
    use pegboard_core::RawTool;

    use super::*;

    #[test]
    fn large_catalogs_are_asked_fewer_queries() {
        let counts = [0, 1, 10_000, 20_000, 50_000, 1_000_000].map(query_count);
        assert_eq!(counts, [100, 100, 100, 50, 20, 20]);
    }

    /// The error about an unknown tool is not the answer to a search.
    #[test]
    fn a_catalog_that_is_listed_whole_has_no_answers() {
        let tool = RawTool { name: "read".to_owned(), description: "Reads".to_owned(), ..RawTool::default() };
        let catalog = Catalog::from_tools(vec![tool]).0;
        let (tokenizer, progress) = (Tokenizer::load().expect("a tokenizer"), Progress::new(1, "counting"));
        let answers = |dialect: DialectName| {
            let row = Row::measure(dialect, &catalog, &["read".to_owned()], &tokenizer, &progress);
            row.expect("a row").answers.len()
        };
        assert_eq!(DialectName::ALL.map(answers), [1, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn the_estimate_for_a_gateway_has_its_names_and_nothing_else() {
        let tool = |server: &str, name: &str| RawTool {
            name: name.to_owned(),
            server: Some(server.to_owned()),
            description: "Reads".to_owned(),
            ..RawTool::default()
        };
        let check = |tools: Vec<RawTool>, names: &[&str]| {
            let schema = json!({"type": "object", "properties": {}});
            let definition = |name: &&str| json!({"name": name, "description": "Reads", "inputSchema": schema});
            let expected: usize = names.iter().map(|name| estimate_tokens(&definition(name).to_string())).sum();
            assert_eq!(estimate_in_gateway(&Catalog::from_tools(tools).0), expected, "{names:?}");
        };
        check(vec![tool("notes", "read")], &["read"]);
        check(vec![tool("notes", "read"), tool("files", "stat")], &["notes___read", "files___stat"]);
    }
}
