//! What the product's tests talk to in place of the world.
//!
//! [`provider`] is a scripted LLM provider: it speaks the wires of five of them, answers
//! from a script and refuses what they would refuse. It is also the program
//! `pegboard-provider`. [`embedder`] is an endpoint for embeddings alone, which fails on
//! demand. [`authority`] gives logins for an MCP server and refuses what real
//! ones refuse. The package's other program, `pegboard-fixture`, is an MCP server
//! of its own. None shares code with the product, so that a mistake in one is not
//! repeated, and thereby hidden, in the other.
//!
//! ```
//! use pegboard_testkit::provider::{Part, Provider, Script, ScriptedTurn};
//!
//! let provider = Provider::start(Script::new([ScriptedTurn::say([Part::text("Good morning.")])]));
//! assert!(provider.url().starts_with("http://127.0.0.1:"));
//! assert!(provider.requests().is_empty());
//! ```

pub mod authority;
pub mod embedder;
pub mod provider;
