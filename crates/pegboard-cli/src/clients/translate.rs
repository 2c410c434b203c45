//! Conversion of a client's entry to a server in Pegboard's terms.

use std::path::Path;

use serde_json::Value;

use super::{
    Client,
    server::{Server, ServerTransport},
    variables::{Context, translate},
};

/// Keys that cannot be converted, and the note about each.
const LOST: &[(&str, &str)] = &[
    ("headersHelper", "its headers come from a program (`headersHelper`), which is not imported"),
    ("sandboxEnabled", "its sandbox is not imported"),
    ("sandbox", "its sandbox is not imported"),
    ("oauth", "uses OAuth; log in with `pegboard login`"),
    ("auth", "uses OAuth; log in with `pegboard login`"),
    ("authProviderType", "uses OAuth; log in with `pegboard login`"),
];

/// Converts an entry.
///
/// # Errors
/// The reason why it cannot be converted.
pub(super) fn server(entry: &Value, context: &Context<'_>) -> Result<Server, String> {
    if !entry.is_object() {
        return Err("is not an object".to_owned());
    }
    let kind = ["type", "transport"].iter().find_map(|key| entry.get(key)?.as_str()).unwrap_or_default();
    if !["", "stdio", "http", "sse", "streamable-http", "streamableHttp", "streamable_http", "local", "remote"]
        .contains(&kind)
    {
        return Err("has a transport that Pegboard does not support".to_owned());
    }
    let mut notes = Vec::new();
    let mut reader = Reader { entry, context, notes: &mut notes };
    let address = ["httpUrl", "url", "serverUrl"].iter().find_map(|key| reader.text(key));
    let program = reader.program().filter(|_| address.is_none() || context.client != Some(Client::Gemini));
    let reach = match (program, address) {
        (Some(program), _) => program,
        (None, Some(url)) => ServerTransport::Remote { url, headers: reader.headers(), is_sse: kind == "sse" },
        (None, None) if entry.get("source").and_then(Value::as_str) == Some("extension") => {
            return Err("comes with an extension of the editor".to_owned());
        }
        (None, None) if context.client == Some(Client::Zed) && entry.get("settings").is_some() => {
            return Err("comes with an extension of the editor".to_owned());
        }
        (None, None) => return Err("has neither a command nor a URL".to_owned()),
    };
    let mut server = Server::new(reach);
    reader.settings(&mut server);
    server.notes = notes;
    Ok(server)
}

struct Reader<'a> {
    entry: &'a Value,
    context: &'a Context<'a>,
    notes: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn translate(&mut self, text: &str) -> String {
        translate(text, self.context, self.notes)
    }

    /// Returns a text that is not empty.
    fn text(&mut self, key: &str) -> Option<String> {
        let text = self.entry.get(key)?.as_str().filter(|text| !text.trim().is_empty())?;
        Some(self.translate(text))
    }

    fn texts(&mut self, value: Option<&Value>) -> Vec<String> {
        let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(scalar).map(|text| self.translate(&text)).collect()
    }

    fn pairs(&mut self, value: Option<&Value>) -> Vec<(String, String)> {
        let entries = value.and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(name, value)| Some((name.clone(), self.translate(&scalar(value)?)))).collect()
    }

    fn program(&mut self) -> Option<ServerTransport> {
        let entry = self.entry;
        // Zed used to have one object with all that is said of the program.
        let nested = entry.get("command").filter(|command| command.is_object());
        let (command, source) = match nested {
            Some(nested) => (nested.get("path").or_else(|| nested.get("command"))?.as_str()?, nested),
            None => (entry.get("command")?.as_str()?, entry),
        };
        let command = self.translate(Some(command).filter(|command| !command.trim().is_empty())?);
        let args = self.texts(source.get("args"));
        let env = self.pairs(source.get("env"));
        let env_file = self.text("envFile").map(|file| self.in_project(file));
        let cwd = self.text("cwd").map(|folder| self.in_project(folder));
        let cwd = cwd.or_else(|| self.needs_project(&command, &args));
        Some(ServerTransport::Program { command, args, env, env_file, cwd })
    }

    /// Returns a path that is relative to the project as an absolute one, because Pegboard's file
    /// will be elsewhere.
    fn in_project(&self, path: String) -> String {
        match self.context.project {
            Some(folder) if !path.starts_with("${") => folder.join(path).to_string_lossy().into_owned(),
            _ => path,
        }
    }

    /// Returns the project's folder if the program refers to files in it: clients start such
    /// servers there.
    fn needs_project(&self, command: &str, args: &[String]) -> Option<String> {
        let folder = self.context.project?;
        let is_relative =
            |text: &str| text == "." || text.starts_with("./") || text.starts_with("../") || text.starts_with(".\\");
        let is_there = |text: &str| is_file_name(text) && folder.join(text).exists();
        let names_file = |text: &str| is_relative(text) || is_there(text);
        let is_needed = is_relative(command) || args.iter().any(|arg| names_file(arg));
        is_needed.then(|| folder.to_string_lossy().into_owned())
    }

    fn headers(&mut self) -> Vec<(String, String)> {
        let entry = self.entry;
        let mut headers = self.pairs(entry.get("headers"));
        headers.extend(self.pairs(entry.get("http_headers")));
        for (name, variable) in self.pairs(entry.get("env_http_headers")) {
            headers.push((name, format!("${{{variable}}}")));
        }
        let named = entry.get("bearer_token_env_var").and_then(Value::as_str);
        let token = named.map(|variable| format!("${{{variable}}}"));
        let keys = ["authorizationToken", "bearerToken", "bearer_token"];
        let token = token.or_else(|| keys.iter().find_map(|key| self.text(key)));
        if let Some(token) = token {
            let value = if token.starts_with("Bearer ") { token } else { format!("Bearer {token}") };
            headers.push(("Authorization".to_owned(), value));
        }
        headers
    }

    /// Reads everything except the transport.
    fn settings(&mut self, server: &mut Server) {
        let flag = |key: &str| self.entry.get(key).and_then(Value::as_bool);
        server.is_disabled = flag("disabled") == Some(true) || flag("enabled") == Some(false);
        server.description = self.entry.get("description").and_then(Value::as_str).map(str::to_owned);
        server.timeout = self.timeout();
        let seconds = self.number("startup_timeout_sec").map(|seconds| seconds * 1000.0);
        let start = seconds.or_else(|| self.number("startup_timeout_ms")).and_then(time);
        let own = self.entry.get("connectTimeout").and_then(Value::as_str).map(str::to_owned);
        server.connect_timeout = start.or(own);
        let names = |keys: &[&str]| -> Vec<String> {
            let lists = keys.iter().filter_map(|key| self.entry.get(key)?.as_array());
            lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        server.allowed_tools = names(&["includeTools", "enabled_tools"]);
        server.denied_tools = names(&["excludeTools", "disabledTools", "disabled_tools"]);
        for (key, said) in LOST {
            let is_there = self.entry.get(key).is_some_and(|value| !value.is_null() && *value != Value::Bool(false));
            if is_there && !self.notes.iter().any(|note| note == said) {
                self.notes.push((*said).to_owned());
            }
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.entry.get(key)?.as_f64()
    }

    /// Returns the timeout of a call. Some clients are known to count milliseconds; for others only
    /// a large number shows it.
    fn timeout(&self) -> Option<String> {
        if let Some(seconds) = self.number("tool_timeout_sec") {
            return time(seconds * 1000.0);
        }
        match self.entry.get("timeout")? {
            Value::String(text) if self.context.client.is_none() => Some(text.clone()),
            value => {
                let number = value.as_f64()?;
                let is_milliseconds = matches!(self.context.client, Some(Client::Gemini | Client::ClaudeCode));
                time(if is_milliseconds || number >= 1000.0 { number } else { number * 1000.0 })
            }
        }
    }
}

/// The longest duration that Pegboard's configuration accepts.
const LONGEST_MS: f64 = 365.0 * 24.0 * 3600.0 * 1000.0;

/// Formats milliseconds for Pegboard's configuration; `None` if it is not a valid duration.
fn time(milliseconds: f64) -> Option<String> {
    let whole = milliseconds.round();
    if !(1.0..=LONGEST_MS).contains(&whole) {
        return None;
    }
    let whole = whole as u64;
    Some(if whole.is_multiple_of(1000) { format!("{}s", whole / 1000) } else { format!("{whole}ms") })
}

/// Returns a text as it is, and a number or a flag as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns whether a word of a command line can be a file of a project: not a flag, address or
/// package, and with letters before a dot or after a slash.
fn is_file_name(text: &str) -> bool {
    let path = Path::new(text);
    !text.starts_with(['-', '@', '$', '~']) && !text.contains("://") && path.is_relative() && text.contains(['/', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(client: Client, entry: &str, expected: &str) {
        let entry: Value = serde_json::from_str(entry).expect("JSON");
        let context = Context { client: Some(client), project: Some(Path::new("/src/app")), ..Context::default() };
        let shown = match server(&entry, &context) {
            Ok(server) => {
                let notes: String = server.notes.iter().map(|note| format!(" ({note})")).collect();
                format!("{}{notes}", server.to_json())
            }
            Err(reason) => reason,
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn programs() {
        check(
            Client::ClaudeCode,
            r#"{"type": "stdio", "command": "npx", "args": ["-y", "x", 1], "env": {"A": "${A:-b}", "N": null, "I": 3}}"#,
            r#"{"command":"npx","args":["-y","x","1"],"env":{"A":"${A:-b}","I":"3"}}"#,
        );
        check(
            Client::Vscode,
            r#"{"command": "./run", "envFile": "${workspaceFolder}/.env", "sandboxEnabled": true}"#,
            r#"{"command":"./run","envFile":"/src/app/.env","cwd":"/src/app"} (its sandbox is not imported)"#,
        );
        check(Client::Cursor, r#"{"command": "x", "cwd": "sub"}"#, r#"{"command":"x","cwd":"/src/app/sub"}"#);
        check(
            Client::Zed,
            r#"{"command": {"path": "x", "args": ["${HOME}"], "env": {"A": "b"}}, "settings": {}, "enabled": false}"#,
            r#"{"command":"x","args":["$${HOME}"],"env":{"A":"b"},"disabled":true}"#,
        );
    }

    #[test]
    fn codex() {
        check(
            Client::Codex,
            r#"{"url": "https://a/mcp", "bearer_token_env_var": "T", "http_headers": {"X": "y"},
                "env_http_headers": {"Z": "ZED"}, "startup_timeout_sec": 20, "tool_timeout_sec": 0.5,
                "enabled_tools": ["a"], "disabled_tools": ["b"], "enabled": true}"#,
            r#"{"url":"https://a/mcp","headers":{"X":"y","Z":"${ZED}","Authorization":"Bearer ${T}"},"timeout":"500ms","connectTimeout":"20s","includeTools":["a"],"excludeTools":["b"]}"#,
        );
    }

    #[test]
    fn remote_servers() {
        check(
            Client::Gemini,
            r#"{"httpUrl": "https://a/mcp", "command": "x", "headers": {"K": "$KEY"}, "timeout": 500, "trust": true,
                "includeTools": ["safe"], "oauth": {"enabled": true}}"#,
            r#"{"url":"https://a/mcp","headers":{"K":"${KEY}"},"timeout":"500ms","includeTools":["safe"]} (uses OAuth; log in with `pegboard login`)"#,
        );
        check(
            Client::Windsurf,
            r#"{"serverUrl": "https://a/${env:PLACE}", "disabledTools": ["x"], "disabled": false}"#,
            r#"{"url":"https://a/${PLACE}","excludeTools":["x"]}"#,
        );
        check(Client::ClaudeCode, r#"{"type": "sse", "url": "https://a"}"#, r#"{"type":"sse","url":"https://a"}"#);
    }

    #[test]
    fn what_cannot_be_taken() {
        check(
            Client::ClaudeCode,
            r#"{"type": "ws", "url": "wss://a"}"#,
            "has a transport that Pegboard does not support",
        );
        check(Client::Zed, r#"{"source": "extension"}"#, "comes with an extension of the editor");
        check(Client::Zed, r#"{"settings": {"key": "s3cret"}}"#, "comes with an extension of the editor");
        check(Client::Cursor, r#"{"command": " "}"#, "has neither a command nor a URL");
        check(Client::Cursor, "[]", "is not an object");
    }
}
