//! Compaction: replaces the conversation by a summary and keeps the found tools.

use pegboard_llm::{
    transcript::marked_messages,
    wire::{Delta, Stop, ToolChoice, Usage},
};

use crate::{
    agent::{EventSender, RunError, Shared},
    conversation_state::ConversationState,
    events::AgentEvent,
    run::add_usage,
};

/// The request for the summary.
const REQUEST: &str = "Summarize this conversation so that you can continue from the summary alone: what the user \
                       asked for, what has been done and found out (with exact names, numbers, paths and \
                       identifiers), and what is left to do. Write only the summary.";

/// The heading of the summary in the new conversation.
const HEADING: &str = "Summary of the conversation so far:";

/// The text after the summary if a run is in progress.
const GO_ON: &str = "Continue with what is left to do.";

/// The heading of the user's message that is in progress.
const ASKED: &str = "The user's last message, verbatim:";

impl Shared {
    /// Compacts a conversation that has become too long; returns the usage of that request.
    pub(crate) async fn compact_if_needed(
        &self,
        state: &mut ConversationState,
        is_mid_run: bool,
        events: &EventSender,
    ) -> Result<Option<Usage>, RunError> {
        let most = self.limits.context_tokens.unwrap_or(u64::MAX).max(state.compacts_above);
        if state.is_unanswered || state.context <= most {
            return Ok(None);
        }
        let context = state.context;
        let _ = events.send(AgentEvent::CompactionStarted);
        let mut report_retry = |delta| {
            if let Delta::Retry(retry) = delta {
                let _ = events.send(AgentEvent::Retry(retry));
            }
        };
        let usage = self.compact(state, is_mid_run, &mut report_retry).await?;
        let _ = events.send(AgentEvent::Turn { usage });
        if state.context == 0 {
            let _ = events.send(AgentEvent::Compacted);
        } else {
            // Without a summary, requesting it again before every turn would only cost more.
            state.compacts_above = context.saturating_add(context / 4);
            let _ = events.send(AgentEvent::Warning(
                "the model returned no summary; the conversation was not compacted".to_owned(),
            ));
        }
        Ok(Some(usage))
    }

    /// Replaces the conversation by its summary; returns the usage of that request. If the model
    /// returns no summary, the conversation is unchanged.
    pub(crate) async fn compact(
        &self,
        state: &mut ConversationState,
        is_mid_run: bool,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Usage, RunError> {
        if state.conversation.messages().is_empty() {
            return Ok(Usage::default());
        }
        // Removed again if the future is dropped.
        state.add_message(REQUEST);
        state.conversation.set_tool_choice(ToolChoice::None);
        let asked = self.client.next_turn(&mut state.conversation, on_delta).await;
        state.conversation.set_tool_choice(ToolChoice::Auto);
        state.is_unanswered = false;
        let turn = match asked {
            Ok(turn) => turn,
            Err(error) => {
                state.conversation.remove_unanswered();
                return Err(error.into());
            }
        };
        state.spent = add_usage(state.spent, turn.usage);
        let summary = turn.text.trim();
        if summary.is_empty() || turn.stop != Stop::End {
            // A conversation that is too long is better than a refusal or half a summary. Counted
            // from the end: a first request may have added a reminder at the start.
            let useless = 1 + turn.echo.len();
            state.conversation.rewind(state.conversation.messages().len().saturating_sub(useless));
            return Ok(turn.usage);
        }
        let wire = state.conversation.wire();
        let marked = state.conversation.marked_history();
        let mut messages = marked_messages(wire, &marked);
        let asked = if is_mid_run { format!("\n\n{ASKED}\n\n{}\n\n{GO_ON}", state.asked) } else { String::new() };
        messages.push(wire.user(&format!("{HEADING}\n\n{summary}{asked}")));
        state.conversation.resume(messages);
        (state.context, state.compacts_above) = (0, 0);
        Ok(turn.usage)
    }
}
