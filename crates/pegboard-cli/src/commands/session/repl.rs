//! The interactive session: commands, completion and history.

use rustyline::{
    Context, Editor, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter, hint::Hinter,
    history::DefaultHistory, validate::Validator,
};
use serde_json::{Value, json};

use super::{SessionRunner, serve};
use crate::{
    Outcome,
    error::CliError,
    output::{self, FAINT, STRONG},
};

const HELP: &str = "\
list                   show the tools that the model sees
NAME WORDS             call a tool that takes a query, with these words as the query
NAME {\"key\": …}       call a tool with these arguments
call_tool NAME {…}     call a tool through the bridge
prompt                 show the system prompt
{\"op\": …}            send any request as JSON
help, quit
";

/// Completes commands and the names of tools.
struct NameCompleter {
    names: Vec<String>,
}

impl Completer for NameCompleter {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line[..at].rfind(' ').map_or(0, |space| space + 1);
        let word = &line[start..at];
        Ok((start, self.names.iter().filter(|name| name.starts_with(word)).cloned().collect()))
    }
}

impl Hinter for NameCompleter {
    type Hint = String;
}
impl Highlighter for NameCompleter {}
impl Validator for NameCompleter {}
impl Helper for NameCompleter {}

/// Reads commands until the user ends the session.
pub(super) fn run(runner: &mut SessionRunner) -> Result<Outcome, CliError> {
    let failed = |error: ReadlineError| CliError::new("cannot read the terminal").because(error);
    let mut editor: Editor<NameCompleter, DefaultHistory> = Editor::new().map_err(failed)?;
    output::text(&format!(
        "{FAINT}{} dialect; type `help` for the commands{FAINT:#}\n",
        runner.session.dialect().name()
    ))?;
    loop {
        let mut names: Vec<String> = ["list", "prompt", "help", "quit"].map(str::to_owned).to_vec();
        names.extend(runner.session.visible_names());
        names.extend(runner.session.known_names());
        names.sort();
        names.dedup();
        editor.set_helper(Some(NameCompleter { names }));
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(Outcome::Yes),
            Err(error) => return Err(failed(error)),
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        // A full history is not a reason to stop.
        let _ = editor.add_history_entry(line);
        match line {
            "quit" | "exit" => return Ok(Outcome::Yes),
            "help" => output::text(HELP)?,
            line => match request(line, &runner.session.known_names()).and_then(|request| serve(runner, &request)) {
                Ok(answer) => output::text(&to_text(&answer))?,
                Err(error) => output::text(&format!("{error}\n"))?,
            },
        }
    }
}

/// Parses a typed line as a request; `known` are the names of the catalog's tools.
fn request(line: &str, known: &[String]) -> Result<Value, String> {
    if line.starts_with('{') {
        return serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"));
    }
    let end = line.find([' ', '{']).unwrap_or(line.len());
    let (name, rest) = (&line[..end], line[end..].trim());
    match (name, rest) {
        ("list" | "prompt", "") => Ok(json!({"op": name})),
        (name, "") => Ok(json!({"op": "call", "name": name})),
        (name, rest) if rest.starts_with('{') => {
            let arguments: Value = serde_json::from_str(rest).map_err(|error| format!("not JSON: {error}"))?;
            Ok(json!({"op": "call", "name": name, "arguments": arguments}))
        }
        (name, rest) if name.starts_with("call_") => {
            let end = rest.find([' ', '{']).unwrap_or(rest.len());
            let arguments = match rest[end..].trim() {
                "" => json!({}),
                arguments => serde_json::from_str(arguments).map_err(|error| format!("not JSON: {error}"))?,
            };
            Ok(json!({"op": "call", "name": name, "arguments": {"name": &rest[..end], "arguments": arguments}}))
        }
        (name, _) if known.iter().any(|known| known == name) => {
            Err(format!("the arguments of `{name}` must be a JSON object, such as {{\"key\": 1}}"))
        }
        // Regardless of the dialect's parameter name, the typed text is a query or a list of names.
        (name, rest) => {
            let names: Vec<&str> = rest.split_whitespace().collect();
            Ok(json!({"op": "call", "name": name, "arguments": {"query": rest, "tool_names": names}}))
        }
    }
}

/// Renders an answer: the result, and the visible tools if they changed.
fn to_text(answer: &Value) -> String {
    if let Some(tools) = answer.get("tools").and_then(Value::as_array) {
        let line = |tool: &Value| {
            let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
            let description = text("description").split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{STRONG}{}{STRONG:#} {description}\n", text("name"))
        };
        return tools.iter().map(line).collect();
    }
    let mut text = match answer.get("result").or(answer.get("would_call")).or(answer.get("text")) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
        None => answer.to_string(),
    };
    text.push('\n');
    if answer.get("list_changed") == Some(&Value::Bool(true)) {
        let names: Vec<&str> = answer["visible"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        text.push_str(&format!("{FAINT}visible now: {}{FAINT:#}\n", names.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_lines_become_requests() {
        let known = ["get_weather".to_owned()];
        let check = |line: &str, expected: Value| assert_eq!(request(line, &known), Ok(expected), "{line}");
        check("list", json!({"op": "list"}));
        check("show_all_tools", json!({"op": "call", "name": "show_all_tools"}));
        check(r#"call_tool {"name": "x"}"#, json!({"op": "call", "name": "call_tool", "arguments": {"name": "x"}}));
        check(r#"x{"a": 1}"#, json!({"op": "call", "name": "x", "arguments": {"a": 1}}));
        let both = json!({"query": "a b", "tool_names": ["a", "b"]});
        check("add_tool a b", json!({"op": "call", "name": "add_tool", "arguments": both}));
        let bridged = json!({"name": "x", "arguments": {"a": 1}});
        check(r#"call_tool x {"a": 1}"#, json!({"op": "call", "name": "call_tool", "arguments": bridged}));
        assert!(request("{oops", &known).is_err());
        assert!(request("get_weather Oslo", &known).is_err());
    }
}
