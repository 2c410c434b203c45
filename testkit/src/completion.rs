//! `completion/complete`: words that begin with what has been typed.

use serde_json::{Value, json};

use crate::{
    call::{Call, Outcome},
    wire::RpcError,
};

const WORDS: [&str; 6] = ["paris", "park", "party", "test", "tester", "testing"];
const IDS: [&str; 4] = ["1", "12", "123", "2"];

pub(crate) fn complete(call: &Call) -> Outcome {
    let (reference, argument) = (&call.request.params["ref"], &call.request.params["argument"]);
    let (Some(name), Some(typed)) = (argument["name"].as_str(), argument["value"].as_str()) else {
        return Err(RpcError::invalid_params("`argument` must have a name and a value").into());
    };
    let candidates = candidates(reference, name)
        .ok_or_else(|| RpcError::invalid_params(format!("nothing to complete: {reference}, argument `{name}`")))?;
    let values: Vec<&str> = candidates.iter().filter(|word| word.starts_with(typed)).copied().collect();
    Ok(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}))
}

fn candidates(reference: &Value, argument: &str) -> Option<&'static [&'static str]> {
    let of = |key: &str| reference[key].as_str().unwrap_or_default();
    match (of("type"), of("name"), of("uri"), argument) {
        ("ref/prompt", "test_prompt_with_arguments", _, "arg1" | "arg2") => Some(&WORDS),
        ("ref/resource", _, "test://template/{id}/data", "id") => Some(&IDS),
        _ => None,
    }
}
