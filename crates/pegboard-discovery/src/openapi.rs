//! Tools as an HTTP API: their paths and OpenAPI documents.
//!
//! A program calls a tool by a POST of its arguments to [`path_of`] its server and name.
//! Nothing here listens: these are the names and the words, the same for every host.

mod document;
mod path;
mod schema;
mod yaml;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use pegboard_core::{
    Catalog, Selection, Tool,
    naming::{fold, nearest},
    selection::is_always_on,
};

pub use self::path::{parse_path, path_of};
use crate::host::HostTool;

/// The group of tools without a server, which the host registered itself.
pub const CUSTOM: &str = "custom";

/// Maximum number of names that an error suggests.
const MAX_SUGGESTED: usize = 5;

/// Maximum number of bytes of a name; a longer one matches no tool.
const MAX_NAME_BYTES: usize = 1024;

/// The tools of a catalog that programs can call, for one caller.
#[derive(Debug)]
pub struct Api<'a> {
    servers: Vec<ApiServer<'a>>,
}

/// The tools of one server in the API.
#[derive(Debug)]
pub struct ApiServer<'a> {
    name: &'a str,
    description: &'a str,
    tools: Vec<&'a Arc<Tool>>,
}

impl<'a> Api<'a> {
    /// Creates the API for the tools of `catalog` that `selection` shows, in catalog order.
    pub fn new(catalog: &'a Catalog, selection: &Selection) -> Self {
        let mut servers: Vec<ApiServer<'a>> = Vec::new();
        let mut places = HashMap::new();
        let mut seen = HashSet::new();
        for tool in catalog.iter().filter(|tool| is_callable(tool) && selection.allows(tool)) {
            // A path leads to one tool, the first.
            if !seen.insert((tool.server_name(), tool.bare_name())) {
                continue;
            }
            let name = tool.server_name().unwrap_or(CUSTOM);
            let place = *places.entry(name).or_insert_with(|| {
                let description = tool.server().map_or("", |server| server.description.as_str());
                servers.push(ApiServer { name, description, tools: Vec::new() });
                servers.len() - 1
            });
            servers[place].tools.push(tool);
        }
        Self { servers }
    }

    /// Returns the servers that have tools here.
    pub fn servers(&self) -> &[ApiServer<'a>] {
        &self.servers
    }

    /// Returns the server that `name` means in any spelling.
    ///
    /// # Errors
    /// The error text if there is none, or more than one.
    pub fn server(&self, name: &str) -> Result<&ApiServer<'a>, String> {
        let names = self.servers.iter().map(|server| server.name);
        let found = resolve_name(name, names.clone()).map(|at| &self.servers[at]);
        found.map_err(|several| {
            let echoed = crate::names::echo(name);
            if !several.is_empty() {
                return format!("`{echoed}` is ambiguous; servers: {}", several.join(", "));
            }
            let near = if name.len() > MAX_NAME_BYTES { Vec::new() } else { nearest(name, names, MAX_SUGGESTED) };
            match near.as_slice() {
                [] => format!("no server `{echoed}`; {}", self.summarize_servers()),
                near => format!("no server `{echoed}`; nearest names: {}", near.join(", ")),
            }
        })
    }

    /// Returns the servers and the number of their tools, in one line.
    pub fn summarize_servers(&self) -> String {
        const MOST: usize = 100;
        if self.servers.is_empty() {
            return "there are no servers".to_owned();
        }
        let server = |server: &ApiServer<'_>| match server.tools.len() {
            1 => format!("{} (1 tool)", server.name),
            tools => format!("{} ({tools} tools)", server.name),
        };
        let mut listed: Vec<String> = self.servers.iter().take(MOST).map(server).collect();
        if self.servers.len() > MOST {
            listed.push(format!("and {} more", self.servers.len() - MOST));
        }
        format!("servers: {}", listed.join(", "))
    }
}

impl<'a> ApiServer<'a> {
    /// Returns the name of the server; [`CUSTOM`] for the host's own tools.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns its tools, in catalog order.
    pub fn tools(&self) -> &[&'a Arc<Tool>] {
        &self.tools
    }

    /// Returns the tool that `name` means in any spelling.
    ///
    /// # Errors
    /// The error text if there is none, or more than one.
    pub fn tool(&self, name: &str) -> Result<&'a Arc<Tool>, String> {
        self.find(name).map_err(|near| {
            let echoed = crate::names::echo(name);
            match near.as_slice() {
                [] => format!("no tool `{echoed}` on `{}`", self.name),
                near => format!("no tool `{echoed}` on `{}`; nearest names: {}", self.name, near.join(", ")),
            }
        })
    }

    fn find(&self, name: &str) -> Result<&'a Arc<Tool>, Vec<String>> {
        let upstream = || self.tools.iter().map(|tool| tool.bare_name());
        // Models may have read the name that is shown elsewhere.
        let found = resolve_name(name, upstream())
            .or_else(|several| resolve_name(name, self.tools.iter().map(|tool| tool.name())).map_err(|_| several));
        found.map(|at| self.tools[at]).map_err(|several| {
            let near = if several.is_empty() && name.len() <= MAX_NAME_BYTES {
                nearest(name, upstream(), MAX_SUGGESTED)
            } else {
                several.into_iter().take(MAX_SUGGESTED).collect()
            };
            near.into_iter().map(str::to_owned).collect()
        })
    }

    /// Returns the OpenAPI document of all its tools, or of `only` one of them. If it would take
    /// more than `max_tokens` (estimated), parameters are left out, and then tools.
    pub fn spec(&self, only: Option<&Tool>, max_tokens: usize) -> String {
        document::write(self, only, max_tokens)
    }
}

/// Returns the tool behind a path: `server` is `None` for the host's own tools.
///
/// # Errors
/// The nearest names there, when it is not there.
pub fn find(
    catalog: &Catalog,
    selection: &Selection,
    server: Option<&str>,
    name: &str,
) -> Result<Arc<Tool>, Vec<String>> {
    let is_it = |tool: &&Arc<Tool>| tool.server_name() == server && tool.bare_name() == name;
    let exact = catalog.iter().filter(is_it).find(|tool| is_callable(tool) && selection.allows(tool));
    if let Some(tool) = exact {
        return Ok(Arc::clone(tool));
    }
    let api = Api::new(catalog, selection);
    let part = api.server(server.unwrap_or(CUSTOM)).map_err(|_| Vec::new())?;
    // A server may be called like the host's own tools.
    let is_there = |tool: &&Arc<Tool>| tool.server_name().is_some() == server.is_some();
    let tools = part.tools.iter().copied().filter(is_there).collect();
    ApiServer { tools, ..*part }.find(name).cloned()
}

/// Returns whether a program can use a tool. Tools that steer the conversation or read offloaded
/// outputs are for the model, and the two tools of the API are not in it.
pub fn is_callable(tool: &Tool) -> bool {
    let not_in_api = |host: HostTool| {
        HostTool::OUTPUTS.contains(&host)
            || matches!(host, HostTool::GetApiSpec | HostTool::ExecuteShellCommand | HostTool::AskHuman)
    };
    let is_left_out = tool.is_own() && HostTool::from_name(tool.name()).is_some_and(not_in_api);
    let has_path = tool.server_name().is_none_or(path::is_segment) && path::is_segment(tool.bare_name());
    has_path && !is_left_out && !is_always_on(tool)
}

/// Returns the position of the name that is meant: exactly, or else in another spelling.
///
/// # Errors
/// The names that are spelled alike, when several are.
fn resolve_name<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> Result<usize, Vec<&'n str>> {
    if let Some(at) = names.clone().position(|other| other == name) {
        return Ok(at);
    }
    let folded = if name.len() > MAX_NAME_BYTES { String::new() } else { fold(name) };
    if folded.is_empty() {
        return Err(Vec::new());
    }
    let alike: Vec<(usize, &str)> = names.enumerate().filter(|(_, other)| fold(other) == folded).collect();
    match alike.as_slice() {
        [(at, _)] => Ok(*at),
        several => Err(several.iter().map(|(_, name)| *name).collect()),
    }
}

/// Returns `text` as an identifier of at most `most` characters; empty if no character is allowed.
fn identifier(text: &str, most: usize) -> String {
    let mut name = String::new();
    for c in text.chars().take(most) {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => name.push(c),
            _ if name.is_empty() || name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    name.truncate(name.trim_end_matches('_').len());
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

/// A set of unique names.
#[derive(Debug, Default)]
struct UniqueNames {
    taken: HashSet<String>,
    /// The number to try next for each name, so that many alike are no burden.
    numbers: HashMap<String, usize>,
}

impl UniqueNames {
    /// Returns `base`, with a number if that is taken.
    fn take(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while self.taken.contains(&name) {
            let number = self.numbers.entry(base.to_owned()).or_insert(1);
            *number += 1;
            name = format!("{base}_{number}");
        }
        self.taken.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests;
