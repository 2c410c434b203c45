//! Making room: the conversation so far in a few words, with all that was found.

use pegboard_llm::{
    transcript::marked_messages,
    wire::{Delta, ToolChoice},
};

use crate::{
    agent::{RunError, Shared, Tell},
    events::Event,
    state::Talk,
};

/// What the model is asked for.
const REQUEST: &str = "Sum this conversation up so that you can go on from your summary alone: what was asked, \
                       what has been done and found out (with names, numbers, paths and identifiers as they stand), \
                       what is left to do. Write nothing but the summary.";

/// What stands before it afterwards.
const HEADING: &str = "What happened so far in this conversation, summed up:";

/// What stands behind it where work is under way.
const GO_ON: &str = "\n\nGo on with what is left to do.";

impl Shared {
    /// Compacts a conversation that has become too long.
    pub(crate) async fn make_room(&self, talk: &mut Talk, is_mid_run: bool, tell: &Tell) -> Result<(), RunError> {
        if talk.is_unanswered || self.limits.context_tokens.is_none_or(|most| talk.context <= most) {
            return Ok(());
        }
        self.compact(talk, is_mid_run).await?;
        let _ = tell.send(Event::Compacted);
        Ok(())
    }

    pub(crate) async fn compact(&self, talk: &mut Talk, is_mid_run: bool) -> Result<(), RunError> {
        if talk.conversation.messages().is_empty() {
            return Ok(());
        }
        let history = talk.conversation.messages().to_vec();
        // Taken back if nobody waits for the answer.
        talk.say(REQUEST);
        talk.conversation.set_tool_choice(ToolChoice::None);
        let asked = self.client.next_turn(&mut talk.conversation, &mut |_: Delta| {}).await;
        talk.conversation.set_tool_choice(ToolChoice::Auto);
        talk.is_unanswered = false;
        let summary = match asked {
            Ok(turn) => {
                talk.spent = crate::run::add(talk.spent, turn.usage);
                turn.text
            }
            Err(error) => {
                talk.conversation.resume(history);
                return Err(error.into());
            }
        };
        if summary.trim().is_empty() {
            // A conversation that is too long is better than none.
            talk.conversation.resume(history);
            return Ok(());
        }
        let wire = talk.conversation.wire();
        let marked = talk.conversation.marked_history();
        let mut messages = marked_messages(wire, &marked);
        let go_on = if is_mid_run { GO_ON } else { "" };
        messages.push(wire.user(&format!("{HEADING}\n\n{}{go_on}", summary.trim())));
        talk.conversation.resume(messages);
        talk.context = 0;
        Ok(())
    }
}
