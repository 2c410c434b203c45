//! The outcome of a call of a meta-tool.

use std::sync::Arc;

use pegboard_core::Tool;
use serde_json::{Value, json};

use crate::host::HostTool;

/// The definition of a tool for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name to call it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

impl ToolDefinition {
    /// Returns the definition of a catalog tool under the name `shown_as`.
    pub fn of(tool: &Tool, shown_as: &str) -> Self {
        let schema = tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok());
        let description = match tool.server_name() {
            // Several tools of one name are distinguished by their server.
            Some(server) if shown_as != tool.name() => format!("[{server}] {}", tool.description()),
            _ => tool.description().to_owned(),
        };
        Self {
            name: shown_as.to_owned(),
            description,
            input_schema: schema.unwrap_or_else(|| json!({"type": "object", "properties": {}})),
        }
    }

    /// Returns the definition as JSON, in the form of MCP.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "description": self.description, "inputSchema": self.input_schema})
    }
}

/// The reply to the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Plain text.
    Text(String),
    /// A JSON document.
    Json(Value),
}

impl Reply {
    /// Returns text as a JSON string, a document unchanged.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Json(value) => value.clone(),
        }
    }

    /// Converts the reply into text, like [`to_text`](Self::to_text).
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Json(value) => value.to_string(),
        }
    }

    /// Returns the reply for a wire that carries only text.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Json(value) => value.to_string(),
        }
    }
}

/// A change of the session that a dialect requests.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Make these tools visible, under these names, in this order.
    Load(Vec<(Arc<Tool>, String)>),
    /// Hide these names.
    Unload(Vec<String>),
    /// Show these tools instead of those exposed before.
    Replace(Vec<(Arc<Tool>, String)>),
    /// Call this tool; its result is the reply.
    Invoke {
        /// The tool to call.
        tool: Arc<Tool>,
        /// The arguments to call it with.
        arguments: Value,
    },
    /// Let the host do this; its result is the reply.
    Host {
        /// What it is to do.
        tool: HostTool,
        /// With which arguments.
        arguments: Value,
    },
}

/// The record of a search, for logs and statistics.
#[derive(Clone, Debug)]
pub struct Searched {
    /// What was looked for.
    pub query: String,
    /// How many tools there were to look through.
    pub tools: usize,
    /// How many matched at all.
    pub matches: usize,
    /// How many of those reached the threshold, before the limit.
    pub passing: usize,
    /// Those that are shown, best first.
    pub hits: Vec<Arc<Tool>>,
}

/// The answer of a dialect to a call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the model gets to read.
    pub reply: Reply,
    /// What user interfaces get beside it.
    pub metadata: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// What becomes of the session.
    pub effects: Vec<Effect>,
    /// The searches that it took.
    pub searched: Vec<Searched>,
}

impl Outcome {
    /// An outcome with a text and no effects.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            reply: Reply::Text(text.into()),
            metadata: None,
            is_error: false,
            effects: Vec::new(),
            searched: Vec::new(),
        }
    }

    /// An outcome with a document and no effects.
    pub fn json(value: Value) -> Self {
        Self { reply: Reply::Json(value), metadata: None, is_error: false, effects: Vec::new(), searched: Vec::new() }
    }

    /// An outcome that is an error.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Adds searches to the outcome.
    #[must_use]
    pub fn with_searched(mut self, searched: impl IntoIterator<Item = Searched>) -> Self {
        self.searched.extend(searched);
        self
    }

    /// Adds data for user interfaces.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Adds a change of the session.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }
}
