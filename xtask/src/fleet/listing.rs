//! Tool definitions as a server or the gateway writes them.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use serde_json::{Value, json, value::RawValue};

use crate::pipe::Pipe;

/// How long a server may take by itself, in seconds.
const ALONE: &str = "120";

/// The beginning of the URIs of user interfaces.
const UI: &str = "\"ui://";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(super) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }
}

/// A tool of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// The text without the name, as it was written.
    pub(super) definition: String,
}

impl Tool {
    fn read(tool: &RawValue) -> Self {
        let (name, definition) = without_name(tool);
        Self { name, definition }
    }
}

/// What a server lists by itself.
pub(super) struct Alone {
    pub(super) legacy: Vec<Tool>,
    /// `None` if the server does not speak the modern era.
    pub(super) modern: Option<Vec<Tool>>,
}

impl Alone {
    /// Returns the tools in one era: those of the other one if the server does not speak it.
    pub(super) fn tools(&self, era: Era) -> &[Tool] {
        match (era, &self.modern) {
            (Era::Modern, Some(modern)) => modern,
            _ => &self.legacy,
        }
    }
}

/// Starts the server of an entry, once for each era, and lists its tools.
pub(super) fn alone(entry: &Value) -> Result<Alone, String> {
    let mut pipe = Pipe::start(&mut command(entry)?)?;
    let legacy = pages(|params| pipe.request_text("tools/list", params))?;
    drop(pipe);
    let mut pipe = Pipe::open(&mut command(entry)?)?;
    let mut ask = |method: &str, mut params: Value| {
        params["_meta"] = metadata();
        pipe.request_text(method, &params)
    };
    let discovered = ask("server/discover", json!({})).unwrap_or_default();
    let is_modern = serde_json::from_str::<Value>(&discovered).is_ok_and(|answer| answer["result"].is_object());
    let modern = if is_modern { Some(pages(|params| ask("tools/list", params.clone()))?) } else { None };
    Ok(Alone { legacy, modern })
}

fn command(entry: &Value) -> Result<Command, String> {
    // A server that hangs is ended, and then its pipe. Some do not end when they are asked to.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", ALONE, entry["command"].as_str().ok_or("no command")?]);
    command.args(entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str));
    for (name, value) in entry["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().unwrap_or_default());
    }
    Ok(command)
}

/// What every request of the modern era carries.
fn metadata() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "fleet", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Lists the tools of all servers through the gateway, under the names that it shows.
pub(super) fn through(url: &str, era: Era) -> Result<Vec<Tool>, String> {
    let client = Client::open(url, era)?;
    pages(|params| client.request("tools/list", params.clone()).map(|(_, body)| body))
}

/// How a definition of the gateway differs from the server's own, cut to what fits into a line.
pub(super) fn show_change(changed: &str, own: &str) -> String {
    let shared = changed.chars().zip(own.chars()).take_while(|(one, two)| one == two).count();
    let from = shared.saturating_sub(40);
    let cut = |text: &str| text.chars().skip(from).take(160).collect::<String>();
    format!("\n  gateway: {}\n  alone:   {}", cut(changed), cut(own))
}

/// The tools of all pages of a list.
fn pages(mut request: impl FnMut(&Value) -> Result<String, String>) -> Result<Vec<Tool>, String> {
    let mut tools = Vec::new();
    let mut params = json!({});
    loop {
        let body = request(&params)?;
        let wrong = |error: serde_json::Error| format!("not a list of tools: {error}: {body:.200}");
        let mut message: HashMap<String, Box<RawValue>> = serde_json::from_str(&body).map_err(wrong)?;
        let result = message.remove("result").ok_or_else(|| format!("no result: {body:.200}"))?;
        let mut result: HashMap<String, Box<RawValue>> = serde_json::from_str(result.get()).map_err(wrong)?;
        let page = result.remove("tools").ok_or("a list without tools")?;
        let page: Vec<Box<RawValue>> = serde_json::from_str(page.get()).map_err(wrong)?;
        tools.extend(page.iter().map(|tool| Tool::read(tool)));
        let cursor = result.remove("nextCursor").filter(|cursor| cursor.get() != "null");
        let Some(cursor) = cursor else { return Ok(tools) };
        params = json!({"cursor": serde_json::from_str::<Value>(cursor.get()).map_err(wrong)?});
    }
}

/// Returns the name of a tool, and its text as it was written with an empty name.
fn without_name(tool: &RawValue) -> (String, String) {
    let text = tool.get();
    let fields: HashMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let Some(written) = fields.get("name") else { return (String::new(), text.to_owned()) };
    let name: String = serde_json::from_str(written.get()).unwrap_or_default();
    // The value is a part of the text, whatever its place and however it is escaped.
    let at = written.get().as_ptr() as usize - text.as_ptr() as usize;
    (name, format!("{}\"\"{}", &text[..at], &text[at + written.get().len()..]))
}

/// Removes the server that the gateway adds to the URIs of user interfaces, so that hosts find them behind the right one.
pub(super) fn without_ui_server(definition: &str, server: &str) -> String {
    definition.replace(&format!("{UI}{server}+"), UI)
}

/// A client of the gateway that opens a connection for every request.
struct Client {
    host: String,
    era: Era,
    session: Option<String>,
}

impl Client {
    fn open(url: &str, era: Era) -> Result<Self, String> {
        let host = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let mut client = Self { host, era, session: None };
        if era == Era::Legacy {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fleet", "version": "1"}
            });
            let (headers, _) = client.request("initialize", params)?;
            let line = headers.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"));
            client.session = Some(line.and_then(|line| line.split_once(": ")).ok_or("no session")?.1.trim().to_owned());
        }
        Ok(client)
    }

    /// The headers and the body of the answer.
    fn request(&self, method: &str, mut params: Value) -> Result<(String, String), String> {
        let mut headers = self.session.as_ref().map_or_else(String::new, |id| format!("mcp-session-id: {id}\r\n"));
        if self.era == Era::Modern {
            params["_meta"] = metadata();
            headers.push_str(&format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n"));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let failed = |error: std::io::Error| format!("cannot ask the gateway for `{method}`: {error}");
        let mut stream = TcpStream::connect(&self.host).map_err(failed)?;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed)?;
        let (headers, body) = answer.split_once("\r\n\r\n").ok_or("an answer without a body")?;
        Ok((headers.to_owned(), body.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_server_is_removed_from_uris() {
        let given = r#"{"_meta":{"ui/resourceUri":"ui://one+app/main"},"n":"ui://two+app"}"#;
        let expected = r#"{"_meta":{"ui/resourceUri":"ui://app/main"},"n":"ui://two+app"}"#;
        assert_eq!(without_ui_server(given, "one"), expected);
    }

    #[test]
    fn only_the_name_is_removed() {
        let check = |text: &str, name: &str, rest: &str| {
            let raw = RawValue::from_string(text.to_owned()).expect("JSON");
            assert_eq!(without_name(&raw), (name.to_owned(), rest.to_owned()));
        };
        check(r#"{"name":"a","inputSchema":{"n":1.0}}"#, "a", r#"{"name":"","inputSchema":{"n":1.0}}"#);
        check(r#"{"title": "T", "name" : "a"}"#, "a", r#"{"title": "T", "name" : ""}"#);
        check(r#"{"_meta":{"name":"a"},"name":"a"}"#, "a", r#"{"_meta":{"name":"a"},"name":""}"#);
        check(r#"{"name":"\u0061"}"#, "a", r#"{"name":""}"#);
        check("{}", "", "{}");
    }
}
