//! One run: the model speaks, tools are called, until there is an answer.

use std::{path::PathBuf, sync::Arc, time::Instant};

use pegboard_discovery::{HostTool, Target};
use pegboard_llm::{
    Called,
    wire::{CallResult, Delta, Stop, ToolCall, Turn, Usage},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    agent::{Answer, Reached, RunError, Shared, Tell},
    calls::Done,
    events::Event,
    state::Talk,
};

/// What this run has come to so far.
#[derive(Default)]
struct Progress {
    turns: u32,
    usage: Usage,
    /// Whether the model was reminded to hand its answer over.
    is_reminded: bool,
}

/// The answers to the calls of one turn.
struct Answered {
    results: Vec<CallResult>,
    /// What a tool that ends the run was called with.
    output: Option<Value>,
}

impl Shared {
    pub(crate) async fn run(&self, prompt: String, tell: &Tell) -> Result<Answer, RunError> {
        let mut talk = self.talk.lock().await;
        talk.settle();
        self.check_budget(&talk)?;
        self.make_room(&mut talk, false, tell).await?;
        talk.say(&prompt);
        let ended = self.go_on(&mut talk, tell).await;
        if ended.is_err() {
            talk.settle();
        }
        self.keep(&talk, tell).await;
        ended
    }

    async fn go_on(&self, talk: &mut Talk, tell: &Tell) -> Result<Answer, RunError> {
        let mut progress = Progress::default();
        loop {
            self.check(talk, &progress)?;
            self.make_room(talk, true, tell).await?;
            self.refresh(talk);
            let turn = self.turn(talk, tell).await?;
            progress.turns += 1;
            progress.usage = add(progress.usage, turn.usage);
            self.keep(talk, tell).await;
            if turn.calls.is_empty() {
                if turn.stop == Stop::Pause || self.remind(talk, &mut progress) {
                    continue;
                }
                return Ok(self.finish(turn, None, &progress));
            }
            let before = talk.conversation.session().list_changes();
            let answered = self.answer(talk, &turn.calls, tell).await;
            talk.answer(&answered.results);
            let session = talk.conversation.session();
            if session.list_changes() != before {
                tell_of(tell, || Event::ToolsChanged { visible: session.visible_names() });
            }
            self.keep(talk, tell).await;
            if answered.output.is_some() {
                return Ok(self.finish(turn, answered.output, &progress));
            }
        }
    }

    fn finish(&self, turn: Turn, output: Option<Value>, progress: &Progress) -> Answer {
        Answer {
            text: turn.text,
            output,
            stop: turn.stop,
            turns: progress.turns,
            usage: progress.usage,
            cost: self.prices.map(|prices| prices.cost(progress.usage)),
        }
    }

    /// Takes in tools that came, went or changed.
    pub(crate) fn refresh(&self, talk: &mut Talk) {
        if talk.sources.refresh() {
            let catalog = talk.sources.catalog().clone();
            self.hands.set_catalog(catalog.clone());
            let gone = talk.conversation.session_mut().update(catalog);
            if !gone.is_empty() {
                tracing::info!(tools = gone.join(", "), "tools are gone");
            }
        }
    }

    async fn turn(&self, talk: &mut Talk, tell: &Tell) -> Result<Turn, RunError> {
        let mut pieces = |delta| {
            let _ = match delta {
                Delta::Text(text) => tell.send(Event::Text(text)),
                Delta::Thinking(text) => tell.send(Event::Thinking(text)),
                Delta::Call(_) => Ok(()),
            };
        };
        let turn = self.client.next_turn(&mut talk.conversation, &mut pieces).await?;
        talk.heard(&turn);
        let _ = tell.send(Event::Turn { usage: turn.usage });
        Ok(turn)
    }

    /// A model that has ended without handing its answer over is told to, once.
    fn remind(&self, talk: &mut Talk, progress: &mut Progress) -> bool {
        let Some(tool) = self.output_tool.as_ref().filter(|_| !progress.is_reminded) else { return false };
        progress.is_reminded = true;
        talk.say(&format!("Hand over your answer by calling `{tool}`."));
        true
    }

    fn check(&self, talk: &Talk, progress: &Progress) -> Result<(), RunError> {
        if progress.turns >= self.limits.turns {
            return Err(RunError::Limit(Reached::Turns(self.limits.turns)));
        }
        self.check_budget(talk)
    }

    fn check_budget(&self, talk: &Talk) -> Result<(), RunError> {
        let spent = talk.spent.input + talk.spent.output;
        if let Some(most) = self.limits.tokens.filter(|most| spent >= *most) {
            return Err(RunError::Limit(Reached::Tokens { spent, most }));
        }
        let spent = self.prices.map_or(0.0, |prices| prices.cost(talk.spent));
        match self.limits.cost.filter(|most| spent >= *most) {
            Some(most) => Err(RunError::Limit(Reached::Cost { spent, most })),
            None => Ok(()),
        }
    }

    /// Answers the calls of one turn. Meta-tools first and in their order: they decide what
    /// is visible. The others at the same time.
    async fn answer(&self, talk: &mut Talk, calls: &[ToolCall], tell: &Tell) -> Answered {
        let mut results: Vec<Option<CallResult>> = Vec::with_capacity(calls.len());
        let mut running = JoinSet::new();
        let slots = Arc::new(Semaphore::new(self.limits.parallel_calls.max(1)));
        let mut output = None;
        for (place, call) in calls.iter().enumerate() {
            let began = Instant::now();
            match resolve(talk, call) {
                Called::Answered(mut result) => {
                    tell_of(tell, || started(call, None));
                    let kept = self.put_aside(talk, &mut result).await;
                    tell_of(tell, || finished(&result, kept, began));
                    results.push(Some(result));
                }
                Called::Invoke(target) => {
                    tell_of(tell, || started(call, Some(&target)));
                    let ends = self.ends_run(&target).then(|| target.arguments.clone());
                    let (hands, slots, tell) = (Arc::clone(&self.hands), Arc::clone(&slots), tell.clone());
                    let (call, name) = (call.clone(), target.name.clone());
                    let may_offload = !is_reader(&target) && has_reader(talk);
                    running.spawn(async move {
                        let _slot = slots.acquire_owned().await;
                        let began = Instant::now();
                        let done = hands.carry_out(target).await;
                        let is_error = done.is_error;
                        let (text, kept) =
                            if may_offload { hands.offload(&name, done).await } else { (done.text, None) };
                        let result = CallResult { call, text, is_error, references: Vec::new() };
                        tell_of(&tell, || finished(&result, kept, began));
                        (place, result, ends.filter(|_| !is_error))
                    });
                    results.push(None);
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            // A tool that panics has no result; what is missing is filled in below.
            if let Ok((place, result, ends)) = ended {
                results[place] = Some(result);
                output = output.or(ends);
            }
        }
        let results = calls.iter().zip(results).map(|(call, result)| result.unwrap_or_else(|| broken(call)));
        Answered { results: results.collect(), output }
    }

    /// Offloads an answer of a meta-tool that is too large: a pattern may match thousands. One
    /// that says what was loaded stays, for whoever rebuilds the session from the history.
    async fn put_aside(&self, talk: &Talk, result: &mut CallResult) -> Option<PathBuf> {
        let says_loaded = talk.conversation.session().dialect().loaded_by(&result.call.name, &result.text).is_some();
        if says_loaded || !result.references.is_empty() || !has_reader(talk) {
            return None;
        }
        let done = Done { text: std::mem::take(&mut result.text), value: None, is_error: result.is_error };
        let (text, kept) = self.hands.offload(&result.call.name, done).await;
        result.text = text;
        kept
    }

    /// Whether a call of this tool is the answer.
    fn ends_run(&self, target: &Target) -> bool {
        let is_own = target.server.is_none();
        is_own && self.hands.registry.find(&target.name).is_some_and(|tool| tool.meta.ends_run)
    }
}

/// What a call means: an answer at once, or something to be done.
fn resolve(talk: &mut Talk, call: &ToolCall) -> Called {
    if call.arguments.is_null() {
        let text = format!("the arguments of `{}` are not JSON; nothing was called", call.name);
        return Called::Answered(CallResult { call: call.clone(), text, is_error: true, references: Vec::new() });
    }
    talk.conversation.call(call)
}

fn is_reader(target: &Target) -> bool {
    target.server.is_none() && HostTool::OUTPUTS.iter().any(|reader| reader.name() == target.name)
}

/// Whether the model could read an output that is offloaded.
fn has_reader(talk: &Talk) -> bool {
    let listed = talk.conversation.session().listed();
    let is_reader = |name: &str| HostTool::OUTPUTS.iter().any(|reader| reader.name() == name);
    listed.iter().any(|listed| {
        let is_own = listed.tool.is_some_and(|tool| tool.is_own());
        is_own && is_reader(&listed.definition.name)
    })
}

/// What is said of a call whose tool has failed altogether.
fn broken(call: &ToolCall) -> CallResult {
    let Done { text, is_error, .. } = Done::error(format!("`{}` broke down", call.name));
    CallResult { call: call.clone(), text, is_error, references: Vec::new() }
}

/// Tells of something, if anybody listens.
fn tell_of(tell: &Tell, event: impl FnOnce() -> Event) {
    if !tell.is_closed() {
        let _ = tell.send(event());
    }
}

fn started(call: &ToolCall, target: Option<&Target>) -> Event {
    let other = target.map(|target| target.name.clone()).filter(|name| *name != call.name);
    let arguments = target.map_or_else(|| call.arguments.clone(), |target| target.arguments.clone());
    Event::CallStarted {
        id: call.id.clone(),
        name: call.name.clone(),
        target: other,
        server: target.and_then(|target| target.server.clone()),
        arguments: if arguments.is_null() { json!({}) } else { arguments },
    }
}

fn finished(result: &CallResult, offloaded: Option<PathBuf>, began: Instant) -> Event {
    Event::CallFinished {
        id: result.call.id.clone(),
        name: result.call.name.clone(),
        text: result.text.clone(),
        is_error: result.is_error,
        offloaded,
        took: began.elapsed(),
    }
}

pub(crate) fn add(a: Usage, b: Usage) -> Usage {
    Usage { input: a.input + b.input, cached: a.cached + b.cached, output: a.output + b.output }
}
