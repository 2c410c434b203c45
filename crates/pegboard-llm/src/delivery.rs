//! Deliveries: the ways in which found tools reach a model.

use std::{fmt, sync::Arc};

use pegboard_discovery::{CallAnswer, DialectName, Reply, Session, ToolDefinition};
use serde_json::Value;

use crate::{
    model::{Model, Provider},
    wire::profile::Support,
};

/// A way in which found tools reach a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Only visible tools are sent; found ones are added at the end.
    Inject,
    /// Found tools are added at the end as deferred ones, and the result of the search refers to
    /// them, so that the prompt cache stays valid.
    Reference,
    /// All tools are sent, and the provider searches them.
    Native,
    /// The provider's own search is executed by the client; its result holds the definitions.
    ClientNative,
    /// The tool list never changes.
    Constant,
}

impl Delivery {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Inject, Self::Reference, Self::Native, Self::ClientNative, Self::Constant];

    /// Returns its name in configurations and messages.
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

/// A delivery, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The delivery.
    pub delivery: Delivery,
    /// The reason, for logs and for people.
    pub reason: String,
    /// What may go wrong with a requested delivery.
    pub warning: Option<String>,
    /// Whether the model may not support it; `false` once it has answered.
    pub(crate) is_tentative: bool,
}

impl Choice {
    /// Returns whether the model may not support it, because it is newer than the models that are known to.
    pub fn is_tentative(&self) -> bool {
        self.is_tentative
    }
}

/// A requested delivery is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delivery `{delivery}` is not possible with `{model}` and the dialect `{dialect}`: {reason}")]
pub struct DeliveryError {
    /// The requested delivery.
    pub delivery: Delivery,
    /// The model.
    pub model: String,
    /// The dialect.
    pub dialect: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// A reason against a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// The wire or the dialect cannot express it.
    Impossible(&'static str),
    /// The model is not known to understand it.
    Unverified(&'static str),
}

/// Returns the reason against a delivery, if there is one.
fn obstacle(delivery: Delivery, model: &Model, dialect: DialectName) -> Option<Obstacle> {
    use Obstacle::{Impossible, Unverified};
    let is_expressible = model.provider.wire().format().deliveries().contains(&delivery);
    let capabilities = model.capabilities();
    let is_unknown = |support: Support| support == Support::Unknown;
    let has_fixed_list = dialect.dialect().has_fixed_list();
    match delivery {
        Delivery::Inject => None,
        Delivery::Constant => (!has_fixed_list).then_some(Impossible("the tool list of this dialect changes")),
        Delivery::Reference if !is_expressible => Some(Impossible("only the Anthropic API has tool references")),
        Delivery::Reference if has_fixed_list => Some(Impossible("this dialect does not load tools")),
        Delivery::Reference => {
            let reason = "the model is not known to support tool references";
            is_unknown(capabilities.references).then_some(Unverified(reason))
        }
        Delivery::ClientNative if !is_expressible => {
            Some(Impossible("only the OpenAI Responses API has client-executed tool search"))
        }
        Delivery::ClientNative if !dialect.dialect().loads_by_search() => {
            Some(Impossible("a search of this dialect does not load tools"))
        }
        Delivery::ClientNative => {
            let reason = "the model is not known to support client-executed tool search";
            is_unknown(capabilities.client_search).then_some(Unverified(reason))
        }
        Delivery::Native if !is_expressible => Some(Impossible("the provider does not have its own tool search")),
        Delivery::Native if dialect == DialectName::Code => {
            Some(Impossible("in this dialect, programs call the tools, not the model"))
        }
        Delivery::Native => {
            let reason = "the model is not known to support the provider's tool search";
            let is_unverified = is_unknown(capabilities.references) && is_unknown(capabilities.client_search);
            is_unverified.then_some(Unverified(reason))
        }
    }
}

/// Chooses the delivery of found tools to `model`. A `requested` delivery is used wherever the wire
/// and the dialect can express it, with a warning if the model is not known to support it.
/// `native` sends every definition with every request, and is only used on request.
///
/// # Errors
/// When the wire or the dialect cannot express the requested delivery.
pub fn choose(model: &Model, dialect: DialectName, requested: Option<Delivery>) -> Result<Choice, DeliveryError> {
    if let Some(delivery) = requested {
        let asked_for = Choice { delivery, reason: "requested".to_owned(), warning: None, is_tentative: false };
        return match obstacle(delivery, model, dialect) {
            None => Ok(asked_for),
            Some(Obstacle::Unverified(reason)) => {
                let warning = format!(
                    "delivery `{delivery}` with `{model}`: {reason}; `inject` is used if the provider rejects it"
                );
                Ok(Choice { warning: Some(warning), is_tentative: true, ..asked_for })
            }
            Some(Obstacle::Impossible(reason)) => {
                Err(DeliveryError { delivery, model: model.to_string(), dialect: dialect.as_str(), reason })
            }
        };
    }
    let order = [Delivery::Constant, Delivery::Reference, Delivery::ClientNative, Delivery::Inject];
    let possible = order.into_iter().find(|delivery| obstacle(*delivery, model, dialect).is_none());
    let delivery = possible.unwrap_or(Delivery::Inject);
    let is_tentative = delivery == Delivery::Reference && model.capabilities().references == Support::Likely;
    let reason = match delivery {
        Delivery::Constant => format!("the tool list of `{}` never changes", dialect.as_str()),
        Delivery::Reference if is_tentative => {
            format!("`{}` is newer than models known to support tool references", model.name)
        }
        Delivery::Reference => format!("`{}` supports tool references", model.name),
        Delivery::ClientNative => format!("`{}` supports client-executed tool search", model.name),
        _ => format!("`{}` supports neither tool references nor client-executed tool search", model.name),
    };
    Ok(Choice { delivery, reason, warning: None, is_tentative })
}

/// Chooses the delivery for a session like [`choose`]. Options of the session may keep a list
/// constant that changes otherwise.
pub(crate) fn choose_for(
    model: &Model,
    session: &Session,
    requested: Option<Delivery>,
) -> Result<Choice, DeliveryError> {
    let dialect = session.dialect_name();
    if session.is_constant() && requested.unwrap_or(Delivery::Constant) == Delivery::Constant {
        let reason = format!("the tool list of `{}` never changes", dialect.as_str());
        return Ok(Choice { delivery: Delivery::Constant, reason, warning: None, is_tentative: false });
    }
    choose(model, dialect, requested)
}

/// Returns the delivery to use after a provider has refused another one.
pub(crate) fn fallback(delivery: Delivery, provider: Provider) -> Option<Choice> {
    match delivery {
        Delivery::Inject | Delivery::Constant => None,
        _ => {
            let reason = format!("{} rejected delivery `{delivery}`", provider.as_str());
            Some(Choice { delivery: Delivery::Inject, reason, warning: None, is_tentative: false })
        }
    }
}

/// Returns what an answer says beside the definitions of `found`, which reach the model in the
/// API's own way; `None` if it says nothing else.
pub(crate) fn note(answer: &CallAnswer, found: &[Arc<ToolDefinition>]) -> Option<String> {
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
        check("anthropic/claude-sonnet-7", DialectName::Select, Delivery::Reference);
        check("openai-responses/gpt-5.4", DialectName::Schema, Delivery::ClientNative);
        check("openai-responses/gpt-5.4", DialectName::Explicit, Delivery::Inject);
        check("openai/gpt-5.4", DialectName::Select, Delivery::Inject);
        check("gemini/gemini-3-pro", DialectName::Gateway, Delivery::Inject);
        check("minimax/MiniMax-M3", DialectName::Select, Delivery::Inject);
    }

    #[test]
    fn requests_that_are_not_possible() {
        let check = |model: &str, dialect: DialectName, requested: Delivery, is_possible: bool| {
            let model = Model::parse(model).expect("a model");
            let choice = choose(&model, dialect, Some(requested));
            assert_eq!(choice.is_ok(), is_possible, "{model} {dialect:?} {requested}");
            assert!(
                choice.is_ok_and(|choice| choice.warning.is_none()) == is_possible,
                "{model} {dialect:?} {requested}"
            );
        };
        check("anthropic/claude-opus-4-8", DialectName::Select, Delivery::Native, true);
        check("openai-responses/gpt-5.4", DialectName::Select, Delivery::Native, true);
        check("openai/gpt-5.4", DialectName::Select, Delivery::Native, false);
        check("anthropic/claude-opus-4-8", DialectName::Select, Delivery::Constant, false);
        check("anthropic/claude-opus-4-8", DialectName::Bridge, Delivery::Reference, false);
        check("anthropic/claude-opus-4-8", DialectName::Code, Delivery::Native, false);
        check("gemini/gemini-3-pro", DialectName::Select, Delivery::Reference, false);
    }

    #[test]
    fn requests_for_unknown_models_come_with_a_warning() {
        let check = |model: &str, requested: Delivery| {
            let model = Model::parse(model).expect("a model");
            let choice = choose(&model, DialectName::Select, Some(requested)).expect("a choice");
            assert_eq!(choice.delivery, requested, "{model}");
            assert!(choice.is_tentative && choice.warning.is_some(), "{model} {requested}: {choice:?}");
        };
        check("anthropic/claude-opus-4-1", Delivery::Reference);
        check("anthropic/claude-opus-4-1", Delivery::Native);
        check("minimax/MiniMax-M3", Delivery::Reference);
        check("openai-responses/gpt-5.4-nano", Delivery::ClientNative);
        check("openai-responses/another", Delivery::Native);
    }
}
