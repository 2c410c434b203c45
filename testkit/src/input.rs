//! Input that a tool or prompt requests from the client: with requests on the pipe in the legacy
//! era, with `input_required` results in the modern one.

use serde_json::{Map, Value, json};

use crate::{
    call::{Call, Era, Stop},
    seal,
    wire::RpcError,
};

/// A request for input.
pub(crate) struct InputRequest {
    key: &'static str,
    method: &'static str,
    params: Value,
}

/// Answers by the key of their request.
pub(crate) type Answers = Map<String, Value>;

impl InputRequest {
    /// Requests a form from the user.
    pub(crate) fn elicit(key: &'static str, message: &str, schema: Value) -> InputRequest {
        let mut params = json!({"message": message});
        params["requestedSchema"] = schema;
        InputRequest { key, method: "elicitation/create", params }
    }

    /// Requests a completion from the client's model.
    pub(crate) fn sample(key: &'static str, prompt: &str, max_tokens: u64) -> InputRequest {
        let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
        InputRequest {
            key,
            method: "sampling/createMessage",
            params: json!({"messages": [message], "maxTokens": max_tokens}),
        }
    }

    /// Requests the client's roots.
    pub(crate) fn roots(key: &'static str) -> InputRequest {
        InputRequest { key, method: "roots/list", params: json!({}) }
    }

    /// Returns the capability that the client must declare for this request.
    pub(crate) fn capability(&self) -> &'static str {
        self.method.split('/').next().unwrap_or(self.method)
    }
}

/// Asks for everything in `asks` and returns the answers. In the modern era that takes a
/// round trip: the first call stops with an `input_required` result, the retry comes
/// back with answers and, if there is one, with `state`.
pub(crate) fn gather(call: &Call, asks: &[InputRequest], state: Option<&Value>) -> Result<Answers, Stop> {
    call.require(asks.iter().map(InputRequest::capability))?;
    match call.client.era {
        Era::Legacy => asks.iter().map(|ask| Ok((ask.key.to_owned(), question(call, ask)?))).collect(),
        Era::Modern => read_responses(call, asks, state),
    }
}

/// Returns the state of a retry. It comes from the client, so only a sealed state is accepted.
pub(crate) fn carried_state(call: &Call) -> Result<Option<Value>, Stop> {
    match &call.request.params["requestState"] {
        Value::Null => Ok(None),
        sealed => match sealed.as_str().and_then(|sealed| seal::open(&origin(call), sealed)) {
            Some(state) => Ok(Some(state)),
            None => Err(RpcError::invalid_params("`requestState` is not what this server sent").into()),
        },
    }
}

/// Sends one question and waits for its answer.
fn question(call: &Call, ask: &InputRequest) -> Result<Value, Stop> {
    let (id, answers) = call.server.questions.open(&call.request.id);
    // A cancellation that came earlier found no question to close, and would leave this
    // one waiting for ever.
    if call.cancel.is_cancelled() {
        call.server.questions.close(&call.request.id);
        return Err(Stop::Silent);
    }
    call.server.output.request(id, ask.method, &ask.params);
    let answer = answers.recv().map_err(|_| Stop::Silent)?;
    let answer = answer.map_err(|error| Stop::Failed(format!("{} was refused: {error}", ask.method)))?;
    match check(ask, &answer) {
        Ok(true) => Ok(answer),
        Ok(false) => Err(Stop::Failed(format!("the answer to {} lacks required fields", ask.method))),
        Err(problem) => Err(Stop::Failed(problem)),
    }
}

fn read_responses(call: &Call, asks: &[InputRequest], state: Option<&Value>) -> Result<Answers, Stop> {
    let has_state = carried_state(call)?.is_some();
    let responses = match call.request.params.get("inputResponses") {
        None => return Err(ask_again(call, asks, state)),
        Some(Value::Object(responses)) => responses,
        Some(_) => return Err(RpcError::invalid_params("`inputResponses` must be an object").into()),
    };
    let mut answers = Answers::new();
    for ask in asks {
        let Some(answer) = responses.get(ask.key) else { continue };
        // Not an answer at all is an error; an incomplete one is asked for again.
        if check(ask, answer).map_err(RpcError::invalid_params)? {
            answers.insert(ask.key.to_owned(), answer.clone());
        }
    }
    let complete = answers.len() == asks.len() && (has_state || state.is_none());
    if complete { Ok(answers) } else { Err(ask_again(call, asks, state)) }
}

fn ask_again(call: &Call, asks: &[InputRequest], state: Option<&Value>) -> Stop {
    let requests: Map<String, Value> =
        asks.iter().map(|ask| (ask.key.to_owned(), json!({"method": ask.method, "params": ask.params}))).collect();
    let mut result = json!({"inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = seal::seal(&origin(call), state).into();
    }
    Stop::InputRequired(result)
}

/// Returns the request that a sealed state is bound to.
fn origin(call: &Call) -> String {
    format!("{} {}", call.request.method, call.request.params["name"])
}

/// Returns whether an answer is complete; an error if it is not an answer to `ask`.
fn check(ask: &InputRequest, answer: &Value) -> Result<bool, String> {
    let is_answer = match ask.method {
        "elicitation/create" => ["accept", "decline", "cancel"].iter().any(|action| answer["action"] == *action),
        "sampling/createMessage" => answer["content"].is_object() || answer["content"].is_array(),
        _ => answer["roots"].is_array(),
    };
    if !is_answer {
        return Err(format!("{answer} is no answer to {}", ask.method));
    }
    Ok(answer["action"] != "accept" || fits(&ask.params["requestedSchema"], &answer["content"]))
}

/// Returns whether a form has its required fields, and fields of the right types.
fn fits(schema: &Value, content: &Value) -> bool {
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut fields = schema["properties"].as_object().into_iter().flatten();
    required.all(|key| content.get(key).is_some())
        && fields.all(|(key, field)| content.get(key).is_none_or(|value| has_type(value, &field["type"])))
}

fn has_type(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("array") => value.is_array(),
        _ => true,
    }
}
