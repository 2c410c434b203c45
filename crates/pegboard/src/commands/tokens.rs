//! `pegboard tokens`.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use pegboard_core::{Catalog, Selection, Tool};
use pegboard_discovery::{
    Decision, DialectName, Exposure, Session, Settings, ToolDefinition, estimate_tokens, has_complete_signature,
};
use pegboard_engine::metrics::percentile;
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

use crate::{
    Outcome, catalogs,
    cli::options::{Format, OutputArgs},
    configured,
    error::CliError,
    output,
    progress::Progress,
    rankers::RankerName,
    source::ConfigArgs,
};

/// Queries whose answers are counted.
const QUERIES: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// Catalog file to use instead of the configured servers
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["config", "demo"])]
    pub(crate) catalog: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// State folder with the logins to remote servers; `none` uses no logins
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(args: &TokensArgs) -> Result<Outcome, CliError> {
    let catalog = match args.catalog.as_slice() {
        [] => configured::catalog_or_demo(&args.config.source(), args.state.as_deref())?.0,
        files => catalogs::read(files, pegboard_core::Limits::default().file_bytes)?,
    };
    // All tools at once, and then each query in each dialect.
    let progress = Progress::new(1 + DialectName::ALL.len() * queries(&catalog).len(), "counting tokens");
    let bpe =
        tiktoken_rs::o200k_base().map_err(|error| CliError::new(format!("cannot load the tokenizer: {error}")))?;
    let report = Report::measure(&catalog, &bpe, &progress)?;
    drop(progress);
    match args.output.format() {
        Format::Json => output::json(&report.to_json())?,
        Format::Text => output::text(&report.to_text())?,
    }
    Ok(Outcome::Yes)
}

struct Report {
    tools: usize,
    tokens: usize,
    estimate: usize,
    /// Tools whose signature tells the type of every required parameter.
    complete_signatures: usize,
    /// Whether a conversation over this catalog would search, and why.
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

impl Report {
    fn measure(catalog: &Catalog, bpe: &CoreBPE, progress: &Progress) -> Result<Self, CliError> {
        let count = |text: &str| bpe.encode_ordinary(text).len();
        let definition = |tool: &Arc<Tool>| ToolDefinition::of(tool, tool.name()).to_json();
        let all = Value::from(catalog.iter().map(definition).collect::<Vec<_>>()).to_string();
        let (tokens, estimate) = (count(&all), estimate_tokens(&all));
        progress.step();
        let queries = queries(catalog);
        let mut rows = Vec::new();
        for dialect in DialectName::ALL {
            let ranker = Arc::from(RankerName::of(dialect).build(None, Settings::default().token_bonus));
            let everything = Selection::everything();
            let session = Session::new(dialect, Settings::default(), catalog.clone(), everything, ranker);
            let mut session = session.map_err(|error| CliError::new(error.to_string()))?;
            let list: Vec<Value> = session.visible().iter().map(|tool| tool.to_json()).collect();
            let first_list = count(&Value::from(list).to_string());
            let search = search_tool(dialect);
            let mut answers: Vec<f64> = queries
                .iter()
                .map(|query| {
                    progress.step();
                    count(&session.call(search, &json!({"query": query})).reply.to_text()) as f64
                })
                .collect();
            answers.sort_by(f64::total_cmp);
            rows.push(Row { dialect: dialect.as_str(), first_list, prompt: count(&session.prompt()), answers });
        }
        let complete_signatures = catalog.iter().filter(|tool| has_complete_signature(tool)).count();
        let exposure = Exposure::default().decide(catalog, &Selection::everything());
        Ok(Self { tools: catalog.len(), tokens, estimate, complete_signatures, exposure, rows })
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
            "tokens": self.tokens,
            "estimate": self.estimate,
            "complete_signatures": self.complete_signatures,
            "exposure": {"search": self.exposure.is_on, "reason": self.exposure.reason},
            "dialects": self.rows.iter().map(row).collect::<serde_json::Map<String, Value>>(),
        })
    }

    fn to_text(&self) -> String {
        let row = |row: &Row| {
            let share = 100.0 * row.first_list as f64 / self.tokens.max(1) as f64;
            vec![
                row.dialect.to_owned(),
                row.first_list.to_string(),
                format!("{share:.1} %"),
                row.prompt.to_string(),
                format!("{}", percentile(&row.answers, 0.5)),
                format!("{}", percentile(&row.answers, 0.9)),
            ]
        };
        let head = ["DIALECT", "FIRST LIST", "OF ALL", "PROMPT", "ANSWER P50", "ANSWER P90"];
        let table = output::table(&head, self.rows.iter().map(row).collect(), &[1, 2, 3, 4, 5]);
        let Self { tools, tokens, estimate, complete_signatures, exposure, .. } = self;
        let search = if exposure.is_on { "on" } else { "off" };
        format!(
            "{}, {tokens} tokens all at once (estimate: {estimate}), \
             {complete_signatures} with a complete signature\nautomatic tool search: {search} ({})\n{table}",
            output::counted(*tools, "tool"),
            exposure.reason
        )
    }
}

fn search_tool(dialect: DialectName) -> &'static str {
    match dialect {
        DialectName::Explicit | DialectName::Bridge => "search_tools",
        DialectName::Gateway => "search_available_tools",
        DialectName::Select | DialectName::Ranked => "tool_search",
        DialectName::Schema => "ToolSearch",
        // It has no search; nobody can choose it here.
        DialectName::Code => "get_api_spec",
    }
}

/// The words of every so many tools' names: what somebody would type who wants them.
fn queries(catalog: &Catalog) -> Vec<String> {
    let step = (catalog.len() / QUERIES).max(1);
    let words = |tool: &Arc<Tool>| {
        let words: Vec<&str> =
            tool.name().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        words.join(" ")
    };
    catalog.iter().step_by(step).take(QUERIES).map(words).collect()
}
