//! Making room: the conversation so far in a few words, with all that was found.

use pegboard_llm::{
    transcript::marked_messages,
    wire::{Delta, Stop, ToolChoice, Usage},
};

use crate::{
    agent::{RunError, Shared, Tell},
    conversation_state::Talk,
    events::Event,
    run::add,
};

/// What the model is asked for.
const REQUEST: &str = "Summarize this conversation so that you can continue from the summary alone: what the user \
                       asked for, what has been done and found out (with exact names, numbers, paths and \
                       identifiers), and what is left to do. Write only the summary.";

/// What stands before it afterwards.
const HEADING: &str = "Summary of the conversation so far:";

/// What stands behind it where work is under way.
const GO_ON: &str = "Continue with what is left to do.";

/// What stands before the question that is being worked on.
const ASKED: &str = "The user's last message, verbatim:";

impl Shared {
    /// Compacts a conversation that has become too long; what that cost.
    pub(crate) async fn make_room(
        &self,
        talk: &mut Talk,
        is_mid_run: bool,
        tell: &Tell,
    ) -> Result<Option<Usage>, RunError> {
        let most = self.limits.context_tokens.unwrap_or(u64::MAX).max(talk.compacts_above);
        if talk.is_unanswered || talk.context <= most {
            return Ok(None);
        }
        let context = talk.context;
        let usage = self.compact(talk, is_mid_run).await?;
        let _ = tell.send(Event::Turn { usage });
        if talk.context == 0 {
            let _ = tell.send(Event::Compacted);
        } else {
            // Asking again before every turn would only cost more.
            talk.compacts_above = context.saturating_add(context / 4);
            let _ = tell
                .send(Event::Warning("the model returned no summary; the conversation was not compacted".to_owned()));
        }
        Ok(Some(usage))
    }

    /// Sums the conversation up and goes on from there; what that cost. Where the model gives
    /// no summary the conversation stays as it is.
    pub(crate) async fn compact(&self, talk: &mut Talk, is_mid_run: bool) -> Result<Usage, RunError> {
        if talk.conversation.messages().is_empty() {
            return Ok(Usage::default());
        }
        // Taken back if nobody waits for the answer.
        talk.say(REQUEST);
        talk.conversation.set_tool_choice(ToolChoice::None);
        let asked = self.client.next_turn(&mut talk.conversation, &mut |_: Delta| {}).await;
        talk.conversation.set_tool_choice(ToolChoice::Auto);
        talk.is_unanswered = false;
        let turn = match asked {
            Ok(turn) => turn,
            Err(error) => {
                talk.conversation.remove_unanswered();
                return Err(error.into());
            }
        };
        talk.spent = add(talk.spent, turn.usage);
        let summary = turn.text.trim();
        if summary.is_empty() || turn.stop != Stop::End {
            // A conversation that is too long is better than a refusal or half a summary.
            // Counted from the end: a first request may have put a reminder at the start.
            let useless = 1 + turn.echo.len();
            talk.conversation.rewind(talk.conversation.messages().len().saturating_sub(useless));
            return Ok(turn.usage);
        }
        let wire = talk.conversation.wire();
        let marked = talk.conversation.marked_history();
        let mut messages = marked_messages(wire, &marked);
        let asked = if is_mid_run { format!("\n\n{ASKED}\n\n{}\n\n{GO_ON}", talk.asked) } else { String::new() };
        messages.push(wire.user(&format!("{HEADING}\n\n{summary}{asked}")));
        talk.conversation.resume(messages);
        (talk.context, talk.compacts_above) = (0, 0);
        Ok(turn.usage)
    }
}
