//! An agent that finds its tools.
//!
//! An [`Agent`] is one conversation with a model and everything that can be called in it: the
//! tools of MCP servers, functions of the host program, and what the agent brings itself. The
//! model sees few of them, finds others by searching ([`Mode::ToolSearch`]), or writes
//! programs that call them ([`Mode::CodeExecution`]); outputs that are too large for a
//! conversation go to files that it reads from.
//!
//! What a model sees and how it is worded is decided in `pegboard-discovery`, how providers
//! are spoken to in `pegboard-llm`, how servers are reached in `pegboard-upstream`. Here is
//! the loop between them.

mod agent;
mod approval;
mod builder;
mod call_runner;
#[cfg(feature = "code-execution")]
pub mod code;
#[cfg(feature = "code-execution")]
mod commands;
#[cfg(not(feature = "code-execution"))]
#[path = "commands_absent.rs"]
mod commands;
mod compact;
mod conversation_state;
mod custom;
mod events;
mod final_answer;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod outputs;
mod platform;
mod program;
mod run;
mod server_results;
mod settings;
#[cfg(feature = "code-execution")]
pub mod shell;
mod sources;
mod trace;
mod unescape;

pub use agent::{Agent, Answer, ModelClient, Reached, Run, RunError, Speaking};
pub use approval::{AmbiguousGrant, Approval, Deciding, Grants, Human, Policy, Question, Request, Verdict};
pub use builder::{AgentBuilder, BuildError};
pub use conversation_state::{ResumeError, SaveError};
pub use custom::{Answering, CustomTool, Output, RegisterError, Registry, ToolDef, ToolError, ToolHandler, ToolMeta};
pub use events::Event;
pub use final_answer::FINAL_ANSWER;
pub use pegboard_core::Secret;
pub use pegboard_discovery::{DialectName, Exposure};
pub use pegboard_llm::{
    Choice, Client, Delivery, Model,
    wire::{PromptCache, Usage},
};
pub use pegboard_upstream::config::{ServerConfig, TransportConfig};
pub use program::Program;
pub use schemars;
pub use settings::{Limits, Mode, Prices, ToolSearch};
