//! `pegboard call`.

mod arguments;

use std::io::{IsTerminal as _, Read as _, stdin, stdout};

use clap::Args;
use pegboard_core::Selection;
use pegboard_discovery::{Callee, DialectName, Session, Settings};
use serde_json::Value;

use super::serve::runtime;
use crate::{
    Outcome,
    cli::options::{Format, PlainOutputArgs},
    contact::{CallAnswer, Contact, Start},
    error::{CliError, say},
    output, plain,
    rankers::RankerName,
    source::ConfigArgs,
};

/// The largest arguments on standard input.
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
        let contact = Contact::open(&source, args.state.as_deref(), Start::Unknown).await?;
        let called = call(&contact, &args.tool, &given).await;
        contact.close().await;
        print(called?, args.output.format())
    })
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

async fn call(contact: &Contact, name: &str, given: &[String]) -> Result<(String, CallAnswer), CliError> {
    let catalog = contact.catalog().await?;
    let (dialect, ranker) = (DialectName::Bridge, RankerName::Keyword.build(None, 0.0));
    let mut session = Session::expecting(dialect, Settings::default(), catalog, Selection::everything(), ranker.into());
    let tool = match [name, name_in(name)].map(|name| session.resolve(name, &Value::Null)) {
        [Callee::Direct(tool), _] | [_, Callee::Direct(tool)] => tool,
        _ => {
            let reason = session.call(name_in(name), &Value::Object(serde_json::Map::new())).reply.into_text();
            return Err(
                CliError::new(reason).hint("`pegboard tools` lists the tools, `pegboard tools QUERY` finds one")
            );
        }
    };
    let arguments = arguments::read(given, &tool)?;
    let shown = session.name_of(&tool);
    let answer = contact.call(&shown, &arguments).await.map_err(|error| contact.explain(error))?;
    Ok((shown, answer))
}

/// The name in a signature such as `get_time(zone: string)`, which a search shows; a name is itself.
fn name_in(signature: &str) -> &str {
    signature.split_once('(').map_or(signature, |(name, _)| name.trim())
}

/// Prints a result; whether the tool did its work.
fn print((name, answer): (String, CallAnswer), format: Format) -> Result<Outcome, CliError> {
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
            let shown = if stdout().is_terminal() { plain::clean(&text) } else { text };
            output::raw(format!("{shown}{line_end}").as_bytes())?;
        }
    }
    if answer.is_error {
        say(&format!("`{name}` reported an error"));
    }
    Ok(if answer.is_error { Outcome::No } else { Outcome::Yes })
}

/// The texts of a result, and a line for each piece that is not text.
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
