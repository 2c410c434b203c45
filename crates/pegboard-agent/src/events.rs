//! What happens during a run.

use std::{path::PathBuf, time::Duration};

use pegboard_llm::{Delivery, wire::Usage};
use serde_json::Value;

/// Something that happened during a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The model says more.
    Text(String),
    /// The model thinks more.
    Thinking(String),
    /// A tool is being called.
    CallStarted {
        /// The provider's number of the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The tool that it led to, where that is another one.
        target: Option<String>,
        /// Whose it is; `None` for tools of the agent and the host program.
        server: Option<String>,
        /// What it is called with.
        arguments: Value,
    },
    /// It has answered.
    CallFinished {
        /// The provider's number of the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// What the model gets to read.
        text: String,
        /// Whether it failed.
        is_error: bool,
        /// Where the whole of it is, if it was too large.
        offloaded: Option<PathBuf>,
        /// What a search found, for user interfaces: the query and the matches with their scores,
        /// where the dialect tells.
        metadata: Option<Value>,
        /// How long it took.
        took: Duration,
    },
    /// The delivery of found tools to the model: before the first turn of a conversation that
    /// searches, and after every fallback.
    Delivery {
        /// The delivery.
        delivery: Delivery,
        /// Why it is this one.
        reason: String,
    },
    /// The model sees other tools from now on.
    ToolsChanged {
        /// The names of all that it sees.
        visible: Vec<String>,
    },
    /// A turn is over.
    Turn {
        /// What it cost.
        usage: Usage,
    },
    /// The conversation was compacted.
    Compacted,
    /// Something went wrong that did not end the run.
    Warning(String),
}
