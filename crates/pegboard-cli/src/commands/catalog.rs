//! `pegboard catalog`.

use clap::Args;
use pegboard_mcp::json::Fields;
use pegboard_upstream::{Presentation, Upstream};

use crate::{
    Outcome,
    cli::options::LogArgs,
    configured_tools,
    error::{CliError, warn},
    logging, output,
    source::ConfigArgument,
};

#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgument,

    /// State folder with the logins to remote servers; `none` uses no logins
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

pub(crate) fn run(args: &CatalogArgs) -> Result<Outcome, CliError> {
    let source = args.config.source();
    source.announce();
    let config = source.read(args.state.as_deref())?;
    if config.servers.is_empty() {
        let shown = source.path().map(|path| path.display().to_string()).unwrap_or_default();
        return Err(CliError::new(format!("`{shown}` has no servers")).hint("add them under `mcpServers`"));
    }
    logging::start(&args.log, "error", None)?;
    let (lines, failed) = configured_tools::with_servers(config, args.state.as_deref(), |servers, _| {
        let mut lines = String::new();
        servers.iter().for_each(|server| print(server, &mut lines));
        lines
    })?;
    failed.iter().for_each(|failure| warn(failure));
    output::raw(lines.as_bytes())?;
    Ok(if failed.is_empty() { Outcome::Yes } else { Outcome::No })
}

/// Adds one line for each tool: its definition, and its server.
fn print(server: &Upstream, lines: &mut String) {
    let hello = server.hello();
    let own = hello.as_ref().and_then(|hello| hello.instructions.clone());
    let description = server.config().description.clone().or(own);
    let lists = server.lists();
    for tool in Presentation::new(server.config(), &lists).tools {
        let mut fields = Fields::of(&tool.definition(tool.name)).unwrap_or_default().with("server", server.name());
        // A server cannot say in whose name it speaks.
        fields.remove("id");
        if tool.name != tool.item.key {
            // Recorded searches know it by the name at the server.
            fields = fields.with("id", &format!("{}/{}", server.name(), tool.item.key));
        }
        if let Some(deferred) = tool.deferred() {
            fields = fields.with("deferred", &deferred);
        }
        if let Some(description) = &description {
            fields = fields.with("server_description", description);
        }
        lines.push_str(&pegboard_mcp::json::one_line(&fields.to_raw()));
        lines.push('\n');
    }
}
