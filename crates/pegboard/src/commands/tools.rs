//! `pegboard tools`.

use clap::Args;
use pegboard_core::{Catalog, Query, Selection, Tool};
use serde_json::{Value, json};

use super::serve::runtime;
use crate::{
    Outcome,
    cli::options::{Format, PlainOutputArgs},
    contact::{Contact, Start},
    error::{CliError, say},
    output, plain,
    rankers::RankerName,
    source::ConfigArgs,
};

/// Tools that a query finds unless the user wants more.
const LIMIT: usize = 20;

/// The longest description in a table.
const MAX_DESCRIPTION: usize = 300;

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Show only the tools that match this query best
    #[arg(value_name = "QUERY")]
    query: Vec<String>,

    /// Show only the tools of these servers
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    server: Vec<String>,

    /// Maximum number of tools [default: 20 with a query, otherwise all]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    config: ConfigArgs,

    /// State folder of the gateway, with the logins [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    #[command(flatten)]
    output: PlainOutputArgs,
}

pub(crate) fn run(args: &ToolsArgs) -> Result<Outcome, CliError> {
    let source = args.config.source();
    source.announce();
    let catalog = runtime()?.block_on(async {
        let contact = Contact::open(&source, args.state.as_deref(), Start::All).await?;
        let catalog = contact.catalog().await;
        contact.close().await;
        catalog
    })?;
    let selection = Selection::everything().allow_servers(&args.server);
    let tools = chosen(&catalog, &selection, args.query.join(" ").trim(), args.limit)?;
    match args.output.format() {
        Format::Json => output::json(&tools.iter().map(|tool| to_json(tool)).collect::<Vec<_>>())?,
        Format::Text => print(&tools)?,
    }
    if tools.is_empty() {
        say("no tools");
    }
    Ok(if tools.is_empty() { Outcome::No } else { Outcome::Yes })
}

/// All tools, or those that fit a query, the best first.
fn chosen<'a>(
    catalog: &'a Catalog,
    selection: &Selection,
    query: &str,
    limit: Option<usize>,
) -> Result<Vec<&'a Tool>, CliError> {
    let visible = catalog.iter().map(AsRef::as_ref).filter(|tool| selection.allows(tool));
    if query.is_empty() {
        return Ok(visible.take(limit.unwrap_or(usize::MAX)).collect());
    }
    let ranker = RankerName::default().build(None, 0.0);
    let query = Query { limit: limit.unwrap_or(LIMIT), ..Query::new(query) };
    let ranking = ranker.rank(&query, catalog, selection).map_err(|error| CliError::new(error.to_string()))?;
    let ids: Vec<&str> = ranking.hits.iter().map(|hit| hit.tool.id()).collect();
    let mut found: Vec<(usize, &Tool)> =
        visible.filter_map(|tool| Some((ids.iter().position(|id| *id == tool.id())?, tool))).collect();
    found.sort_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, tool)| tool).collect())
}

fn print(tools: &[&Tool]) -> Result<(), CliError> {
    let row = |tool: &&Tool| {
        vec![plain::one_line(tool.name(), MAX_DESCRIPTION), plain::one_line(tool.description(), MAX_DESCRIPTION)]
    };
    if tools.is_empty() {
        return Ok(());
    }
    output::text(&output::table(&["TOOL", "DESCRIPTION"], tools.iter().map(row).collect(), &[]))
}

fn to_json(tool: &Tool) -> Value {
    json!({
        "name": tool.name(),
        "server": tool.server_name(),
        "description": tool.description(),
        "inputSchema": tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema).ok()),
    })
}
