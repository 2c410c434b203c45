//! Checks of the tools of one server.

use pegboard_discovery::{DialectName, Exposure};
use pegboard_gateway::{GatewaySettings, Profile};
use pegboard_llm::{
    Provider,
    schemas::{self, SchemaRefusal},
};
use pegboard_mcp::json::Fields;
use pegboard_upstream::Item;
use serde_json::Value;

use super::{
    finding::{Check, Finding, count, join_names},
    start::CheckedServer,
};

/// Maximum recommended size of a description.
const LONG: usize = 4_000;

/// Maximum number of detail lines.
const MOST_DETAILS: usize = 5;

/// Checks the tools of a server.
pub(super) fn check_tools(checked_server: &CheckedServer, settings: &GatewaySettings) -> Vec<Finding> {
    let tools = &checked_server.tools;
    let are_texts = settings.profile == Profile::Dialect(DialectName::Bridge)
        && matches!(settings.exposure, Exposure::Always)
        && settings.clients.is_empty();
    let findings = [
        find_broken_lists(&checked_server.warnings),
        find_missing_descriptions(tools),
        find_long_descriptions(tools),
        find_rejected_schemas(tools, are_texts),
    ];
    findings.into_iter().flatten().map(|finding| finding.of(&checked_server.name)).collect()
}

/// Finds list entries that were repaired or skipped.
fn find_broken_lists(warnings: &[String]) -> Option<Finding> {
    let verb = if warnings.len() == 1 { "is" } else { "are" };
    let message = format!(
        "{} of its lists {verb} invalid; Pegboard repairs or skips them, but other clients may reject them",
        count(warnings.len(), "entry").replace("entrys", "entries")
    );
    let hint = "no action needed; report it to the maintainer of the server";
    let finding = || Finding::note(Check::BrokenList, message, hint).details(limit_details(warnings.to_vec()));
    (!warnings.is_empty()).then(finding)
}

fn text(item: &Item, key: &str) -> String {
    Fields::of(&item.raw).and_then(|fields| fields.text(key)).unwrap_or_default()
}

fn find_missing_descriptions(tools: &[Item]) -> Option<Finding> {
    let names: Vec<&str> =
        tools.iter().filter(|tool| text(tool, "description").trim().is_empty()).map(|tool| tool.key.as_str()).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    let message =
        format!("{} {verb} no description: {}", count(names.len(), "tool"), join_names(names.iter().copied()));
    let hint = "models and searches can find them only by name; describe them with a `description_enricher` under \
                `middleware`, or report it to the maintainer of the server";
    (!names.is_empty()).then(|| Finding::warning(Check::MissingDescription, message, hint))
}

fn find_long_descriptions(tools: &[Item]) -> Option<Finding> {
    let lengths = tools.iter().map(|tool| (tool.key.as_str(), text(tool, "description").len()));
    let long: Vec<(&str, usize)> = lengths.filter(|(_, length)| *length > LONG).collect();
    let longest = long.iter().map(|(_, length)| *length).max()?;
    let verb = if long.len() == 1 { "has a description" } else { "have descriptions" };
    let message = format!(
        "{} {verb} of up to {longest} bytes: {}",
        count(long.len(), "tool"),
        join_names(long.iter().map(|(name, _)| *name))
    );
    let hint = "each uses tokens in every conversation that shows it; use tool search (`dialect`), or hide tools that \
                you do not need (`tool_filter`)";
    Some(Finding::warning(Check::LongDescription, message, hint))
}

/// Finds schemas that providers reject.
fn find_rejected_schemas(tools: &[Item], are_texts: bool) -> Option<Finding> {
    let mut names = Vec::new();
    let mut reasons = Vec::new();
    for tool in tools {
        let schema = Fields::of(&tool.raw).and_then(|fields| fields.read::<Value>("inputSchema"));
        let refusals: Vec<SchemaRefusal> = schema.iter().flat_map(schemas::refusals).collect();
        if !refusals.is_empty() {
            names.push(tool.key.as_str());
        }
        for SchemaRefusal { providers: refusing, place, reason } in refusals {
            let place = if place.is_empty() { "its schema".to_owned() } else { format!("`{place}`") };
            reasons.push(format!("{}: {place} {reason} ({})", tool.key, providers(&refusing)));
        }
    }
    if names.is_empty() {
        return None;
    }
    let verb = if names.len() == 1 { "has a schema" } else { "have schemas" };
    let tools = count(names.len(), "tool");
    let finding = if are_texts {
        let message = format!("{tools} {verb} that providers may reject; models see them as text");
        Finding::note(Check::RefusedSchema, message, "no action needed while the dialect is `bridge`")
    } else {
        let message = format!("{tools} {verb} that providers may reject, and with them the whole request");
        let hint = "Pegboard passes schemas on unchanged; `\"dialect\": \"bridge\"` shows them to models as text, which \
                    providers accept; or hide the tools (`tool_filter`), and report it to the server's maintainer";
        Finding::warning(Check::RefusedSchema, message, hint)
    };
    Some(finding.details(limit_details(reasons)))
}

/// Joins the names of vendors, each once: `Anthropic, OpenAI`.
fn providers(providers: &[Provider]) -> String {
    let mut names: Vec<&str> = providers.iter().map(|provider| provider.vendor()).collect();
    names.dedup();
    names.join(", ")
}

/// Returns the first lines, and the number of the others.
fn limit_details(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MOST_DETAILS);
    lines.truncate(MOST_DETAILS);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}
