//! Reads the servers in a client's file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use pegboard_config::document::{self, Document, Problems};
use serde_json::Value;

use super::{Client, Syntax, config_files::ConfigLocation, sections, server::Server, translate, variables::Context};

/// Maximum size of a client's file. Claude Code keeps much else in its own.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of servers per file.
const MAX_SERVERS: usize = 1000;

/// An error of reading a client's file. It never contains content of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot be read: {}", .0.kind())]
    Unreadable(#[from] io::Error),
    #[error("is not a file, or is larger than {} MiB", MAX_BYTES >> 20)]
    NoFile,
    #[error("is not UTF-8")]
    NoText,
    #[error("{0}")]
    Syntax(String),
}

/// One server of a file.
#[derive(Clone, Debug)]
pub(crate) struct ServerEntry {
    pub(crate) name: String,
    /// The only project folder in which the server applies.
    pub(crate) project: Option<PathBuf>,
    /// The server in Pegboard's terms, or the reason why it cannot be converted.
    pub(crate) server: Result<Server, String>,
}

/// The content of a client's file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientServers {
    pub(crate) entries: Vec<ServerEntry>,
    /// Mistakes in the file that did not prevent reading the rest.
    pub(crate) warnings: Vec<String>,
    /// Servers of projects' own files that the user has disabled, with the project.
    pub(crate) rejected: Vec<(PathBuf, String)>,
}

/// Returns the text of a file, if the file exists.
pub(crate) fn text(path: &Path) -> Result<Option<String>, ReadError> {
    // Reading a pipe or a terminal would block.
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() || metadata.len() > MAX_BYTES => return Err(ReadError::NoFile),
        Ok(_) => {}
        // A file in place of a folder on the way: there is no configuration.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ReadError::NoFile);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| ReadError::NoText)
}

/// Returns the servers of a file, if the file exists.
pub(crate) fn read(place: &ConfigLocation) -> Result<Option<ClientServers>, ReadError> {
    text(&place.path)?.map(|text| content(&text, place)).transpose()
}

/// Returns the servers in the text of a file.
pub(crate) fn content(text: &str, place: &ConfigLocation) -> Result<ClientServers, ReadError> {
    let mut content = ClientServers::default();
    let root = parse(text, place.client.syntax(), &mut content.warnings)?;
    content.take(&root, place);
    Ok(content)
}

/// Returns the servers of one of Pegboard's own files, by name.
pub(crate) fn read_own(path: &Path) -> Result<Option<Vec<(String, Server)>>, ReadError> {
    let Some(text) = text(path)? else { return Ok(None) };
    let root = parse(&text, Syntax::Json, &mut Vec::new())?;
    let entries = sections::sections(&root).flat_map(|(_, servers)| servers);
    let server =
        |(name, entry): (&String, &Value)| Some((name.clone(), translate::server(entry, &Context::default()).ok()?));
    Ok(Some(entries.filter_map(server).collect()))
}

/// Parses a text. `warnings` gets mistakes that can be ignored.
fn parse(text: &str, syntax: Syntax, warnings: &mut Vec<String>) -> Result<Value, ReadError> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Value::Null);
    }
    match syntax {
        Syntax::Toml => super::edit::toml::to_json(text).map_err(|error| ReadError::Syntax(error.to_string())),
        // A file of this size was written by a program, without comments.
        Syntax::Json if text.len() > document::MAX_BYTES => serde_json::from_str(text).map_err(|error| {
            ReadError::Syntax(format!("line {}: the file is not JSON, column {}", error.line(), error.column()))
        }),
        Syntax::Json => {
            let mut problems = Problems::new();
            let root = Document::parse(text, &mut problems).map(|document| document.root().to_json());
            match root {
                Some(root) => {
                    warnings.extend(problems.lines());
                    Ok(root)
                }
                None => Err(ReadError::Syntax(problems.lines().join("; "))),
            }
        }
    }
}

impl ClientServers {
    fn take(&mut self, root: &Value, place: &ConfigLocation) {
        let servers = place.keys.iter().try_fold(root, |value, key| value.get(key));
        let inputs = inputs_of(root);
        let context = Context { client: Some(place.client), project: place.project.as_deref(), inputs: Some(&inputs) };
        let is_off = disabled_by_lists(root, place.client);
        self.add(servers, &context, &is_off);
        if place.client == Client::ClaudeCode && place.project.is_none() {
            self.take_projects(root);
        }
    }

    /// Reads what Claude Code keeps for single projects in the user's own file.
    fn take_projects(&mut self, root: &Value) {
        for (folder, project) in root.get("projects").and_then(Value::as_object).into_iter().flatten() {
            let folder = PathBuf::from(folder);
            let off = names(project.get("disabledMcpServers"));
            let context = Context { client: Some(Client::ClaudeCode), project: Some(&folder), ..Context::default() };
            self.add(project.get("mcpServers"), &context, &|name| off.contains(&name));
            let rejected = names(project.get("disabledMcpjsonServers"));
            self.rejected.extend(rejected.into_iter().map(|name| (folder.clone(), name.to_owned())));
        }
    }

    fn add(&mut self, servers: Option<&Value>, context: &Context<'_>, is_off: &dyn Fn(&str) -> bool) {
        let Some(servers) = servers.filter(|servers| !servers.is_null()) else { return };
        let Some(servers) = servers.as_object() else {
            self.warnings.push("the servers are not an object".to_owned());
            return;
        };
        for (name, entry) in servers {
            // Notes and templates have names like this.
            if name.starts_with('_') || name.starts_with("//") || name.trim().is_empty() {
                continue;
            }
            if self.entries.len() == MAX_SERVERS {
                self.warnings.push(format!("has more than {MAX_SERVERS} servers; the rest is skipped"));
                return;
            }
            let mut server = translate::server(entry, context);
            if let Ok(server) = &mut server {
                server.is_disabled |= is_off(name);
            }
            let project = context.project.map(Path::to_owned);
            self.entries.push(ServerEntry { name: name.clone(), project, server });
        }
    }
}

/// Returns the inputs that VS Code asks the user for, with their defaults. The default of a
/// password is not used.
fn inputs_of(root: &Value) -> BTreeMap<String, Option<String>> {
    let inputs = root.get("inputs").or_else(|| root.get("mcp")?.get("inputs")).and_then(Value::as_array);
    let input = |input: &Value| {
        let is_password = input.get("password").and_then(Value::as_bool).unwrap_or_default();
        let default = input.get("default").and_then(Value::as_str).filter(|_| !is_password);
        Some((input.get("id")?.as_str()?.to_owned(), default.map(str::to_owned)))
    };
    inputs.into_iter().flatten().filter_map(input).collect()
}

/// Returns whether Gemini CLI's lists disable a server.
fn disabled_by_lists(root: &Value, client: Client) -> impl Fn(&str) -> bool {
    let list = |key: &str| (client == Client::Gemini).then(|| root.get("mcp")?.get(key)).flatten();
    let allowed = list("allowed").filter(|list| list.is_array()).map(|list| names(Some(list)));
    let excluded = names(list("excluded"));
    move |name| excluded.contains(&name) || allowed.as_ref().is_some_and(|allowed| !allowed.contains(&name))
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, project and entry of each server in `text`, then the warnings.
    #[track_caller]
    fn check(client: Client, project: Option<&str>, text: &str, expected: &[&str]) {
        let keys: &'static [&'static str] = match client {
            Client::Vscode => &["servers"],
            Client::Codex => &["mcp_servers"],
            Client::Zed => &["context_servers"],
            _ => &["mcpServers"],
        };
        let place = ConfigLocation { client, path: PathBuf::new(), project: project.map(PathBuf::from), keys };
        let lines: Vec<String> = match content(text, &place) {
            Err(error) => vec![error.to_string()],
            Ok(content) => {
                let entry = |entry: &ServerEntry| {
                    let project = entry.project.as_ref().map(|project| format!(" in {}", project.display()));
                    let server = entry.server.as_ref().map_or_else(Clone::clone, |server| server.to_json().to_string());
                    format!("{}{}: {server}", entry.name, project.unwrap_or_default())
                };
                content.entries.iter().map(entry).chain(content.warnings.clone()).collect()
            }
        };
        assert_eq!(lines, expected);
    }

    #[test]
    fn claude_code_has_servers_of_projects_too() {
        check(
            Client::ClaudeCode,
            None,
            r#"{"mcpServers": {"a": {"command": "x"}, "_note": {}}, "projects": {
                "/src/app": {"mcpServers": {"b": {"command": "./y"}, "c": {"command": "z"}},
                             "disabledMcpServers": ["c"], "disabledMcpjsonServers": ["d"]}, "/src/none": {}}}"#,
            &[
                r#"a: {"command":"x"}"#,
                r#"b in /src/app: {"command":"./y","cwd":"/src/app"}"#,
                r#"c in /src/app: {"command":"z","disabled":true}"#,
            ],
        );
    }

    #[test]
    fn vs_code_asks() {
        check(
            Client::Vscode,
            Some("/src/app"),
            r#"{
                // comments are fine
                "inputs": [{"id": "host", "default": "localhost"}, {"id": "pw", "password": true, "default": "x"}],
                "servers": {"a": {"type": "stdio", "command": "x", "args": ["${input:host}", "${input:pw}"],}},
            }"#,
            &[r#"a in /src/app: {"command":"x","args":["${HOST:-localhost}","${PW}"]}"#],
        );
    }

    #[test]
    fn codex_writes_toml() {
        check(
            Client::Codex,
            None,
            "model = \"x\"\n[mcp_servers.a]\ncommand = \"x\"\nargs = [\"-y\", 'b']\nenabled = false\n\
             [mcp_servers.a.env]\nA = \"b\"\n[mcp_servers.\"b c\"]\nurl = \"https://b\"\n",
            &[r#"a: {"command":"x","args":["-y","b"],"env":{"A":"b"},"disabled":true}"#, r#"b c: {"url":"https://b"}"#],
        );
    }

    #[test]
    fn gemini_has_lists() {
        let servers = r#""mcpServers": {"a": {"command": "x"}, "b": {"httpUrl": "https://b"}}"#;
        let (a, b) = (r#"a: {"command":"x"}"#, r#"b: {"url":"https://b"}"#);
        check(Client::Gemini, None, &format!("{{{servers}}}"), &[a, b]);
        let off = r#"b: {"url":"https://b","disabled":true}"#;
        check(Client::Gemini, None, &format!(r#"{{"mcp": {{"excluded": ["b"]}}, {servers}}}"#), &[a, off]);
        check(Client::Gemini, None, &format!(r#"{{"mcp": {{"allowed": ["a"]}}, {servers}}}"#), &[a, off]);
    }

    #[test]
    fn broken_files_are_told_with_their_line_and_without_their_content() {
        check(
            Client::Cursor,
            None,
            "{\n\"mcpServers\": {\n\"a\": {\"env\": {\"K\": \"s3cret",
            &["line 3: the file is not valid JSON: unterminated string or invalid escape, column 20"],
        );
        check(
            Client::Codex,
            None,
            "a = 1\n[mcp_servers.a]\nenv = {K = \"s3cret}\n",
            &["line 3: the file is not TOML: unclosed inline table, expected `}`"],
        );
        check(
            Client::Cursor,
            None,
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}\n \"b\": 1}",
            &[r#"a: {"command":"x"}"#, "line 1: the file is not valid JSON: expected comma, column 39"],
        );
        check(Client::Cursor, None, "{\"mcpServers\": []}", &["the servers are not an object"]);
        check(Client::Cursor, None, " \n", &[]);
        check(Client::Cursor, None, "{\"mcpServers\": null}", &[]);
    }
}
