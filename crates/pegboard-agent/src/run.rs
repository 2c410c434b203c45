//! The loop of a run: requests turns and runs tool calls until there is an answer.

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
    agent::{EventSender, LimitReached, RunAnswer, RunError, Shared},
    call_runner::CallOutcome,
    conversation_state::ConversationState,
    events::AgentEvent,
    settings::Mode,
    trace,
};

/// The turns and usage of a run so far.
#[derive(Default)]
struct Progress {
    turns: u32,
    usage: Usage,
    /// Whether the model was reminded to submit its answer.
    is_reminded: bool,
}

impl Progress {
    /// Counts a turn, if there was one.
    fn count_turn(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.turns += 1;
            self.usage = add_usage(self.usage, usage);
        }
    }
}

impl Shared {
    pub(crate) async fn run(&self, prompt: String, events: &EventSender) -> Result<RunAnswer, RunError> {
        let span = trace::run_span();
        let ended = self.run_traced(prompt, events).instrument(span.clone()).await;
        trace::record_run(&span, &ended);
        ended
    }

    async fn run_traced(&self, prompt: String, events: &EventSender) -> Result<RunAnswer, RunError> {
        let mut state = self.state.lock().await;
        Span::current().record("model", field::display(state.conversation.model()));
        state.repair_interrupted();
        self.check_budget(&state)?;
        self.report_changes(&mut state, events);
        let mut progress = Progress::default();
        progress.count_turn(self.compact_if_needed(&mut state, false, events).await?);
        state.add_prompt(&prompt);
        let ended = self.run_turns(&mut state, progress, events).await;
        if ended.is_err() {
            state.repair_interrupted();
        }
        self.update_snapshot(&state);
        self.write_or_warn(&state, events).await;
        ended
    }

    async fn run_turns(
        &self,
        state: &mut ConversationState,
        mut progress: Progress,
        events: &EventSender,
    ) -> Result<RunAnswer, RunError> {
        loop {
            self.check_limits(state, &progress)?;
            progress.count_turn(self.compact_if_needed(state, true, events).await?);
            let is_changed = self.refresh(state);
            self.report_changes(state, events);
            if is_changed {
                send_event(events, || AgentEvent::ToolsChanged {
                    visible: state.conversation.session().visible_names(),
                });
            }
            let turn = self.request_turn(state, events).await?;
            progress.count_turn(Some(turn.usage));
            self.write_or_warn(state, events).await;
            if turn.calls.is_empty() {
                if turn.stop == Stop::Pause || self.remind_of_answer(state, &mut progress) {
                    continue;
                }
                return Ok(self.finish_run(turn, None, &progress));
            }
            let before = state.conversation.session().list_changes();
            let output = self.answer_calls(state, &turn, events).await;
            state.commit_results();
            let session = state.conversation.session();
            if session.list_changes() != before {
                send_event(events, || AgentEvent::ToolsChanged { visible: session.visible_names() });
            }
            self.write_or_warn(state, events).await;
            if output.is_some() {
                return Ok(self.finish_run(turn, output, &progress));
            }
        }
    }

    fn finish_run(&self, turn: Turn, output: Option<Value>, progress: &Progress) -> RunAnswer {
        RunAnswer {
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

    /// Updates the catalog from its sources; returns whether the visible tools have changed.
    pub(crate) fn refresh(&self, state: &mut ConversationState) -> bool {
        let before = state.conversation.session().list_changes();
        if state.sources.refresh() {
            let catalog = state.sources.catalog().clone();
            self.runner.set_catalog(catalog.clone());
            let removed = state.conversation.session_mut().update(catalog);
            if !removed.is_empty() {
                tracing::info!(tools = removed.join(", "), "tools removed");
            }
        }
        self.update_snapshot(state);
        state.conversation.session().list_changes() != before
    }

    /// Reports a new delivery, and tools that are hidden although all were to be visible.
    fn report_changes(&self, state: &mut ConversationState, events: &EventSender) {
        let choice = state.conversation.choice();
        let is_first = state.reported.is_none();
        if let Some(delivery) = self.unused_delivery.filter(|_| is_first) {
            let text =
                format!("delivery `{delivery}` has no effect in mode `{}`, which does not use tool search", self.mode);
            send_event(events, || AgentEvent::Warning(text));
        }
        if state.reported != Some(choice.delivery) {
            if self.mode == Mode::ToolSearch || !is_first {
                let (delivery, reason) = (choice.delivery, choice.reason.clone());
                send_event(events, || AgentEvent::Delivery { delivery, reason });
            }
            if let Some(warning) = choice.warning.clone() {
                send_event(events, || AgentEvent::Warning(warning));
            }
            state.reported = Some(choice.delivery);
        }
        let hidden = self.hidden_tools(state);
        if std::mem::replace(&mut state.reported_hidden, hidden) != hidden && hidden > 0 {
            send_event(events, || AgentEvent::Warning(hidden_text(state, hidden)));
        }
    }

    /// Returns how many tools the model must search for although the mode lists all tools.
    fn hidden_tools(&self, state: &ConversationState) -> usize {
        let session = state.conversation.session();
        if self.mode != Mode::Normal || session.search_name().is_none() {
            return 0;
        }
        let listed = session.listed_tools().iter().filter(|listed| listed.tool.is_some()).count();
        session.selection().count(session.catalog()).saturating_sub(listed)
    }

    async fn request_turn(&self, state: &mut ConversationState, events: &EventSender) -> Result<Turn, RunError> {
        let mut pieces = |delta| {
            let _ = match delta {
                Delta::Text(text) => events.send(AgentEvent::Text(text)),
                Delta::Thinking(text) => events.send(AgentEvent::Thinking(text)),
                Delta::Retry(retry) => events.send(AgentEvent::Retry(retry)),
                Delta::Call(_) => Ok(()),
            };
        };
        send_event(events, || AgentEvent::TurnStarted);
        let span = trace::chat_span(state.conversation.model());
        let turn = self.client.next_turn(&mut state.conversation, &mut pieces).instrument(span.clone()).await;
        trace::record_turn(&span, &turn);
        self.report_changes(state, events);
        let turn = turn?;
        state.record_turn(&turn);
        let _ = events.send(AgentEvent::Turn { usage: turn.usage });
        Ok(turn)
    }

    /// Reminds the model once to submit its answer if it has ended without; returns whether it did.
    fn remind_of_answer(&self, state: &mut ConversationState, progress: &mut Progress) -> bool {
        let Some(tool) = self.final_answer.as_ref().filter(|_| !progress.is_reminded) else { return false };
        progress.is_reminded = true;
        state.add_message(&format!("Submit your answer by calling `{}`.", tool.name()));
        true
    }

    fn check_limits(&self, state: &ConversationState, progress: &Progress) -> Result<(), RunError> {
        if progress.turns >= self.limits.turns {
            return Err(RunError::Limit(LimitReached::Turns(self.limits.turns)));
        }
        self.check_budget(state)
    }

    fn check_budget(&self, state: &ConversationState) -> Result<(), RunError> {
        let spent = state.spent.input.saturating_add(state.spent.output);
        if let Some(most) = self.limits.tokens.filter(|most| spent >= *most) {
            return Err(RunError::Limit(LimitReached::Tokens { spent, most }));
        }
        let spent = self.prices.map_or(0.0, |prices| prices.cost(state.spent));
        match self.limits.cost.filter(|most| spent >= *most) {
            Some(most) => Err(RunError::Limit(LimitReached::Cost { spent, most })),
            None => Ok(()),
        }
    }

    /// Answers the calls of one turn; returns the arguments of a tool that ends the run. Meta-tools
    /// run first and in order, since they decide what is visible. Other calls run concurrently.
    async fn answer_calls(&self, state: &mut ConversationState, turn: &Turn, events: &EventSender) -> Option<Value> {
        let mut running = JoinSet::new();
        let slots = Arc::new(Semaphore::new(self.limits.parallel_calls.max(1)));
        let last = turn.calls.len().saturating_sub(1);
        for (place, call) in turn.calls.iter().enumerate() {
            let began = Instant::now();
            let is_cut = turn.stop == Stop::Length && place == last;
            let vectors = match state.conversation.vectors_for(call) {
                Some(soon) => soon.await,
                None => Vectors::default(),
            };
            match resolve_call(state, call, is_cut, &vectors) {
                Called::Answered(mut result) => {
                    send_event(events, || call_started(call, None));
                    let kept = self.offload_answer(state, &mut result).await;
                    send_event(events, || call_finished(&result, kept, began));
                    state.record_result(place, result);
                }
                Called::Invoke(target) => {
                    send_event(events, || call_started(call, Some(&target)));
                    let lead = state.conversation.session().lead().filter(|_| self.learner.is_some()).cloned();
                    let ends = self.ends_run(&target).then(|| target.arguments.clone());
                    let may_offload = !is_reader(&target) && has_reader(state);
                    let work = self.invoke_tool(call.clone(), target, may_offload, events.clone());
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
                        self.learn_from_call(state, &lead);
                    }
                    state.record_result(place, result);
                    output = output.or(ends);
                }
                // The call has no result; the model reads that it was cancelled.
                Err(error) => tracing::warn!(%error, "tool call failed unexpectedly"),
            }
        }
        output
    }

    /// Learns from a successful call that a search may have led to.
    fn learn_from_call(&self, state: &mut ConversationState, lead: &SearchLead) {
        let Some(learner) = &self.learner else { return };
        if let Some(mut step) = state.conversation.session_mut().confirm_lead(lead) {
            step.query = self.runner.fleet.without_secrets(&step.query);
            learner.learn(Holder::Local, &step);
        }
    }

    /// Runs one call, and offloads a result that is too large.
    fn invoke_tool(
        &self,
        call: ToolCall,
        target: Target,
        may_offload: bool,
        events: EventSender,
    ) -> impl Future<Output = CallResult> + Send + 'static {
        let (runner, most) = (Arc::clone(&self.runner), self.limits.result_tokens);
        async move {
            let began = Instant::now();
            let name = target.name.clone();
            let done = runner.run_call(target).await;
            let mut is_error = done.is_error;
            let (mut text, kept) = if may_offload { runner.offload(&name, done).await } else { (done.text, None) };
            if kept.is_none() && exceeds_tokens(&text, most) {
                text = format!(
                    "the output is {} bytes, over the limit of {most} tokens; request less at a time",
                    text.len()
                );
                is_error = true;
            }
            let result = CallResult { is_error, ..CallResult::text(call, text) };
            send_event(&events, || call_finished(&result, kept, began));
            result
        }
    }

    /// Offloads an answer of a meta-tool that is too large: a pattern may match thousands of tools.
    /// An answer that lists loaded tools is kept, since the session is rebuilt from it.
    async fn offload_answer(&self, state: &ConversationState, result: &mut CallResult) -> Option<PathBuf> {
        let says_loaded = state.conversation.session().dialect().loaded_by(&result.call.name, &result.text).is_some();
        if says_loaded || !result.references.is_empty() || !has_reader(state) {
            return None;
        }
        let done = CallOutcome { text: std::mem::take(&mut result.text), value: None, is_error: result.is_error };
        let (text, kept) = self.runner.offload(&result.call.name, done).await;
        result.text = text;
        kept
    }

    /// Returns whether a call of this tool ends the run.
    fn ends_run(&self, target: &Target) -> bool {
        let is_own = target.server.is_none();
        is_own && self.runner.registry.find(&target.name).is_some_and(|tool| tool.meta.ends_run)
    }
}

fn hidden_text(state: &ConversationState, hidden: usize) -> String {
    let (provider, session) = (state.conversation.model().provider, state.conversation.session());
    let all = session.selection().count(session.catalog());
    format!(
        "mode `normal` cannot list all {all} tools: {} accepts {} per request; {hidden} are hidden until the model \
         finds them with `{}`",
        provider.as_str(),
        provider.max_tools(),
        session.search_name().unwrap_or_default(),
    )
}

/// Resolves a call: to an immediate answer, or to a target that must be called.
fn resolve_call(state: &mut ConversationState, call: &ToolCall, is_cut: bool, vectors: &Vectors) -> Called {
    let is_named = !call.name.is_empty() || call.is_search;
    if is_named && (is_cut || call.arguments.is_null()) {
        let why = if is_cut { "were cut off because the turn was too long" } else { "are not JSON" };
        let text = format!("the arguments of `{}` {why}; nothing was called", call.name);
        return Called::Answered(CallResult::error(call.clone(), text));
    }
    state.conversation.call_with(call, vectors)
}

fn is_reader(target: &Target) -> bool {
    target.server.is_none() && HostTool::OUTPUTS.iter().any(|reader| reader.name() == target.name)
}

/// Returns whether the model can read an offloaded output.
fn has_reader(state: &ConversationState) -> bool {
    let listed = state.conversation.session().listed_tools();
    let is_reader = |name: &str| HostTool::OUTPUTS.iter().any(|reader| reader.name() == name);
    listed.iter().any(|listed| {
        let is_own = listed.tool.is_some_and(|tool| tool.is_own());
        is_own && is_reader(&listed.definition.name)
    })
}

/// Returns whether a text has more than so many tokens. Tokens are only counted if the size in
/// bytes does not decide.
fn exceeds_tokens(text: &str, tokens: usize) -> bool {
    const MOST_BYTES: usize = 16;
    text.len() > tokens.saturating_mul(MOST_BYTES) || (text.len() > tokens && estimate_tokens(text) > tokens)
}

/// Sends an event, if there is a receiver.
fn send_event(events: &EventSender, event: impl FnOnce() -> AgentEvent) {
    if !events.is_closed() {
        let _ = events.send(event());
    }
}

fn call_started(call: &ToolCall, target: Option<&Target>) -> AgentEvent {
    let other = target.map(|target| target.name.clone()).filter(|name| *name != call.name);
    let arguments = target.map_or_else(|| call.arguments.clone(), |target| target.arguments.clone());
    AgentEvent::CallStarted {
        id: call.id.clone(),
        name: call.name.clone(),
        target: other,
        server: target.and_then(|target| target.server.clone()),
        arguments: if arguments.is_null() { json!({}) } else { arguments },
    }
}

fn call_finished(result: &CallResult, offloaded: Option<PathBuf>, began: Instant) -> AgentEvent {
    AgentEvent::CallFinished {
        id: result.call.id.clone(),
        name: result.call.name.clone(),
        text: result.text.clone(),
        is_error: result.is_error,
        offloaded,
        metadata: result.metadata.clone(),
        took: began.elapsed(),
    }
}

pub(crate) fn add_usage(a: Usage, b: Usage) -> Usage {
    Usage {
        input: a.input.saturating_add(b.input),
        cached: a.cached.saturating_add(b.cached),
        cache_written: a.cache_written.saturating_add(b.cache_written),
        output: a.output.saturating_add(b.output),
    }
}
