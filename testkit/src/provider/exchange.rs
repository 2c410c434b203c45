//! The steps from a request to its answer: read, check, record, take a turn, encode.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    ask::{self, ModelRequest},
    cache::Cache,
    checks::{self, Check, Violation},
    embeddings,
    encode::{Body, NOW, encode, tokens},
    errors::{self, ErrorResponse},
    goal::{self, Step},
    http::Request,
    ids::Ids,
    memory::{Memory, conversation},
    prompt::Prompt,
    record::{Ending, Recorded},
    route::{Action, Route, Target, Vendor, Wire},
    script::{Fault, Goal, Output, Script, ScriptedError, ScriptedTurn, Sending},
};

/// The state that all requests share.
#[derive(Default)]
pub(crate) struct State {
    script: Script,
    /// The next turn.
    turn: usize,
    /// How often the model has searched in this turn.
    searches: usize,
    /// The next fault of the embeddings.
    fault: usize,
    ids: Ids,
    memory: Memory,
    cache: Cache,
    pub(crate) recorded: Vec<Recorded>,
    /// The number of the first of them; earlier ones belong to another script.
    first: usize,
}

/// An answer to send.
pub(crate) struct ProviderAnswer {
    pub(crate) reply: Reply,
    pub(crate) sending: Sending,
    /// The number of the record that waits for the ending.
    pub(crate) number: Option<usize>,
}

pub(crate) enum Reply {
    Send { status: u16, headers: Vec<(String, String)>, body: Body },
    Drop,
    Stall(Option<Duration>),
}

impl Reply {
    fn json(status: u16, body: &Value) -> Reply {
        let headers = vec![("content-type".into(), "application/json".into())];
        Reply::Send { status, headers, body: Body::Whole(body.to_string().into_bytes()) }
    }
}

impl State {
    pub(crate) fn new(script: Script) -> State {
        State { script, ..State::default() }
    }

    /// Answers a request and records it.
    pub(crate) fn answer(&mut self, request: &Request) -> ProviderAnswer {
        let target = Target::of(request);
        let body: Result<Value, _> = serde_json::from_slice(&request.body);
        let (body, invalid) = body.map_or_else(|error| (Value::Null, Some(error.to_string())), |body| (body, None));
        let number = match target {
            Target::Requests | Target::Script => None,
            _ => Some(self.record(request, &target, &body)),
        };
        let (reply, sending) = match target {
            Target::Requests => (self.tell(), Sending::default()),
            Target::Script => (self.restart(&body), Sending::default()),
            Target::Embeddings => (self.embed(request, &body), Sending::default()),
            Target::Models => (models(), Sending::default()),
            Target::Model(route) => match invalid.filter(|_| !self.script.off.contains(&Check::Required)) {
                Some(problem) => (self.refuse(&route, Check::Required, &problem), Sending::default()),
                None => self.say(&route, request, &body),
            },
            Target::Nowhere => {
                let message = format!("no endpoint {} {}", request.method, request.path());
                (self.refuse(&nowhere(request), Check::Endpoint, &message), Sending::default())
            }
        };
        if let (Some(recorded), Reply::Send { status, .. }) = (number.and_then(|number| self.at(number)), &reply) {
            recorded.status = Some(*status);
        }
        ProviderAnswer { reply, sending, number }
    }

    /// Records how the answer to a request ended.
    pub(crate) fn end(&mut self, number: usize, ending: Ending) {
        if let Some(recorded) = self.at(number) {
            recorded.ending = ending;
        }
    }

    fn at(&mut self, number: usize) -> Option<&mut Recorded> {
        self.recorded.get_mut(number.checked_sub(self.first)?)
    }

    fn record(&mut self, request: &Request, target: &Target, body: &Value) -> usize {
        let route = if let Target::Model(route) = target { Some(route) } else { None };
        self.recorded.push(Recorded {
            path: request.target.clone(),
            wire: route.map(|route| route.wire),
            vendor: route.map(|route| route.vendor),
            headers: request.headers.clone(),
            body: body.clone(),
            raw: request.body.clone(),
            violations: Vec::new(),
            prefix_share: None,
            turn: None,
            status: None,
            ending: Ending::Pending,
        });
        self.first + self.recorded.len() - 1
    }

    fn last(&mut self) -> &mut Recorded {
        self.recorded.last_mut().expect("a request is recorded before it is answered")
    }

    fn tell(&self) -> Reply {
        Reply::json(200, &self.recorded.iter().map(Recorded::to_json).collect())
    }

    fn restart(&mut self, body: &Value) -> Reply {
        match Script::from_json(body) {
            Ok(script) => {
                let first = self.first + self.recorded.len();
                *self = State { script, first, ..State::default() };
                Reply::json(200, &json!({}))
            }
            Err(error) => Reply::json(400, &json!({"error": error.to_string()})),
        }
    }

    fn embed(&mut self, request: &Request, body: &Value) -> Reply {
        let route = Route { wire: Wire::Chat, vendor: Vendor::OpenAi, action: Action::Answer, model: None };
        let locked_out = checks::locked_out(route.vendor, request, &self.script);
        if let Some(problem) = locked_out.filter(|_| !self.script.off.contains(&Check::Auth)) {
            return self.refuse(&route, Check::Auth, problem);
        }
        if let Some(fault) = self.script.embeddings.faults.get(self.fault).cloned() {
            self.fault += 1;
            return fail(&route, &fault);
        }
        match embeddings::answer(body, self.script.embeddings.dimensions) {
            Ok(answer) => Reply::json(200, &answer),
            Err(problem) => self.refuse(&route, Check::Required, &problem),
        }
    }

    /// Answers with the next turn, if the request passes the checks.
    fn say(&mut self, route: &Route, request: &Request, body: &Value) -> (Reply, Sending) {
        let stored = self.memory.stored(body).unwrap_or_default();
        let messages = self.memory.with_referred(ask::messages(route.wire, body, stored));
        let ask = ModelRequest::new(route, request, body, &messages);
        let prompt = Prompt::of(&ask);
        if let Some(violation) = self.examine(&ask, &prompt) {
            return (refusal(route, &violation), Sending::default());
        }
        if route.action == Action::Count {
            return (counted(route, &prompt), Sending::default());
        }
        match self.next_turn() {
            None => (self.refuse(route, Check::Script, "the script has no turn left"), Sending::default()),
            Some(ScriptedTurn::Fail(fault)) => (fail(route, &fault), Sending::default()),
            Some(ScriptedTurn::Say(output)) => self.speak(&ask, prompt, &output),
            Some(ScriptedTurn::Reach(goal)) => self.reach(&ask, prompt, &goal),
        }
    }

    /// Goes one step towards a goal. A search leaves the turn where it is.
    fn reach(&mut self, ask: &ModelRequest, prompt: Prompt, goal: &Goal) -> (Reply, Sending) {
        match goal::step(ask, goal, self.searches) {
            Step::Search(output) => {
                self.searches += 1;
                self.turn -= 1;
                self.speak(ask, prompt, &output)
            }
            Step::Call(output) => {
                self.searches = 0;
                self.speak(ask, prompt, &output)
            }
            Step::GiveUp(problem) => (self.refuse(ask.route, Check::Script, &problem), Sending::default()),
        }
    }

    /// Checks a request and returns the violation for which it is rejected.
    fn examine(&mut self, ask: &ModelRequest, prompt: &Prompt) -> Option<Violation> {
        let mut violations = checks::run(ask, &self.memory, &self.script, prompt, self.turn);
        let share = self.memory.conversations.get(&conversation(ask)).map(|earlier| prompt.share_of(earlier));
        let watched = self.script.stable_prefix && !self.script.off.contains(&Check::StablePrefix);
        if let Some(share) = share.filter(|share| watched && *share < 1.0) {
            let message = format!("only {:.2} % of the previous request is a prefix of this one", share * 100.0);
            violations.push(Violation { check: Check::StablePrefix, message, at: None });
        }
        let refused = violations.iter().find(|violation| violation.check.refuses()).cloned();
        let recorded = self.last();
        recorded.prefix_share = share;
        recorded.violations = violations;
        refused
    }

    fn next_turn(&mut self) -> Option<ScriptedTurn> {
        let count = self.script.turns.len();
        let place = if self.script.repeat && count > 0 { self.turn % count } else { self.turn };
        let turn = self.script.turns.get(place)?.clone();
        self.last().turn = Some(self.turn);
        self.turn += 1;
        Some(turn)
    }

    fn speak(&mut self, ask: &ModelRequest, prompt: Prompt, output: &Output) -> (Reply, Sending) {
        let sending = output.sending.clone().unwrap_or_else(|| self.script.sending.clone());
        let charge = self.cache.charge(ask, &prompt);
        match encode(ask, output, &sending, &mut self.ids, &prompt, charge) {
            Ok(encoded) => {
                self.memory.note(ask, prompt, &encoded.said, &encoded.id);
                let kind = match &encoded.body {
                    Body::Events(_) if ask.route.action != Action::Array => "text/event-stream; charset=utf-8",
                    _ => "application/json",
                };
                let headers = vec![("content-type".into(), kind.into()), ("x-request-id".into(), encoded.id)];
                (Reply::Send { status: 200, headers, body: encoded.body }, sending)
            }
            Err(problem) => (self.refuse(ask.route, Check::Script, &problem), Sending::default()),
        }
    }

    /// Answers with a violation and records it, unless the script switches the check off.
    fn refuse(&mut self, route: &Route, check: Check, message: &str) -> Reply {
        let violation = Violation { check, message: message.into(), at: None };
        let reply = refusal(route, &violation);
        if !self.script.off.contains(&check) {
            self.last().violations.push(violation);
        }
        reply
    }

    /// How many turns have been used.
    pub(crate) fn go_on(&mut self, turns: impl IntoIterator<Item = ScriptedTurn>) {
        self.script.turns.extend(turns);
    }

    pub(crate) fn turns_taken(&self) -> usize {
        self.turn
    }
}

/// The answer to a question for the length of a request.
fn counted(route: &Route, prompt: &Prompt) -> Reply {
    let key = if route.wire == Wire::Gemini { "totalTokens" } else { "input_tokens" };
    let mut count = json!({key: tokens(prompt.bytes.len())});
    if route.wire == Wire::Responses {
        count["object"] = "response.input_tokens".into();
    }
    Reply::json(200, &count)
}

/// One model, in the shape that OpenAI and Anthropic share.
fn models() -> Reply {
    let model =
        json!({"id": "scripted", "type": "model", "object": "model", "display_name": "Scripted", "created": NOW});
    Reply::json(200, &json!({"object": "list", "data": [model], "has_more": false}))
}

/// Returns the route whose provider answers an unknown path.
fn nowhere(request: &Request) -> Route {
    let (wire, vendor) = match request.path() {
        path if path.starts_with("/v1beta/") => (Wire::Gemini, Vendor::Google),
        path if path.starts_with("/minimax/") => (Wire::Chat, Vendor::MiniMax),
        path if path.contains("messages") => (Wire::Messages, Vendor::Anthropic),
        _ => (Wire::Chat, Vendor::OpenAi),
    };
    Route { wire, vendor, action: Action::Answer, model: None }
}

fn refusal(route: &Route, violation: &Violation) -> Reply {
    let status = violation.check.status(route.vendor);
    let complaint =
        ErrorResponse { status, message: &violation.message, at: violation.at.as_deref(), retry_after: None };
    Reply::json(status, &errors::body(route.vendor, route.wire, &complaint))
}

fn fail(route: &Route, fault: &Fault) -> Reply {
    match fault {
        Fault::Drop => Reply::Drop,
        Fault::Stall(time) => Reply::Stall(*time),
        Fault::Status(refusal) => fail_with(route, refusal),
    }
}

fn fail_with(route: &Route, refusal: &ScriptedError) -> Reply {
    let message = refusal.message.as_deref().unwrap_or("the script says so");
    let retry_after = refusal.retry_after.as_deref();
    let complaint = ErrorResponse { status: refusal.status, message, at: None, retry_after };
    let body = refusal.body.clone().unwrap_or_else(|| errors::body(route.vendor, route.wire, &complaint));
    let (kind, body) = match &refusal.text {
        Some(text) => ("text/html; charset=utf-8", text.clone()),
        None => ("application/json", body.to_string()),
    };
    let mut headers: Vec<(String, String)> = vec![("content-type".into(), kind.into())];
    headers.extend(retry_after.map(|seconds| ("retry-after".into(), seconds.into())));
    headers.extend(refusal.headers.iter().cloned());
    Reply::Send { status: refusal.status, headers, body: Body::Whole(body.into_bytes()) }
}
