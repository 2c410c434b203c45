//! `explicit`: search shows, `add_tool` loads.

use std::sync::Arc;

use pegboard_core::{Query, QueryError, Tool, naming};
use serde_json::{Value, json};

use super::{Dialect, DialectView, MetaTool};
use crate::{
    names::echo,
    outcome::{Effect, Outcome, ToolDefinition},
    prompt,
};

const SEARCH: &str = "search_tools";
const ADD: &str = "add_tool";
const SHOW: &str = "show_all_tools";
const REMOVE: &str = "remove_tool";

/// Maximum number of hits of a ranker, which has no natural end unlike a pattern.
const MAX_RANKED: usize = 10;

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &[SEARCH, ADD, SHOW, REMOVE];

#[derive(Debug)]
pub(super) struct Explicit;

impl Dialect for Explicit {
    fn name(&self) -> &'static str {
        "explicit"
    }

    fn default_ranker(&self) -> &'static str {
        "regex"
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn meta_tools(&self, _view: &DialectView<'_>) -> Vec<ToolDefinition> {
        let tool = |name: &str, description: &str, input_schema: Value| ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema,
        };
        let names = json!({
            "type": "array",
            "items": {"type": "string"},
            "description": "Tool names as returned by search_tools or show_all_tools"
        });
        vec![
            tool(
                SEARCH,
                "Find tools by a regular expression over their names and descriptions. Found tools cannot be called \
                 until add_tool has added them.",
                json!({
                    "type": "object",
                    "properties": {"query": {"type": "string", "description": "Regular expression, or plain words"}},
                    "required": ["query"]
                }),
            ),
            tool(
                ADD,
                "Add tools by name, so that they can be called from the next turn on.",
                json!({
                    "type": "object",
                    "properties": {
                        "tool_names": names,
                        "server": {"type": "string", "description": "Only tools of this server"}
                    },
                    "required": ["tool_names"]
                }),
            ),
            tool(SHOW, "List the names of all available tools.", json!({"type": "object", "properties": {}})),
            tool(
                REMOVE,
                "Remove tools that are no longer needed.",
                json!({"type": "object", "properties": {"tool_names": names}, "required": ["tool_names"]}),
            ),
        ]
    }

    fn meta_tool(&self, name: &str, _view: &DialectView<'_>) -> Option<MetaTool> {
        match name {
            SEARCH => Some(MetaTool::Search),
            ADD | SHOW | REMOVE => Some(MetaTool::Other),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome> {
        match name {
            SEARCH => Some(search(arguments, view)),
            ADD => Some(add(arguments, view)),
            SHOW => Some(show(self, view)),
            REMOVE => Some(remove(arguments, view)),
            _ => None,
        }
    }

    fn loaded_by(&self, name: &str, result: &str) -> Option<Vec<String>> {
        if name != ADD {
            return None;
        }
        // Only the first line is ours to trust: the others repeat what the caller sent.
        let names = result.lines().next()?.strip_prefix("Added tools: ")?;
        Some(names.split(", ").map(str::to_owned).collect())
    }

    fn unloaded_by(&self, name: &str, result: &str) -> Vec<String> {
        let first = result.lines().next().filter(|_| name == REMOVE);
        let line = first.and_then(|line| line.strip_prefix("Removed tools: "));
        line.into_iter().flat_map(|names| names.split(", ")).map(str::to_owned).collect()
    }

    fn instructions(&self, _view: &DialectView<'_>, categories: &[String]) -> String {
        let how = "The tools of this conversation are hidden until you add them.\n\
                   1. Call search_tools with a word or a regular expression for what you want to do.\n\
                   2. Call add_tool with the names that fit.\n\
                   3. Call the added tools.\n\
                   Search again, with other words, before you say that there is no tool for something.";
        prompt::section(how, categories)
    }
}

fn search(arguments: &Value, view: &DialectView<'_>) -> Outcome {
    let Some(query) = arguments.get("query").and_then(Value::as_str).filter(|query| !query.is_empty()) else {
        return Outcome::text("Error: query parameter is required");
    };
    let limit = if view.ranker.returns_all_matches() { usize::MAX } else { MAX_RANKED };
    let ranking = match view.rank(&Query::new(query).limit(limit).least_confidence(0.0)) {
        Ok(ranking) => ranking,
        Err(error @ QueryError::InvalidRegex { .. }) => return Outcome::json(json!({"error": error.to_string()})),
        Err(QueryError::Empty) => return Outcome::text("Error: query parameter is required"),
        Err(error) => return Outcome::json(json!({"error": error.to_string()})),
    };
    let matches = ranking.total;
    let mut tools: Vec<Arc<Tool>> = ranking.hits.into_iter().map(|hit| hit.tool).collect();
    if tools.is_empty() {
        tools.extend(view.names.find(query));
    }
    let searched = view.searched(query, matches, &tools);
    if tools.is_empty() {
        return Outcome::json(json!({"found": 0, "tools": [], "message": "No tools found matching the pattern"}))
            .with_searched([searched]);
    }
    let entry = |tool: &Arc<Tool>| {
        let mut entry = json!({"name": view.names.shown(tool), "description": tool.description()});
        if let Some(server) = tool.server_name().filter(|_| view.names.is_shared(tool)) {
            entry["server"] = server.into();
        }
        entry
    };
    Outcome::json(json!({
        "found": tools.len(),
        "tools": tools.iter().map(entry).collect::<Vec<_>>(),
        "message": "Found matching tools. Use 'add_tool' to load the ones you need.",
    }))
    .with_searched([searched])
}

/// `tool_names`, or a single `tool_name`; `None` when neither is there.
fn tool_names(arguments: &Value) -> Option<Vec<&str>> {
    let list = arguments.get("tool_names").and_then(Value::as_array);
    let names: Vec<&str> = match list {
        Some(list) => list.iter().filter_map(Value::as_str).collect(),
        None => arguments.get("tool_name").and_then(Value::as_str).into_iter().collect(),
    };
    (!names.is_empty()).then_some(names)
}

#[derive(Default)]
struct Added {
    tools: Vec<(Arc<Tool>, String)>,
    already: Vec<String>,
    missing: Vec<String>,
    nearest: Vec<String>,
    disambiguated: Vec<String>,
    /// Those for which there is no room.
    unloaded: Vec<String>,
}

impl Added {
    fn add(&mut self, tool: Arc<Tool>, shown: String, view: &DialectView<'_>) {
        let is_added = self.tools.iter().any(|(other, name)| Arc::ptr_eq(other, &tool) && *name == shown);
        let is_other = |name: &str| (view.is_shown)(name) && (view.shown_name)(&tool).is_none();
        // A bare name that another server's tool has already is qualified after all.
        let shown = if is_other(&shown) { view.names.shown(&tool) } else { shown };
        if (view.is_shown)(&shown) || is_added {
            self.already.push(shown);
        } else {
            self.tools.push((tool, shown));
        }
    }

    fn to_text(&self) -> String {
        let added: Vec<String> = self.tools.iter().map(|(_, name)| name.clone()).collect();
        let mut lines = Vec::new();
        let mut line = |title: &str, names: &[String]| {
            if !names.is_empty() {
                lines.push(format!("{title}: {}", names.join(", ")));
            }
        };
        line("Added tools", &added);
        line("Already available", &self.already);
        line("Not found", &self.missing);
        line("Disambiguated", &self.disambiguated);
        line("Nearest names", &self.nearest);
        line("Not added, the limit of loaded tools is reached", &self.unloaded);
        lines.join("\n")
    }
}

fn add(arguments: &Value, view: &DialectView<'_>) -> Outcome {
    let Some(names) = tool_names(arguments) else {
        return Outcome::text("Error: tool_names parameter is required");
    };
    let server = arguments.get("server").and_then(Value::as_str).filter(|server| !server.is_empty());
    let mut added = Added::default();
    for name in names {
        let tools = match server {
            Some(server) => {
                let mut tools = view.names.candidates(name);
                tools.retain(|tool| tool.server_name().is_some_and(|of| naming::fold(of) == naming::fold(server)));
                tools
            }
            None => view.names.resolve(name),
        };
        match tools.as_slice() {
            [] => {
                added.missing.push(echo(name));
                for nearest in view.names.nearest(name).into_iter().filter(|_| server.is_none()) {
                    if !added.nearest.contains(&nearest) {
                        added.nearest.push(nearest);
                    }
                }
            }
            [tool] => {
                // A name that the caller pins to one server needs no qualification.
                let shown = if server.is_some() { tool.name().to_owned() } else { view.names.shown(tool) };
                added.add(Arc::clone(tool), shown, view);
            }
            several => {
                let servers: Vec<&str> = several.iter().filter_map(|tool| tool.server_name()).collect();
                let servers = servers.join(", ");
                added.disambiguated.push(format!("{name} (found on servers: {servers}, added as separate tools)"));
                several.iter().for_each(|tool| added.add(Arc::clone(tool), view.names.shown(tool), view));
            }
        }
    }
    let (fitting, others) = view.split_loadable(std::mem::take(&mut added.tools));
    added.tools = fitting;
    added.unloaded = others.into_iter().map(|(_, name)| name).collect();
    let text = added.to_text();
    if added.tools.is_empty() {
        Outcome::text(text)
    } else {
        Outcome::text(text).with_effect(Effect::Load(added.tools))
    }
}

fn show(dialect: &Explicit, view: &DialectView<'_>) -> Outcome {
    let mut names: Vec<String> = view.tools().map(|tool| view.names.shown(tool)).collect();
    names.extend(dialect.meta_tools(view).into_iter().map(|tool| tool.name));
    names.sort_unstable();
    names.dedup();
    Outcome::json(json!({"total": names.len(), "tools": names}))
}

fn remove(arguments: &Value, view: &DialectView<'_>) -> Outcome {
    let Some(names) = tool_names(arguments) else {
        return Outcome::text("Error: tool_names parameter is required");
    };
    let (mut removed, mut others) = (Vec::new(), Vec::new());
    for name in names {
        if [SEARCH, ADD, SHOW, REMOVE].contains(&name) {
            others.push(format!("{name} (cannot remove virtual tool)"));
            continue;
        }
        // The name under which it is shown, if this is another spelling of it.
        let shown = match (view.is_shown)(name) {
            true => Some(name.to_owned()),
            false => view.names.find(name).and_then(|tool| (view.shown_name)(&tool)),
        };
        match shown {
            Some(name) if removed.contains(&name) => {}
            Some(name) if (view.is_removable)(&name) => removed.push(name),
            Some(name) => others.push(format!("{name} (always available)")),
            None => others.push(echo(name)),
        }
    }
    let mut lines = Vec::new();
    if !removed.is_empty() {
        lines.push(format!("Removed tools: {}", removed.join(", ")));
    }
    if !others.is_empty() {
        lines.push(format!("Not in active tools: {}", others.join(", ")));
    }
    let text = lines.join("\n");
    if removed.is_empty() { Outcome::text(text) } else { Outcome::text(text).with_effect(Effect::Unload(removed)) }
}
