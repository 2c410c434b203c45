//! An agent that searches for its tools.
//!
//! An [`Agent`] is one conversation with a model and all tools that it can call: those of MCP
//! servers, of the host program, and of the agent itself. The model sees few of them and searches
//! for others ([`Mode::ToolSearch`]), or writes programs that call them ([`Mode::CodeExecution`]).
//! Outputs that are too large for a conversation are written to files that the model can read.
//!
//! `pegboard-discovery` decides which tools and texts a model sees, `pegboard-llm` talks to
//! providers and `pegboard-upstream` to servers. This crate contains the loop between them.

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
mod run;
mod server_results;
mod settings;
#[cfg(feature = "code-execution")]
pub mod shell;
mod sources;
mod trace;
mod unescape;

pub use agent::{Agent, LimitReached, ModelClient, Run, RunAnswer, RunError, TurnFuture};
pub use approval::{
    AmbiguousGrant, Approval, ApprovalDecision, CallPolicy, CallRequest, Grants, Human, HumanFuture, Question,
    UnmatchedGrant,
};
pub use builder::{AgentBuilder, BuildError};
pub use conversation_state::{ResumeError, SaveError};
pub use custom::{
    CustomTool, RegisterError, Registry, ToolDef, ToolError, ToolFuture, ToolHandler, ToolMeta, ToolOutput,
};
pub use events::AgentEvent;
pub use final_answer::FINAL_ANSWER;
pub use pegboard_core::Secret;
pub use pegboard_discovery::{DialectName, Exposure};
pub use pegboard_llm::{
    Choice, Client, Delivery, Model,
    wire::{PromptCache, Retry, Usage},
};
pub use pegboard_outputs::Program;
pub use pegboard_upstream::config::{ServerConfig, TransportConfig};
pub use schemars;
pub use settings::{Mode, Prices, RunLimits, ToolSearch};
