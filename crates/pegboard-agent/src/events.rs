//! The events of a run.

use std::{path::PathBuf, time::Duration};

use pegboard_llm::{
    Delivery,
    wire::{Retry, Usage},
};
use serde_json::Value;

/// An event of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A request for the next turn is sent to the model.
    TurnStarted,
    /// A request to the model failed and will be sent again.
    Retry(Retry),
    /// A streamed piece of the model's text.
    Text(String),
    /// A streamed piece of the model's reasoning.
    Thinking(String),
    /// A call has started.
    CallStarted {
        /// The provider's identifier of the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The tool that is actually called, if it is another one.
        target: Option<String>,
        /// The server; `None` for tools of the agent and the host program.
        server: Option<String>,
        /// The arguments.
        arguments: Value,
    },
    /// A call has finished.
    CallFinished {
        /// The provider's identifier of the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The text for the model.
        text: String,
        /// Whether the call failed.
        is_error: bool,
        /// The file with the whole output, if it was too large.
        offloaded: Option<PathBuf>,
        /// The query and the matches of a search with their scores, for user interfaces, if the
        /// dialect provides them.
        metadata: Option<Value>,
        /// The duration of the call.
        took: Duration,
    },
    /// The delivery of found tools to the model: before the first turn of a conversation that
    /// searches, and after every fallback.
    Delivery {
        /// The delivery.
        delivery: Delivery,
        /// Why it was chosen.
        reason: String,
    },
    /// The visible tools have changed.
    ToolsChanged {
        /// The names of all visible tools.
        visible: Vec<String>,
    },
    /// A turn has ended.
    Turn {
        /// The token usage of the turn.
        usage: Usage,
    },
    /// A summary of the conversation is requested, since the conversation is too long.
    CompactionStarted,
    /// The conversation was compacted.
    Compacted,
    /// A problem that did not end the run.
    Warning(String),
}
