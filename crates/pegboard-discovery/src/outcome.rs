//! What a call of a meta-tool leads to.

use std::sync::Arc;

use pegboard_core::Tool;
use serde_json::{Value, json};

use crate::host::HostTool;

/// A tool as a model is told of it.
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
    /// A catalog tool under the name `shown_as`.
    pub fn of(tool: &Tool, shown_as: &str) -> Self {
        let schema = tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok());
        let description = match tool.server_name() {
            // Several tools of one name are told apart by their server.
            Some(server) if shown_as != tool.name() => format!("[{server}] {}", tool.description()),
            _ => tool.description().to_owned(),
        };
        Self {
            name: shown_as.to_owned(),
            description,
            input_schema: schema.unwrap_or_else(|| json!({"type": "object", "properties": {}})),
        }
    }

    /// As JSON, in the form of MCP.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "description": self.description, "inputSchema": self.input_schema})
    }
}

/// What the model gets to read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Plain text.
    Text(String),
    /// A JSON document.
    Json(Value),
}

impl Reply {
    /// Text as a JSON string, a document as it is.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Json(value) => value.clone(),
        }
    }

    /// [`to_text`](Self::to_text) of what is needed no more.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Json(value) => value.to_string(),
        }
    }

    /// What a text-only wire carries.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Json(value) => value.to_string(),
        }
    }
}

/// A change of the session that a dialect asks for.
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

/// What a search looked at, for logs and statistics.
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

/// A dialect's answer to a call.
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
    /// A text without effects.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            reply: Reply::Text(text.into()),
            metadata: None,
            is_error: false,
            effects: Vec::new(),
            searched: Vec::new(),
        }
    }

    /// A document without effects.
    pub fn json(value: Value) -> Self {
        Self { reply: Reply::Json(value), metadata: None, is_error: false, effects: Vec::new(), searched: Vec::new() }
    }

    /// A failure.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// With a search that it took.
    #[must_use]
    pub fn with_searched(mut self, searched: impl IntoIterator<Item = Searched>) -> Self {
        self.searched.extend(searched);
        self
    }

    /// With something for user interfaces.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// With a change of the session.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }
}
