//! `bridge`: ready-to-call signatures and one call tool. The list of tools never changes.

use std::sync::Arc;

use pegboard_core::{Query, Risk, Tool};
use serde_json::{Value, json};

use super::{
    Dialect, DialectView, MetaTool,
    call_tool::{self, CALL},
    named,
};
use crate::{
    about::{ServerTools, Servers},
    outcome::{Outcome, ToolDefinition},
    prompt,
    signature::{Detail, Signature, Signatures},
    tokens::estimate_tokens,
};

const SEARCH: &str = "search_tools";
const CALL_READ: &str = "call_read_tool";
const CALL_WRITE: &str = "call_write_tool";
const CALL_DESTRUCTIVE: &str = "call_destructive_tool";

/// The sentence in the description of the search that says how found tools are called.
pub(super) const SEARCH_RESULT: &str = "Returns signatures for the call tool.";

/// Maximum number of queries in one call.
const MAX_QUERIES: usize = 5;

/// Hits with a smaller share of the best score are dropped: they cost tokens and mislead. On our
/// test sets this loses one right tool in 300.
const WORTH_A_LINE: f64 = 0.6;

/// Average number of tokens (estimated) of a hit that may be spent on optional details.
const HIT_TOKENS: usize = 52;

/// Maximum number of tools that are named when none fits well.
const NEAREST: usize = 3;

/// Maximum number of tokens (estimated) of the summary of the catalog.
const SUMMARY_TOKENS: usize = 90;

/// Maximum number of words in the summary for each server.
const SUMMARY_WORDS: usize = 3;

/// The names of all its meta-tools.
pub(super) const META_NAMES: &[&str] = &[SEARCH, CALL, CALL_READ, CALL_WRITE, CALL_DESTRUCTIVE];

#[derive(Debug)]
pub(super) struct Bridge;

/// Returns the meta-tool that calls tools of this risk, if they are separated by risk.
fn call_tool_for(risk: Risk) -> &'static str {
    match risk {
        Risk::Read => CALL_READ,
        Risk::Write => CALL_WRITE,
        Risk::Destructive => CALL_DESTRUCTIVE,
    }
}

impl Dialect for Bridge {
    fn name(&self) -> &'static str {
        "bridge"
    }

    fn default_ranker(&self) -> &'static str {
        "hybrid"
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn has_fixed_list(&self) -> bool {
        true
    }

    fn meta_tools(&self, view: &DialectView<'_>) -> Vec<ToolDefinition> {
        let mut tools = vec![ToolDefinition {
            name: SEARCH.to_owned(),
            description: format!("Find tools and how to call them. {} {SEARCH_RESULT}", summary(view)),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What you want to do"},
                    "queries": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_QUERIES},
                    "detail": {"enum": ["full"], "description": "full adds all parameter descriptions and schemas"}
                }
            }),
        }];
        if view.settings.split_by_risk {
            tools.push(call_tool::definition(CALL_READ, "Call a found tool that only reads."));
            tools.push(call_tool::definition(CALL_WRITE, "Call a found tool that adds or changes."));
            tools.push(call_tool::definition(CALL_DESTRUCTIVE, "Call a found tool that may delete or overwrite."));
        } else {
            tools.push(call_tool::definition(CALL, call_tool::DESCRIPTION));
        }
        tools
    }

    fn meta_tool(&self, name: &str, view: &DialectView<'_>) -> Option<MetaTool> {
        let is_split = view.settings.split_by_risk;
        match name {
            SEARCH => Some(MetaTool::Search),
            CALL if !is_split => Some(MetaTool::Call),
            CALL_READ | CALL_WRITE | CALL_DESTRUCTIVE if is_split => Some(MetaTool::Call),
            _ => None,
        }
    }

    fn call(&self, name: &str, arguments: &Value, view: &DialectView<'_>) -> Option<Outcome> {
        match name {
            SEARCH => Some(search(arguments, view)),
            CALL if !view.settings.split_by_risk => Some(call(arguments, None, view)),
            CALL_READ if view.settings.split_by_risk => Some(call(arguments, Some(Risk::Read), view)),
            CALL_WRITE if view.settings.split_by_risk => Some(call(arguments, Some(Risk::Write), view)),
            CALL_DESTRUCTIVE if view.settings.split_by_risk => Some(call(arguments, Some(Risk::Destructive), view)),
            _ => None,
        }
    }

    fn check_direct_call(&self, tool: &Arc<Tool>, view: &DialectView<'_>) -> Option<Outcome> {
        if view.settings.split_by_risk {
            let name = view.names.shown(tool);
            let right = call_tool_for(tool.annotations().risk());
            return Some(Outcome::error(format!("`{name}` must be called through `{right}`")));
        }
        None
    }

    fn checks_arguments(&self) -> bool {
        true
    }

    fn instructions(&self, _view: &DialectView<'_>, categories: &[String]) -> String {
        let how = "Call search_tools with what you want to do, then call the tool that fits through the call tool, \
                   with the arguments that its signature names. Several needs can go into one search.";
        prompt::section(how, categories)
    }
}

/// Returns a summary of the catalog: the largest servers, their sizes and categories.
fn summary(view: &DialectView<'_>) -> String {
    let servers = Servers::new(view.catalog, view.selection);
    let total = view.tools().count();
    let mut by_size: Vec<&ServerTools<'_>> = servers.all.iter().collect();
    by_size.sort_by(|a, b| b.tools.len().cmp(&a.tools.len()).then_with(|| a.name.cmp(b.name)));
    let mut text = format!("{total} tools");
    for (at, server) in by_size.iter().enumerate() {
        let about = servers.summary(server, SUMMARY_WORDS, "/");
        let about = if about.is_empty() { about } else { format!(" ({about})") };
        let entry = format!("{}{} {}{about}", if at == 0 { ": " } else { ", " }, server.name, server.tools.len());
        let left = by_size.len() - at;
        if estimate_tokens(&text) + estimate_tokens(&entry) > SUMMARY_TOKENS {
            let joint = if at == 0 { ": " } else { ", and " };
            text.push_str(&format!("{joint}{left} more"));
            break;
        }
        text.push_str(&entry);
    }
    text.push('.');
    text
}

/// Parses `query`, `queries`, or a query that is a list; at most five.
fn queries(arguments: &Value) -> Result<Vec<String>, String> {
    let mut queries: Vec<String> = Vec::new();
    for value in ["query", "queries"].iter().filter_map(|key| arguments.get(key)) {
        match value {
            Value::String(query) => queries.push(query.clone()),
            Value::Array(list) => queries.extend(list.iter().filter_map(Value::as_str).map(str::to_owned)),
            Value::Null => {}
            _ => return Err("`query` must be a string".to_owned()),
        }
    }
    queries.retain(|query| !query.trim().is_empty());
    if queries.is_empty() {
        return Err("`query` is required: say what you want to do".to_owned());
    }
    if queries.len() > MAX_QUERIES {
        return Err(format!("at most {MAX_QUERIES} queries at once, not {}", queries.len()));
    }
    Ok(queries)
}

/// Returns the text in place of hits: the nearest tools, so that an unnecessary doubt costs only
/// one more search.
fn nothing_fits(nearest: &[(Arc<Tool>, String)]) -> String {
    if nearest.is_empty() {
        return "No tool fits; try other words.\n".to_owned();
    }
    let names: Vec<String> = nearest.iter().take(NEAREST).map(|(_, name)| format!("`{name}`")).collect();
    format!("No tool fits well. Nearest: {}. Search for a name to see it, or try other words.\n", names.join(", "))
}

fn search(arguments: &Value, view: &DialectView<'_>) -> Outcome {
    let queries = match queries(arguments) {
        Ok(queries) => queries,
        Err(message) => return Outcome::error(message),
    };
    let is_full = arguments.get("detail").and_then(Value::as_str) == Some("full");
    let mut text = String::new();
    let mut budget = view.settings.answer_tokens;
    let mut searched = Vec::with_capacity(queries.len());
    for query in &queries {
        let settings = view.settings;
        let asked = Query {
            limit: settings.hits_per_query,
            threshold: WORTH_A_LINE,
            least_confidence: settings.least_confidence,
            ..Query::new(query)
        };
        let ranking = match view.rank(&asked) {
            Ok(ranking) => ranking,
            Err(error) => return Outcome::error(error.to_string()),
        };
        if queries.len() > 1 {
            text.push_str(&format!("{}# {}\n", if text.is_empty() { "" } else { "\n" }, prompt::one_line(query)));
        }
        let mut hits = named(&ranking.hits, view);
        // Whatever the ranker thinks of it, a tool that is named comes first.
        if let Some(tool) = view.names.find(query) {
            hits.retain(|(other, _)| !Arc::ptr_eq(other, &tool));
            let name = view.names.shown(&tool);
            hits.insert(0, (tool, name));
            hits.truncate(view.settings.hits_per_query);
        }
        searched.push(view.searched(query, ranking.total, hits.iter().map(|(tool, _)| tool)));
        if hits.is_empty() {
            text.push_str(&nothing_fits(&named(&ranking.withheld, view)));
        }
        let unmatched = match ranking.unmatched.as_slice() {
            [] => String::new(),
            words => format!("(no tool matches: {})\n", words.join(", ")),
        };
        let room = HIT_TOKENS * settings.hits_per_query;
        let room = room.saturating_sub(estimate_tokens(&unmatched)).min(budget);
        let entries = if is_full { full_entries(&hits, view, budget) } else { brief_entries(&hits, view, room) };
        for (at, Entry { text: entry, tokens }) in entries.iter().enumerate() {
            let length = tokens + 1;
            // The best hit is always worth its line.
            if length > budget && at > 0 {
                text.push_str(&format!("… {} more omitted; search for less at once\n", hits.len() - at));
                break;
            }
            budget = budget.saturating_sub(length);
            text.push_str(entry);
            text.push('\n');
        }
        text.push_str(&unmatched);
    }
    text.truncate(text.trim_end().len());
    Outcome::text(text).with_searched(searched)
}

/// The entry of one hit.
struct Entry {
    text: String,
    /// Estimated.
    tokens: usize,
}

impl Entry {
    fn new(signature: &Signature, tool: &Tool, view: &DialectView<'_>) -> Self {
        let mark = mark(tool, view);
        Self { text: format!("{}{mark}", signature.text), tokens: signature.tokens + estimate_tokens(&mark) }
    }
}

/// Returns signatures in as much detail as `room` allows.
fn brief_entries(hits: &[(Arc<Tool>, String)], view: &DialectView<'_>, room: usize) -> Vec<Entry> {
    let signatures: Vec<Arc<Signatures>> = hits.iter().map(|(tool, _)| view.names.signatures(tool)).collect();
    let marks: usize = hits.iter().map(|(tool, _)| estimate_tokens(&mark(tool, view)) + 1).sum();
    let details = details_within(&signatures, room.saturating_sub(marks));
    let entries = hits.iter().zip(&signatures).zip(details);
    entries.map(|(((tool, _), signatures), detail)| Entry::new(signatures.get(detail), tool, view)).collect()
}

/// Returns signatures with descriptions and schemas, as far as `budget` allows.
fn full_entries(hits: &[(Arc<Tool>, String)], view: &DialectView<'_>, mut budget: usize) -> Vec<Entry> {
    let entry = |(tool, name): &(Arc<Tool>, String)| {
        let mut entry = Entry::new(view.names.signatures(tool).get(Detail::Typed), tool, view);
        let definition = view.names.definition(tool, name);
        let description = prompt::one_line(&definition.description);
        // The signature line already contains a short description.
        let is_said =
            description.is_empty() || entry.text.contains(&format!(" — {}", description.trim_end_matches(['.', '。'])));
        let description = if is_said { String::new() } else { format!("\n{}", definition.description) };
        let definition = format!("{description}\n{}", definition.input_schema);
        let tokens = entry.tokens + estimate_tokens(&definition);
        if tokens < budget {
            entry = Entry { text: entry.text + &definition, tokens };
        }
        budget = budget.saturating_sub(entry.tokens + 1);
        entry
    };
    hits.iter().map(entry).collect()
}

/// Returns the details that together fit into `room`. Notes on optional parameters are dropped
/// first, then those of lower hits, then the types of their optional parameters.
fn details_within(signatures: &[Arc<Signatures>], room: usize) -> Vec<Detail> {
    let mut details = vec![Detail::Brief; signatures.len()];
    let tokens = |at: usize, detail: Detail| signatures[at].get(detail).tokens;
    let mut spent: usize = (0..signatures.len()).map(|at| tokens(at, Detail::Brief)).sum();
    let best = [(0, Detail::Typed), (0, Detail::RequiredNotes)];
    let all = [Detail::Typed, Detail::RequiredNotes, Detail::AllNotes];
    let others = all.into_iter().flat_map(|detail| (0..signatures.len()).map(move |at| (at, detail)));
    for (at, detail) in best.into_iter().chain(others).filter(|(at, _)| *at < signatures.len()) {
        let with_it = spent - tokens(at, details[at]) + tokens(at, detail);
        if detail > details[at] && with_it <= room {
            (details[at], spent) = (detail, with_it);
        }
    }
    details
}

/// Returns the effect of a call, if the server declares it; with separate call tools, the one to
/// use.
fn mark(tool: &Tool, view: &DialectView<'_>) -> String {
    let annotations = tool.annotations();
    if view.settings.split_by_risk {
        return format!(" [{}]", call_tool_for(annotations.risk()));
    }
    let mark = match (annotations.read_only, annotations.destructive) {
        (Some(true), _) | (None, None) => "",
        (_, Some(true)) => " [destroys]",
        _ => " [writes]",
    };
    mark.to_owned()
}

fn call(arguments: &Value, expected: Option<Risk>, view: &DialectView<'_>) -> Outcome {
    call_tool::call(arguments, SEARCH, view, |tool| {
        let right = tool.annotations().risk();
        let is_right = expected.is_none_or(|expected| right == expected);
        (!is_right).then(|| {
            Outcome::error(format!("`{}` must be called through `{}`", view.names.shown(tool), call_tool_for(right)))
        })
    })
}

#[cfg(test)]
mod tests;
