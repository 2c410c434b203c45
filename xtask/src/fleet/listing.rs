//! Tool definitions as a server or the gateway writes them.

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use serde_json::{Value, json, value::RawValue};

use crate::pipe::Pipe;

/// The definitions of each server: the text of every tool without its name, sorted.
pub(super) type Definitions = BTreeMap<String, Vec<String>>;

/// How long a server may take by itself, in seconds.
const ALONE: &str = "120";

/// The separator between server and tool in the names of the gateway.
const SEPARATOR: &str = "___";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Legacy,
    Modern,
}

/// What a server lists by itself.
pub(super) struct Alone {
    pub(super) legacy: Vec<String>,
    /// The same tools may be written differently in the modern era. Empty if the server lacks it.
    pub(super) modern: Vec<String>,
}

/// Starts the server of an entry, once for each era, and lists its tools.
pub(super) fn alone(entry: &Value) -> Result<Alone, String> {
    let mut pipe = Pipe::start(&mut command(entry)?)?;
    let legacy = sorted(&pages(|params| pipe.request_text("tools/list", params))?);
    drop(pipe);
    let mut pipe = Pipe::open(&mut command(entry)?)?;
    let mut ask = |method: &str, mut params: Value| {
        params["_meta"] = metadata();
        pipe.request_text(method, &params)
    };
    let discovered = ask("server/discover", json!({})).unwrap_or_default();
    let is_modern = serde_json::from_str::<Value>(&discovered).is_ok_and(|answer| answer["result"].is_object());
    let modern = if is_modern { pages(|params| ask("tools/list", params.clone()))? } else { Vec::new() };
    Ok(Alone { legacy, modern: sorted(&modern) })
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

fn sorted(tools: &[Box<RawValue>]) -> Vec<String> {
    let mut definitions: Vec<String> = tools.iter().map(|tool| without_name(tool).1).collect();
    definitions.sort();
    definitions
}

/// What every request of the modern era carries.
fn metadata() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "fleet", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Lists the tools of all servers through the gateway.
pub(super) fn through(url: &str, era: Era) -> Result<Definitions, String> {
    let client = Client::open(url, era)?;
    let tools = pages(|params| client.request("tools/list", params.clone()).map(|(_, body)| body))?;
    let mut definitions = Definitions::new();
    for tool in &tools {
        let (name, definition) = without_name(tool);
        let server = name.split_once(SEPARATOR).map_or(name.as_str(), |(server, _)| server);
        let definition = without_ui_server(&definition, server);
        definitions.entry(server.to_owned()).or_default().push(definition);
    }
    definitions.values_mut().for_each(|definitions| definitions.sort());
    Ok(definitions)
}

/// How two definitions differ, cut to what fits into a line: the one that changed, and the closest other.
pub(super) fn show_change(changed: &str, others: &[String]) -> String {
    let shared = |other: &str| changed.chars().zip(other.chars()).take_while(|(one, two)| one == two).count();
    let closest = others.iter().max_by_key(|other| shared(other)).map_or("", String::as_str);
    let from = shared(closest).saturating_sub(40);
    let cut = |text: &str| text.chars().skip(from).take(160).collect::<String>();
    format!("\n  gateway: {}\n  alone:   {}", cut(changed), cut(closest))
}

/// All pages of a list, as raw tools.
fn pages(mut request: impl FnMut(&Value) -> Result<String, String>) -> Result<Vec<Box<RawValue>>, String> {
    let mut tools = Vec::new();
    let mut params = json!({});
    loop {
        let body = request(&params)?;
        let wrong = |error: serde_json::Error| format!("not a list of tools: {error}: {body:.200}");
        let mut message: HashMap<String, Box<RawValue>> = serde_json::from_str(&body).map_err(wrong)?;
        let result = message.remove("result").ok_or_else(|| format!("no result: {body:.200}"))?;
        let mut result: HashMap<String, Box<RawValue>> = serde_json::from_str(result.get()).map_err(wrong)?;
        let page = result.remove("tools").ok_or("a list without tools")?;
        tools.extend(serde_json::from_str::<Vec<Box<RawValue>>>(page.get()).map_err(wrong)?);
        let cursor = result.remove("nextCursor").filter(|cursor| cursor.get() != "null");
        let Some(cursor) = cursor else { return Ok(tools) };
        params = json!({"cursor": serde_json::from_str::<Value>(cursor.get()).map_err(wrong)?});
    }
}

/// The name of a tool, and the rest of its text as it was written.
fn without_name(tool: &RawValue) -> (String, String) {
    let text = tool.get();
    let parsed: Value = serde_json::from_str(text).unwrap_or_default();
    let name = parsed["name"].as_str().unwrap_or_default();
    let quoted = Value::from(name).to_string();
    let rest = [":", ": "].iter().map(|colon| format!("\"name\"{colon}{quoted}")).find_map(|pair| {
        let at = text.find(&pair)?;
        Some(format!("{}{}", &text[..at], &text[at + pair.len()..]))
    });
    (name.to_owned(), rest.unwrap_or_else(|| text.to_owned()))
}

/// Removes the server that the gateway adds to the URIs of user interfaces, so that hosts find them behind the right one.
fn without_ui_server(definition: &str, server: &str) -> String {
    definition.replace(&format!("\"ui://{server}+"), "\"ui://")
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
        check(r#"{"name":"a","inputSchema":{"n":1.0}}"#, "a", r#"{,"inputSchema":{"n":1.0}}"#);
        check(r#"{"title": "T", "name": "a"}"#, "a", r#"{"title": "T", }"#);
    }
}
