//! LLM providers with tool search: tools reach the model when a search has found them.
//!
//! A [`Conversation`] holds the history and the tool list. It makes the next
//! [`Request`](wire::Request), takes in the [`Turn`](wire::Turn) that came back, and answers
//! calls of meta-tools; calls of other tools are returned to the program. A [`Client`] sends
//! requests to the provider. The way in which found tools reach the model is a [`Delivery`], chosen
//! for the model and reported with its reason.
//!
//! Everything that is specific to an API or a provider is under [`wire`], one file or folder each.
//!
//! Programs with their own loop and their own client use [`hooks`] alone.

mod bound_thinking;
mod causes;
pub mod client;
pub mod conversation;
pub mod delivery;
pub mod embeddings;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod hooks;
mod instructions;
pub mod model;
mod page;
mod refusal;
pub mod rules;
pub mod schemas;
mod tool_list;
pub mod transcript;
pub mod wire;

pub use client::{Client, SendError, TurnError};
pub use conversation::{Called, Conversation, ConversationError};
pub use delivery::{Choice, Delivery};
pub use model::{Model, Provider};
