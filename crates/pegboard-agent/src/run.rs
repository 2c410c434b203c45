//! One run: the model speaks, tools are called, until there is an answer.

use std::{path::PathBuf, sync::Arc, time::Instant};

use pegboard_core::Vectors;
use pegboard_discovery::{Holder, HostTool, Target, estimate_tokens, usage::SearchLead};
use pegboard_llm::{
    Called,
    wire::{CallResult, Delta, Stop, ToolCall, Turn, Usage},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};
use tracing::{Instrument as _, Span, field};

use crate::{
    agent::{Answer, Reached, RunError, Shared, Tell},
    call_runner::Done,
    conversation_state::Talk,
    events::Event,
    settings::Mode,
    trace,
};

/// What this run has come to so far.
#[derive(Default)]
struct Progress {
    turns: u32,
    usage: Usage,
    /// Whether the model was reminded to hand its answer over.
    is_reminded: bool,
}

impl Progress {
    /// Counts a turn, if there was one.
    fn take(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.turns += 1;
            self.usage = add(self.usage, usage);
        }
    }
}

impl Shared {
    pub(crate) async fn run(&self, prompt: String, tell: &Tell) -> Result<Answer, RunError> {
        let span = trace::run_span();
        let ended = self.run_traced(prompt, tell).instrument(span.clone()).await;
        trace::ran(&span, &ended);
        ended
    }

    async fn run_traced(&self, prompt: String, tell: &Tell) -> Result<Answer, RunError> {
        let mut talk = self.talk.lock().await;
        Span::current().record("model", field::display(talk.conversation.model()));
        talk.settle();
        self.check_budget(&talk)?;
        self.report(&mut talk, tell);
        let mut progress = Progress::default();
        progress.take(self.make_room(&mut talk, false, tell).await?);
        talk.ask(&prompt);
        let ended = self.go_on(&mut talk, progress, tell).await;
        if ended.is_err() {
            talk.settle();
        }
        self.look(&talk);
        self.keep(&talk, tell).await;
        ended
    }

    async fn go_on(&self, talk: &mut Talk, mut progress: Progress, tell: &Tell) -> Result<Answer, RunError> {
        loop {
            self.check(talk, &progress)?;
            progress.take(self.make_room(talk, true, tell).await?);
            let is_changed = self.refresh(talk);
            self.report(talk, tell);
            if is_changed {
                tell_of(tell, || Event::ToolsChanged { visible: talk.conversation.session().visible_names() });
            }
            let turn = self.turn(talk, tell).await?;
            progress.take(Some(turn.usage));
            self.keep(talk, tell).await;
            if turn.calls.is_empty() {
                if turn.stop == Stop::Pause || self.remind(talk, &mut progress) {
                    continue;
                }
                return Ok(self.finish(turn, None, &progress));
            }
            let before = talk.conversation.session().list_changes();
            let output = self.answer(talk, &turn, tell).await;
            talk.answer();
            let session = talk.conversation.session();
            if session.list_changes() != before {
                tell_of(tell, || Event::ToolsChanged { visible: session.visible_names() });
            }
            self.keep(talk, tell).await;
            if output.is_some() {
                return Ok(self.finish(turn, output, &progress));
            }
        }
    }

    fn finish(&self, turn: Turn, output: Option<Value>, progress: &Progress) -> Answer {
        Answer {
            text: turn.text,
            output: output.map(|output| match &self.final_answer {
                Some(tool) => tool.read(output),
                None => output,
            }),
            stop: turn.stop,
            turns: progress.turns,
            usage: progress.usage,
            cost: self.prices.map(|prices| prices.cost(progress.usage)),
        }
    }

    /// Takes in tools that came, went or changed; whether the model sees others now.
    pub(crate) fn refresh(&self, talk: &mut Talk) -> bool {
        let before = talk.conversation.session().list_changes();
        if talk.sources.refresh() {
            let catalog = talk.sources.catalog().clone();
            self.hands.set_catalog(catalog.clone());
            let gone = talk.conversation.session_mut().update(catalog);
            if !gone.is_empty() {
                tracing::info!(tools = gone.join(", "), "tools removed");
            }
        }
        self.look(talk);
        talk.conversation.session().list_changes() != before
    }

    /// Reports the delivery where it is new, and tools that the model does not see although all
    /// were to be visible.
    fn report(&self, talk: &mut Talk, tell: &Tell) {
        let choice = talk.conversation.choice();
        let is_first = talk.reported.is_none();
        if let Some(delivery) = self.unused_delivery.filter(|_| is_first) {
            let text =
                format!("delivery `{delivery}` has no effect in mode `{}`, which does not use tool search", self.mode);
            tell_of(tell, || Event::Warning(text));
        }
        if talk.reported != Some(choice.delivery) {
            if self.mode == Mode::ToolSearch || !is_first {
                let (delivery, reason) = (choice.delivery, choice.reason.clone());
                tell_of(tell, || Event::Delivery { delivery, reason });
            }
            if let Some(warning) = choice.warning.clone() {
                tell_of(tell, || Event::Warning(warning));
            }
            talk.reported = Some(choice.delivery);
        }
        let hidden = self.hidden_tools(talk);
        if std::mem::replace(&mut talk.reported_hidden, hidden) != hidden && hidden > 0 {
            tell_of(tell, || Event::Warning(hidden_text(talk, hidden)));
        }
    }

    /// How many tools the model has to search for although the mode lists them all.
    fn hidden_tools(&self, talk: &Talk) -> usize {
        let session = talk.conversation.session();
        if self.mode != Mode::Normal || session.search_name().is_none() {
            return 0;
        }
        let listed = session.listed_tools().iter().filter(|listed| listed.tool.is_some()).count();
        session.selection().count(session.catalog()).saturating_sub(listed)
    }

    async fn turn(&self, talk: &mut Talk, tell: &Tell) -> Result<Turn, RunError> {
        let mut pieces = |delta| {
            let _ = match delta {
                Delta::Text(text) => tell.send(Event::Text(text)),
                Delta::Thinking(text) => tell.send(Event::Thinking(text)),
                Delta::Call(_) => Ok(()),
            };
        };
        let span = trace::chat_span(talk.conversation.model());
        let turn = self.client.next_turn(&mut talk.conversation, &mut pieces).instrument(span.clone()).await;
        trace::chatted(&span, &turn);
        self.report(talk, tell);
        let turn = turn?;
        talk.heard(&turn);
        let _ = tell.send(Event::Turn { usage: turn.usage });
        Ok(turn)
    }

    /// A model that has ended without handing its answer over is told to, once.
    fn remind(&self, talk: &mut Talk, progress: &mut Progress) -> bool {
        let Some(tool) = self.final_answer.as_ref().filter(|_| !progress.is_reminded) else { return false };
        progress.is_reminded = true;
        talk.say(&format!("Submit your answer by calling `{}`.", tool.name()));
        true
    }

    fn check(&self, talk: &Talk, progress: &Progress) -> Result<(), RunError> {
        if progress.turns >= self.limits.turns {
            return Err(RunError::Limit(Reached::Turns(self.limits.turns)));
        }
        self.check_budget(talk)
    }

    fn check_budget(&self, talk: &Talk) -> Result<(), RunError> {
        let spent = talk.spent.input.saturating_add(talk.spent.output);
        if let Some(most) = self.limits.tokens.filter(|most| spent >= *most) {
            return Err(RunError::Limit(Reached::Tokens { spent, most }));
        }
        let spent = self.prices.map_or(0.0, |prices| prices.cost(talk.spent));
        match self.limits.cost.filter(|most| spent >= *most) {
            Some(most) => Err(RunError::Limit(Reached::Cost { spent, most })),
            None => Ok(()),
        }
    }

    /// Answers the calls of one turn; what a tool that ends the run was called with. Meta-tools
    /// first and in their order: they decide what is visible. The others at the same time.
    async fn answer(&self, talk: &mut Talk, turn: &Turn, tell: &Tell) -> Option<Value> {
        let mut running = JoinSet::new();
        let slots = Arc::new(Semaphore::new(self.limits.parallel_calls.max(1)));
        let last = turn.calls.len().saturating_sub(1);
        for (place, call) in turn.calls.iter().enumerate() {
            let began = Instant::now();
            let is_cut = turn.stop == Stop::Length && place == last;
            let vectors = match talk.conversation.vectors_for(call) {
                Some(soon) => soon.await,
                None => Vectors::default(),
            };
            match resolve(talk, call, is_cut, &vectors) {
                Called::Answered(mut result) => {
                    tell_of(tell, || started(call, None));
                    let kept = self.put_aside(talk, &mut result).await;
                    tell_of(tell, || finished(&result, kept, began));
                    talk.note(place, result);
                }
                Called::Invoke(target) => {
                    tell_of(tell, || started(call, Some(&target)));
                    let lead = talk.conversation.session().lead().filter(|_| self.learner.is_some()).cloned();
                    let ends = self.ends_run(&target).then(|| target.arguments.clone());
                    let may_offload = !is_reader(&target) && has_reader(talk);
                    let work = self.invoke(call.clone(), target, may_offload, tell.clone());
                    let slots = Arc::clone(&slots);
                    let work = async move {
                        let _slot = slots.acquire_owned().await;
                        let result = work.await;
                        let ends = ends.filter(|_| !result.is_error);
                        (place, result, ends, lead)
                    };
                    running.spawn(work.in_current_span());
                }
            }
        }
        let mut output = None;
        while let Some(ended) = running.join_next_with_id().await {
            match ended {
                Ok((_, (place, result, ends, lead))) => {
                    if let Some(lead) = lead.filter(|_| !result.is_error) {
                        self.learn(talk, &lead);
                    }
                    talk.note(place, result);
                    output = output.or(ends);
                }
                // It has no result; the model is told that it was given up.
                Err(error) => tracing::warn!(%error, "tool call failed unexpectedly"),
            }
        }
        output
    }

    /// Takes note that a call, which a search may have led to, has done its work.
    fn learn(&self, talk: &mut Talk, lead: &SearchLead) {
        let Some(learner) = &self.learner else { return };
        if let Some(mut step) = talk.conversation.session_mut().confirm_lead(lead) {
            step.query = self.hands.fleet.without_secrets(&step.query);
            learner.learn(Holder::Local, &step);
        }
    }

    /// Carries out one call, and keeps its result small.
    fn invoke(
        &self,
        call: ToolCall,
        target: Target,
        may_offload: bool,
        tell: Tell,
    ) -> impl Future<Output = CallResult> + Send + 'static {
        let (hands, most) = (Arc::clone(&self.hands), self.limits.result_tokens);
        async move {
            let began = Instant::now();
            let name = target.name.clone();
            let done = hands.carry_out(target).await;
            let mut is_error = done.is_error;
            let (mut text, kept) = if may_offload { hands.offload(&name, done).await } else { (done.text, None) };
            if kept.is_none() && is_over(&text, most) {
                text = format!(
                    "the output is {} bytes, over the limit of {most} tokens; request less at a time",
                    text.len()
                );
                is_error = true;
            }
            let result = CallResult { is_error, ..CallResult::text(call, text) };
            tell_of(&tell, || finished(&result, kept, began));
            result
        }
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

fn hidden_text(talk: &Talk, hidden: usize) -> String {
    let (provider, session) = (talk.conversation.model().provider, talk.conversation.session());
    let all = session.selection().count(session.catalog());
    format!(
        "mode `normal` cannot list all {all} tools: {} accepts {} per request; {hidden} are hidden until the model \
         finds them with `{}`",
        provider.as_str(),
        provider.max_tools(),
        session.search_name().unwrap_or_default(),
    )
}

/// What a call means: an answer at once, or something to be done.
fn resolve(talk: &mut Talk, call: &ToolCall, is_cut: bool, vectors: &Vectors) -> Called {
    let is_named = !call.name.is_empty() || call.is_search;
    if is_named && (is_cut || call.arguments.is_null()) {
        let why = if is_cut { "were cut off because the turn was too long" } else { "are not JSON" };
        let text = format!("the arguments of `{}` {why}; nothing was called", call.name);
        return Called::Answered(CallResult::error(call.clone(), text));
    }
    talk.conversation.call_with(call, vectors)
}

fn is_reader(target: &Target) -> bool {
    target.server.is_none() && HostTool::OUTPUTS.iter().any(|reader| reader.name() == target.name)
}

/// Whether the model could read an output that is offloaded.
fn has_reader(talk: &Talk) -> bool {
    let listed = talk.conversation.session().listed_tools();
    let is_reader = |name: &str| HostTool::OUTPUTS.iter().any(|reader| reader.name() == name);
    listed.iter().any(|listed| {
        let is_own = listed.tool.is_some_and(|tool| tool.is_own());
        is_own && is_reader(&listed.definition.name)
    })
}

/// Whether a text is too long for a conversation. Tokens are counted only where that can make
/// a difference.
fn is_over(text: &str, tokens: usize) -> bool {
    const MOST_BYTES: usize = 16;
    text.len() > tokens.saturating_mul(MOST_BYTES) || (text.len() > tokens && estimate_tokens(text) > tokens)
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
        metadata: result.metadata.clone(),
        took: began.elapsed(),
    }
}

pub(crate) fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input.saturating_add(b.input),
        cached: a.cached.saturating_add(b.cached),
        cache_written: a.cache_written.saturating_add(b.cache_written),
        output: a.output.saturating_add(b.output),
    }
}
