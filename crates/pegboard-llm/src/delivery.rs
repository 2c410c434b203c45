//! How a provider is told of tools that were found.

use std::{fmt, sync::Arc};

use pegboard_discovery::{Answer, DialectName, Reply, ToolDefinition};
use serde_json::Value;

use crate::model::{Model, Provider};

/// How a provider is told of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Only visible tools are sent; found ones are put at the end.
    Inject,
    /// Found tools are put at the end as deferred ones, and the search is answered with
    /// references to them: what the provider has cached stays.
    Reference,
    /// All tools are sent, and the provider searches them itself.
    Native,
    /// The provider has a search of its own that we carry out; definitions go back with the
    /// answer.
    ClientNative,
    /// The list never changes.
    Constant,
}

impl Delivery {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Inject, Self::Reference, Self::Native, Self::ClientNative, Self::Constant];

    /// The name that people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inject => "inject",
            Self::Reference => "reference",
            Self::Native => "native",
            Self::ClientNative => "client-native",
            Self::Constant => "constant",
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A delivery, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The delivery.
    pub delivery: Delivery,
    /// The reason, for logs and for people.
    pub reason: String,
}

/// A delivery that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{delivery}` is not possible with `{model}` and the dialect `{dialect}`: {reason}")]
pub struct DeliveryError {
    /// What was asked for.
    pub delivery: Delivery,
    /// Of which model.
    pub model: String,
    /// In which dialect.
    pub dialect: &'static str,
    /// Why not.
    pub reason: &'static str,
}

/// Whether a dialect's search alone makes tools known, so that its answer can carry them.
fn loads_by_search(dialect: DialectName) -> bool {
    matches!(dialect, DialectName::Select | DialectName::Schema | DialectName::Gateway)
}

/// Whether the visible list of a dialect never changes.
fn is_constant(dialect: DialectName) -> bool {
    matches!(dialect, DialectName::Bridge | DialectName::Ranked | DialectName::Code)
}

/// Why a delivery cannot be had, if it cannot.
fn obstacle(delivery: Delivery, model: &Model, dialect: DialectName) -> Option<&'static str> {
    match delivery {
        Delivery::Inject => None,
        Delivery::Constant if !is_constant(dialect) => Some("the list of this dialect changes"),
        Delivery::Constant => None,
        Delivery::Reference if !model.knows_references() => Some("the model does not know references to tools"),
        Delivery::Reference if is_constant(dialect) => Some("nothing is ever loaded"),
        Delivery::Reference => None,
        Delivery::ClientNative if !model.knows_client_search() => {
            Some("the model has no search that a client carries out")
        }
        Delivery::ClientNative if !loads_by_search(dialect) => Some("a search of this dialect loads nothing"),
        Delivery::ClientNative => None,
        Delivery::Native if !model.knows_references() && !model.knows_client_search() => {
            Some("the model has no search of its own")
        }
        Delivery::Native if dialect == DialectName::Code => Some("programs call the tools, not the model"),
        Delivery::Native => None,
    }
}

/// Chooses how `model` is told of tools. `wish` is kept if it is possible; `native` sends
/// every definition with every request, and so is never chosen without being wished for.
///
/// # Errors
/// When the wish cannot be had.
pub fn choose(model: &Model, dialect: DialectName, wish: Option<Delivery>) -> Result<Choice, DeliveryError> {
    if let Some(delivery) = wish {
        return match obstacle(delivery, model, dialect) {
            None => Ok(Choice { delivery, reason: "asked for".to_owned() }),
            Some(reason) => {
                Err(DeliveryError { delivery, model: model.to_string(), dialect: dialect.as_str(), reason })
            }
        };
    }
    let order = [Delivery::Constant, Delivery::Reference, Delivery::ClientNative, Delivery::Inject];
    let possible = order.into_iter().find(|delivery| obstacle(*delivery, model, dialect).is_none());
    let delivery = possible.unwrap_or(Delivery::Inject);
    let reason = match delivery {
        Delivery::Constant => format!("the list of `{}` never changes", dialect.as_str()),
        Delivery::Reference => format!("`{}` knows references to tools", model.name),
        Delivery::ClientNative => format!("`{}` has a search that a client carries out", model.name),
        _ => format!("`{}` knows no way to be told of tools later", model.name),
    };
    Ok(Choice { delivery, reason })
}

/// What to try after a provider has refused a delivery.
pub(crate) fn fallback(delivery: Delivery, provider: Provider) -> Option<Choice> {
    match delivery {
        Delivery::Inject | Delivery::Constant => None,
        _ => {
            let reason = format!("{} refused `{delivery}`", provider.as_str());
            Some(Choice { delivery: Delivery::Inject, reason })
        }
    }
}

/// What an answer says beside the definitions of `found`, which reach the model in the wire's
/// own way; `None` where that is everything. Definitions are not said twice.
pub(crate) fn note(answer: &Answer, found: &[Arc<ToolDefinition>]) -> Option<String> {
    let Reply::Json(reply) = &answer.reply else { return Some(answer.reply.to_text()) };
    let mut reply = reply.clone();
    let missing = reply.get("missing").and_then(Value::as_array).is_some_and(|missing| !missing.is_empty());
    let Some(matches) = reply.get_mut("matches").and_then(Value::as_array_mut) else { return Some(reply.to_string()) };
    let name = |hit: &Value| hit.as_str().or_else(|| hit.get("name")?.as_str()).unwrap_or_default().to_owned();
    let is_found = |hit: &Value| found.iter().any(|tool| tool.name == name(hit));
    if !answer.is_error && !missing && matches.iter().all(is_found) {
        return None;
    }
    for hit in matches.iter_mut().filter_map(Value::as_object_mut) {
        hit.retain(|key, _| !matches!(key.as_str(), "description" | "parameters"));
    }
    Some(reply.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        let check = |model: &str, dialect: DialectName, expected: Delivery| {
            let model = Model::parse(model).expect("a model");
            let choice = choose(&model, dialect, None).expect("a choice");
            assert_eq!(choice.delivery, expected, "{model} {dialect:?}");
            assert!(!choice.reason.is_empty());
        };
        check("anthropic/claude-opus-4-8", DialectName::Select, Delivery::Reference);
        check("anthropic/claude-opus-4-8", DialectName::Bridge, Delivery::Constant);
        check("anthropic/claude-opus-4-1", DialectName::Select, Delivery::Inject);
        check("anthropic/claude-opus-4-8", DialectName::Code, Delivery::Constant);
        check("openai-responses/gpt-5.4", DialectName::Schema, Delivery::ClientNative);
        check("openai-responses/gpt-5.4", DialectName::Explicit, Delivery::Inject);
        check("openai/gpt-5.4", DialectName::Select, Delivery::Inject);
        check("gemini/gemini-3-pro", DialectName::Gateway, Delivery::Inject);
        check("minimax/MiniMax-M3", DialectName::Select, Delivery::Inject);
    }

    #[test]
    fn wishes_that_cannot_be_had() {
        let check = |model: &str, dialect: DialectName, wish: Delivery, is_possible: bool| {
            let model = Model::parse(model).expect("a model");
            assert_eq!(choose(&model, dialect, Some(wish)).is_ok(), is_possible, "{model} {dialect:?} {wish}");
        };
        check("anthropic/claude-opus-4-8", DialectName::Select, Delivery::Native, true);
        check("openai-responses/gpt-5.4", DialectName::Select, Delivery::Native, true);
        check("openai/gpt-5.4", DialectName::Select, Delivery::Native, false);
        check("anthropic/claude-opus-4-8", DialectName::Select, Delivery::Constant, false);
        check("anthropic/claude-opus-4-8", DialectName::Bridge, Delivery::Reference, false);
        check("anthropic/claude-opus-4-8", DialectName::Code, Delivery::Native, false);
        check("gemini/gemini-3-pro", DialectName::Select, Delivery::Reference, false);
    }
}
