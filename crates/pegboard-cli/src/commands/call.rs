//! `pegboard call`.

mod arguments;

use std::{
    io::{IsTerminal as _, Read as _, stdin, stdout},
    sync::Arc,
};

use clap::Args;
use pegboard_core::{Selection, Tool};
use pegboard_discovery::{Callee, Session};
use serde_json::Value;

use super::{serve::runtime, tools};
use crate::{
    Outcome,
    cli::options::{Format, PlainOutputArgs},
    config::Config,
    error::{CliError, say},
    gateway_client::{EndpointError, GatewayClient, GatewayClientError, ServersToStart, ToolCallResult},
    output,
    source::{ConfigArgs, Source},
    terminal_text,
};

/// Maximum size of arguments on standard input.
const MAX_INPUT: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Tool name, in any spelling
    #[arg(value_name = "TOOL")]
    tool: String,

    /// Arguments: `key=value` pairs, a JSON object, or both; `-` alone reads a JSON object from standard input
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,

    #[command(flatten)]
    config: ConfigArgs,

    /// State folder of the gateway, with the logins [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    state: Option<String>,

    #[command(flatten)]
    output: PlainOutputArgs,
}

pub(crate) fn run(args: &CallArgs) -> Result<Outcome, CliError> {
    let source = args.config.source();
    source.announce();
    let given = match args.arguments.as_slice() {
        [one] if one == "-" => vec![read_input()?],
        given => given.to_vec(),
    };
    runtime()?.block_on(async {
        let client = open(&source, args.state.as_deref(), &args.tool).await?;
        let called = call(&client, &args.tool, &given).await;
        client.close().await;
        match called? {
            CallOutcome::Answered(name, answer) => print(&name, &answer, args.output.format()),
            CallOutcome::Lost(error) => {
                error.print();
                Ok(Outcome::No)
            }
        }
    })
}

/// Opens a gateway that can call the tool. If none runs, only the tool's server is started, if its
/// name or the cached tool lists say which one that is.
async fn open(source: &Source, state: Option<&str>, name: &str) -> Result<GatewayClient, CliError> {
    if let Some(running) = GatewayClient::running(source, state).await? {
        return Ok(running);
    }
    let config = source.read(state)?;
    if source.path().is_some()
        && let Some(server) = server_of(name, &config, source, state).await?
    {
        let client = GatewayClient::start(config.clone(), source, state, &ServersToStart::Only(server.clone())).await?;
        let is_there = session(&client).await.is_ok_and(|session| resolve(&session, name).is_some());
        if is_there || client.has_failed(&server) {
            return Ok(client);
        }
        client.close().await;
    }
    GatewayClient::start(config, source, state, &ServersToStart::Unknown).await
}

/// Returns the server that has the tool, by the cached tool lists or by the name.
async fn server_of(
    name: &str,
    config: &Config,
    source: &Source,
    state: Option<&str>,
) -> Result<Option<String>, CliError> {
    let known = GatewayClient::start(config.clone(), source, state, &ServersToStart::None).await?;
    let session = session(&known).await;
    known.close().await;
    if let Some(CallTarget::Tool(tool)) = resolve(&session?, name) {
        return Ok(tool.server_name().map(str::to_owned));
    }
    let servers = config.servers.iter().filter(|server| server.is_enabled).map(|server| server.name.as_str());
    Ok(server_in(name_in(name), servers).map(str::to_owned))
}

/// Returns the server whose name a tool's name begins with.
fn server_in<'a>(name: &str, servers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let name = name.strip_prefix("mcp__").unwrap_or(&name);
    let is_before = |server: &&str| {
        let rest = name.strip_prefix(&server.to_lowercase());
        rest.is_some_and(|rest| ["__", "/", ":", "."].iter().any(|sign| rest.starts_with(sign)))
    };
    servers.filter(is_before).max_by_key(|server| server.len())
}

fn read_input() -> Result<String, CliError> {
    let mut text = String::new();
    let read = stdin().take(MAX_INPUT + 1).read_to_string(&mut text);
    read.map_err(|error| CliError::new("cannot read the arguments from standard input").because(error))?;
    if text.len() as u64 > MAX_INPUT || !text.trim_start().starts_with('{') {
        return Err(CliError::new(format!("standard input is not a JSON object of at most {MAX_INPUT} bytes")));
    }
    Ok(text)
}

/// The tool that a name means.
enum CallTarget {
    /// A tool of a server.
    Tool(Arc<Tool>),
    /// A tool of the gateway itself, such as `search_tools`.
    Own,
}

/// The outcome of a call.
enum CallOutcome {
    /// The tool with this name answered.
    Answered(String, ToolCallResult),
    /// The call was interrupted; the tool may have run.
    Lost(CliError),
}

/// Returns a session over the tools of a gateway, to find one by any spelling of its name.
async fn session(client: &GatewayClient) -> Result<Session, CliError> {
    Ok(tools::session(client.catalog().await?, Selection::everything()))
}

fn resolve(session: &Session, name: &str) -> Option<CallTarget> {
    match [name, name_in(name)].map(|name| session.resolve(name, &Value::Null)) {
        [Callee::Direct(tool), _] | [_, Callee::Direct(tool)] => Some(CallTarget::Tool(tool)),
        [_, Callee::Meta(_)] => Some(CallTarget::Own),
        _ => None,
    }
}

async fn call(client: &GatewayClient, name: &str, given: &[String]) -> Result<CallOutcome, CliError> {
    let mut session = session(client).await?;
    let (shown, arguments) = match resolve(&session, name) {
        Some(CallTarget::Tool(tool)) => (session.name_of(&tool), arguments::read(given, Some(&tool))?),
        Some(CallTarget::Own) => (name_in(name).to_owned(), arguments::read(given, None)?),
        None => {
            let failed = client.failed_servers().await?;
            if let Some(server) = server_in(name_in(name), failed.iter().map(String::as_str)) {
                let hint = format!("`pegboard doctor --server {server}` says why");
                let server = terminal_text::clean(server);
                return Err(
                    CliError::new(format!("`{name}` was not called: server `{server}` does not run")).hint(hint)
                );
            }
            let reason = session.call(name_in(name), &Value::Object(serde_json::Map::new())).reply.into_text();
            return Err(
                CliError::new(reason).hint("`pegboard tools` lists the tools, `pegboard tools QUERY` finds one")
            );
        }
    };
    match client.call(&shown, &arguments).await {
        Ok(answer) => Ok(CallOutcome::Answered(shown, answer)),
        Err(GatewayClientError::Ask(error @ EndpointError::Broken(_))) => {
            let shown = format!("the connection to the gateway was lost while `{shown}` was called");
            let hint = "the tool may have run: check its effects before you call it again";
            Ok(CallOutcome::Lost(CliError::new(shown).because(error).hint(hint)))
        }
        Err(error) => Err(client.explain(error)),
    }
}

/// Returns the name in a signature such as `get_time(zone: string)`, which a search shows; a plain
/// name stays.
fn name_in(signature: &str) -> &str {
    signature.split_once('(').map_or(signature, |(name, _)| name.trim())
}

/// Prints a result, and returns whether the tool succeeded.
fn print(name: &str, answer: &ToolCallResult, format: Format) -> Result<Outcome, CliError> {
    let text = to_text(&answer.result);
    let is_refused = answer.is_error && text.starts_with(&format!("`{name}` was not called: "));
    if is_refused {
        return Err(CliError::new(text));
    }
    match format {
        Format::Json => output::json(&answer.result)?,
        Format::Text => {
            let line_end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
            // A program gets what the tool said; a terminal must not be steered by it.
            let shown = if stdout().is_terminal() { terminal_text::clean(&text) } else { text };
            output::raw(format!("{shown}{line_end}").as_bytes())?;
        }
    }
    if answer.is_error {
        say(&format!("the call of `{name}` failed"));
    }
    Ok(if answer.is_error { Outcome::No } else { Outcome::Yes })
}

/// Returns the texts of a result, and a line for each part that is not text.
fn to_text(result: &Value) -> String {
    let pieces = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if pieces.is_empty() {
        let structured = result.get("structuredContent");
        return structured.map(|value| serde_json::to_string_pretty(value).unwrap_or_default()).unwrap_or_default();
    }
    let shown: Vec<String> = pieces.iter().map(piece).collect();
    shown.join("\n")
}

fn piece(piece: &Value) -> String {
    let text = |key: &str| piece.get(key).and_then(Value::as_str);
    match (text("type"), text("text")) {
        (Some("text"), Some(text)) => text.to_owned(),
        (Some("resource_link"), _) => format!("[{}]", text("uri").unwrap_or("resource")),
        (Some("resource"), _) => {
            let resource = &piece["resource"];
            let text = resource.get("text").and_then(Value::as_str);
            text.map_or_else(|| format!("[{}]", resource["uri"].as_str().unwrap_or("resource")), str::to_owned)
        }
        (Some(kind), _) => {
            let size = text("data").map_or(0, |data| data.len() / 4 * 3);
            format!(
                "[{kind} {}, {size} bytes; `--format json` has the data]",
                text("mimeType").unwrap_or("of unknown type")
            )
        }
        (None, _) => piece.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signatures_are_names() {
        let check = |text: &str, expected: &str| assert_eq!(name_in(text), expected);
        check("time___get_current_time(timezone: string)", "time___get_current_time");
        check("a () -> string", "a");
        check("a", "a");
    }

    #[test]
    fn the_server_in_a_name() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(server_in(name, ["time", "time__zone", "git.hub"].into_iter()), expected, "{name}");
        };
        check("time___now", Some("time"));
        check("time__now", Some("time"));
        check("time:now", Some("time"));
        check("time/now", Some("time"));
        check("Time.now", Some("time"));
        check("mcp__time__now", Some("time"));
        check("time__zone___now", Some("time__zone"));
        check("git.hub___issues", Some("git.hub"));
        check("timezone", None);
        check("now", None);
    }

    #[test]
    fn results_as_text() {
        let check = |result: Value, expected: &str| assert_eq!(to_text(&result), expected);
        check(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "a\nb");
        check(json!({"content": [], "structuredContent": {"a": 1}}), "{\n  \"a\": 1\n}");
        check(json!({"content": [{"type": "resource_link", "uri": "x://y"}]}), "[x://y]");
        let image = json!({"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]});
        check(image, "[image image/png, 3 bytes; `--format json` has the data]");
        check(json!({"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "t"}}]}), "t");
        check(json!({}), "");
    }
}
