//! The tools of one server.

use std::collections::BTreeMap;

use pegboard_llm::{Provider, schemas};
use pegboard_upstream::{Item, json::Fields};

use super::{
    finding::{Check, Finding, count, listed},
    start::Patient,
};

/// Bytes of a description from which on it is too much of a good thing.
const LONG: usize = 4_000;

/// Lines that show what is wrong.
const MOST_DETAILS: usize = 5;

/// What is wrong with what a server offers.
pub(super) fn look(patient: &Patient) -> Vec<Finding> {
    let tools = &patient.tools;
    let findings = [broken(&patient.warnings), undescribed(tools), endless(tools)];
    let findings = findings.into_iter().flatten().chain(refused(tools));
    findings.map(|finding| finding.of(&patient.name)).collect()
}

/// What was mended when the lists came.
fn broken(warnings: &[String]) -> Option<Finding> {
    let verb = if warnings.len() == 1 { "is" } else { "are" };
    let message = format!(
        "{} of its lists {verb} broken; Pegboard mends them or leaves them out, other clients may refuse them",
        count(warnings.len(), "entry").replace("entrys", "entries")
    );
    let hint = "nothing has to be done; tell whoever makes the server";
    let finding = || Finding::note(Check::BrokenList, message, hint).details(shortened(warnings.to_vec()));
    (!warnings.is_empty()).then(finding)
}

fn text(item: &Item, key: &str) -> String {
    Fields::of(&item.raw).and_then(|fields| fields.text(key)).unwrap_or_default()
}

fn undescribed(tools: &[Item]) -> Option<Finding> {
    let names: Vec<&str> =
        tools.iter().filter(|tool| text(tool, "description").trim().is_empty()).map(|tool| tool.key.as_str()).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    let message = format!("{} {verb} no description: {}", count(names.len(), "tool"), listed(names.iter().copied()));
    let hint = "models and searches find them by their names alone; describe them with a `description_enricher` \
                under `middleware`, or tell whoever makes the server";
    (!names.is_empty()).then(|| Finding::warning(Check::MissingDescription, message, hint))
}

fn endless(tools: &[Item]) -> Option<Finding> {
    let lengths = tools.iter().map(|tool| (tool.key.as_str(), text(tool, "description").len()));
    let long: Vec<(&str, usize)> = lengths.filter(|(_, length)| *length > LONG).collect();
    let longest = long.iter().map(|(_, length)| *length).max()?;
    let verb = if long.len() == 1 { "has a description" } else { "have descriptions" };
    let message = format!(
        "{} {verb} of up to {longest} bytes: {}",
        count(long.len(), "tool"),
        listed(long.iter().map(|(name, _)| *name))
    );
    let hint = "each costs its length in every conversation that shows it; hide them behind a search (`dialect`), or \
                leave out what you do not need (`tool_filter`)";
    Some(Finding::warning(Check::LongDescription, message, hint))
}

/// Schemas that providers refuse, those of one reason together.
fn refused(tools: &[Item]) -> Vec<Finding> {
    let mut by_providers: BTreeMap<String, (Vec<&str>, Vec<String>)> = BTreeMap::new();
    for tool in tools {
        let schema = Fields::of(&tool.raw).and_then(|fields| fields.read::<serde_json::Value>("inputSchema"));
        for refusal in schema.iter().flat_map(schemas::refusals) {
            let (names, reasons) = by_providers.entry(providers(refusal.providers)).or_default();
            if names.last() != Some(&tool.key.as_str()) {
                names.push(&tool.key);
            }
            let place = if refusal.place.is_empty() { "its schema".to_owned() } else { format!("`{}`", refusal.place) };
            reasons.push(format!("{}: {place} {}", tool.key, refusal.reason));
        }
    }
    let finding = |(providers, (names, reasons)): (String, (Vec<&str>, Vec<String>))| {
        let verb = if names.len() == 1 { "has a schema" } else { "have schemas" };
        let message =
            format!("{} {verb} that {providers} may refuse, and with it the whole request", count(names.len(), "tool"));
        let hint = "Pegboard hands schemas on as they are: the dialect `bridge` shows them to models as text, which \
                    nobody refuses; with others leave the tools out (`tool_filter`), or tell whoever makes the server";
        Finding::warning(Check::RefusedSchema, message, hint).details(shortened(reasons))
    };
    by_providers.into_iter().map(finding).collect()
}

/// `anthropic, openai and gemini`; two doors of one provider are one.
fn providers(providers: &[Provider]) -> String {
    let names: Vec<&str> = providers
        .iter()
        .filter(|provider| **provider != Provider::OpenAiResponses)
        .map(|provider| match provider {
            Provider::Anthropic => "Anthropic",
            Provider::Gemini => "Gemini",
            Provider::OpenAi | Provider::OpenAiResponses => "OpenAI",
            Provider::MiniMax | Provider::MiniMaxChat => "MiniMax",
        })
        .collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The first lines, and how many there are more.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MOST_DETAILS);
    lines.truncate(MOST_DETAILS);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}
