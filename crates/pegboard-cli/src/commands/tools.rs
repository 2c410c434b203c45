//! `pegboard tools`.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use clap::Args;
use pegboard_config::keys::did_you_mean;
use pegboard_core::{Catalog, Query, Selection, Tool};
use pegboard_discovery::{Callee, DialectName, Session, Settings};
use serde_json::{Value, json};

use super::serve::runtime;
use crate::{
    Outcome,
    cli::options::{Format, PlainOutputArgs},
    error::{CliError, say},
    gateway_client::{GatewayClient, ServersToStart},
    output,
    rankers::RankerName,
    source::ConfigArgs,
    terminal_text,
};

/// Default number of tools for a query.
const LIMIT: usize = 20;

/// Number of nearest tools that are named if none matches well enough.
const NEAREST: usize = 3;

/// Maximum length of a description in a table, of a parameter's type, and of the description of a
/// single tool.
const MAX_DESCRIPTION: usize = 300;
const MAX_KIND: usize = 60;
const MAX_DETAILS: usize = 4000;

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Show only the tools that match this query best, or the parameters of the tool with this name
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
    let query = args.query.join(" ");
    let query = query.trim();
    if query.is_empty() && !args.query.is_empty() {
        return Err(CliError::new("the query is blank").hint("`pegboard tools` without a query lists all tools"));
    }
    let source = args.config.source();
    source.announce();
    let catalog = runtime()?.block_on(async {
        let client = GatewayClient::open(&source, args.state.as_deref(), ServersToStart::All).await?;
        let catalog = client.catalog().await;
        client.close().await;
        catalog
    })?;
    check_servers(&args.server, &catalog)?;
    let selection = Selection::everything().allow_servers(&args.server);
    let chosen = choose(&catalog, &selection, query, args.limit)?;
    match args.output.format() {
        Format::Json => output::json(&chosen.tools().iter().map(|tool| to_json(tool)).collect::<Vec<_>>())?,
        Format::Text => match &chosen {
            ToolChoice::Named(tool) => output::text(&details(tool))?,
            ToolChoice::Several(tools) => print(tools)?,
            ToolChoice::Nothing(_) => {}
        },
    }
    if let ToolChoice::Nothing(nearest) = &chosen {
        say(&nothing(query, nearest));
    }
    Ok(if chosen.tools().is_empty() { Outcome::No } else { Outcome::Yes })
}

/// The tools to show.
enum ToolChoice {
    /// The tool of this name.
    Named(Arc<Tool>),
    /// All tools, or those that a query finds, the best first.
    Several(Vec<Arc<Tool>>),
    /// No tool; the names of the nearest.
    Nothing(Vec<String>),
}

impl ToolChoice {
    fn tools(&self) -> &[Arc<Tool>] {
        match self {
            Self::Named(tool) => std::slice::from_ref(tool),
            Self::Several(tools) => tools,
            Self::Nothing(_) => &[],
        }
    }
}

/// Checks that these servers have tools.
fn check_servers(servers: &[String], catalog: &Catalog) -> Result<(), CliError> {
    let known: BTreeSet<&str> = catalog.iter().filter_map(|tool| tool.server_name()).collect();
    let is_unknown =
        |server: &&String| !server.contains('*') && !known.iter().any(|it| it.eq_ignore_ascii_case(server));
    let Some(server) = servers.iter().find(is_unknown) else { return Ok(()) };
    let error = CliError::new(format!("no server `{server}` with tools"));
    Err(match did_you_mean(server, known.iter().copied()) {
        Some(near) => error.hint(near),
        None => error.hint(format!("servers with tools: {}", Vec::from_iter(known).join(", "))),
    })
}

/// Returns all tools, the one of which the query is the name, or those that match it.
fn choose(catalog: &Catalog, selection: &Selection, query: &str, limit: Option<usize>) -> Result<ToolChoice, CliError> {
    let visible = || catalog.iter().filter(|tool| selection.allows(tool)).cloned();
    if query.is_empty() {
        let tools: Vec<Arc<Tool>> = visible().take(limit.unwrap_or(usize::MAX)).collect();
        return Ok(if tools.is_empty() { ToolChoice::Nothing(Vec::new()) } else { ToolChoice::Several(tools) });
    }
    if !query.contains(char::is_whitespace)
        && let Callee::Direct(tool) = session(catalog.clone(), selection.clone()).resolve(query, &Value::Null)
    {
        return Ok(ToolChoice::Named(tool));
    }
    let ranker = RankerName::default().build(None, 0.0);
    let query = Query { limit: limit.unwrap_or(LIMIT), ..Query::new(query) };
    let ranking = ranker.rank(&query, catalog, selection).map_err(|error| CliError::new(error.to_string()))?;
    if ranking.hits.is_empty() {
        let nearest = ranking.withheld.iter().take(NEAREST).map(|hit| hit.tool.name().to_owned());
        return Ok(ToolChoice::Nothing(nearest.collect()));
    }
    let ids: Vec<&str> = ranking.hits.iter().map(|hit| hit.tool.id()).collect();
    let place = |tool: &Arc<Tool>| ids.iter().position(|id| *id == tool.id());
    let mut found: Vec<(usize, Arc<Tool>)> = visible().filter_map(|tool| Some((place(&tool)?, tool))).collect();
    found.sort_by_key(|(place, _)| *place);
    Ok(ToolChoice::Several(found.into_iter().map(|(_, tool)| tool).collect()))
}

/// Returns a session over the tools of a catalog, to find one by any spelling of its name.
pub(crate) fn session(catalog: Catalog, selection: Selection) -> Session {
    let (dialect, ranker) = (DialectName::Bridge, RankerName::Keyword.build(None, 0.0));
    Session::expecting(dialect, Settings::default(), catalog, selection, ranker.into())
}

/// Returns why nothing is shown.
fn nothing(query: &str, nearest: &[String]) -> String {
    match (query.is_empty(), nearest.is_empty()) {
        (true, _) => "no tools".to_owned(),
        (false, true) => format!("no tool matches `{query}`; `pegboard tools` lists all"),
        (false, false) => format!("no tool matches `{query}` well enough; nearest: {}", nearest.join(", ")),
    }
}

fn print(tools: &[Arc<Tool>]) -> Result<(), CliError> {
    let row = |tool: &Arc<Tool>| {
        vec![
            terminal_text::one_line(tool.name(), MAX_DESCRIPTION),
            terminal_text::one_line(tool.description(), MAX_DESCRIPTION),
        ]
    };
    if tools.is_empty() {
        return Ok(());
    }
    output::text(&output::table(&["TOOL", "DESCRIPTION"], tools.iter().map(row).collect(), &[]))
}

/// Returns the parameters of a tool in one line, for an error about its arguments.
pub(crate) fn parameters(tool: &Tool) -> String {
    let schema = schema_of(tool);
    let required = required_of(&schema);
    let parameter = |(name, schema): (&String, &Value)| {
        let is_required = if required.contains(name.as_str()) { ", required" } else { "" };
        format!(
            "`{}` ({}{is_required})",
            terminal_text::one_line(name, MAX_KIND),
            terminal_text::one_line(&kind_of(schema), MAX_KIND)
        )
    };
    let parameters: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(parameter).collect();
    match parameters.is_empty() {
        true => format!("`{}` has no parameters", tool.name()),
        false => format!("parameters of `{}`: {}", tool.name(), parameters.join(", ")),
    }
}

fn schema_of(tool: &Tool) -> Value {
    tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok()).unwrap_or_default()
}

fn required_of(schema: &Value) -> HashSet<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Renders everything that is needed to call a tool.
fn details(tool: &Tool) -> String {
    let schema = schema_of(tool);
    let required = required_of(&schema);
    let row = |(name, schema): (&String, &Value)| {
        let is_required = required.contains(&name.as_str());
        vec![
            terminal_text::one_line(name, MAX_DESCRIPTION),
            terminal_text::one_line(&kind_of(schema), MAX_KIND),
            if is_required { "required" } else { "" }.to_owned(),
            terminal_text::one_line(schema["description"].as_str().unwrap_or_default(), MAX_DESCRIPTION),
        ]
    };
    let rows: Vec<Vec<String>> = schema["properties"].as_object().into_iter().flatten().map(row).collect();
    let description = terminal_text::one_line(tool.description(), MAX_DETAILS);
    let description = output::wrap(&description, 0, 0, output::width());
    let head = format!("{}\n{description}\n", terminal_text::clean(tool.name()));
    match rows.is_empty() {
        true => format!("{head}\nno parameters\n"),
        false => format!("{head}\n{}", output::table(&["PARAMETER", "TYPE", "", "DESCRIPTION"], rows, &[])),
    }
}

/// Returns the type of a parameter in a word, or its allowed values.
fn kind_of(schema: &Value) -> String {
    let values = schema["enum"].as_array().into_iter().flatten();
    let values: Vec<String> =
        values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
    if !values.is_empty() {
        return values.join("|");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => match schema["items"]["type"].as_str() {
            Some(item) => format!("{item}[]"),
            None => kind.clone(),
        },
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    }
}

fn to_json(tool: &Tool) -> Value {
    json!({
        "name": tool.name(),
        "server": tool.server_name(),
        "description": tool.description(),
        "inputSchema": tool.input_schema().and_then(|schema| serde_json::from_str::<Value>(schema).ok()),
    })
}
