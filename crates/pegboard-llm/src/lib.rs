//! LLM providers: five wires, and no tool schema before its time.
//!
//! A [`Conversation`] holds what was said and what the model was shown. It makes the next
//! [`Request`](wire::Request), takes in the [`Turn`](wire::Turn) that came back, and answers
//! calls of meta-tools; calls of real tools it hands to the program. A [`Client`] carries
//! requests to the provider. How found tools get to the model is a
//! [`Delivery`], chosen for the model and reported with its reason.
//!
//! Programs that keep their own loop and their own client use [`hooks`] alone.

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
