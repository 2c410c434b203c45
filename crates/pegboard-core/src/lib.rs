//! The nouns of Pegboard, and the traits that the other crates implement.
//!
//! A [`Catalog`] is an immutable snapshot of [`Tool`]s. A [`Selection`] says which of
//! them a caller may see. A [`Ranker`] orders them for a [`Query`] and answers with a
//! [`Ranking`], which can say why every hit is where it is. Nothing here reads a file,
//! opens a socket or spawns a thread: text comes in as bytes, and the binary decides
//! where the bytes come from. Small types that every crate needs are here too: [`Secret`],
//! the [`error_chain`] and the circuit [`breaker`], which is given the time.
//!
//! ```
//! use pegboard_core::{Catalog, LoadLimits, load};
//!
//! let file = br#"{"name": "create_issue", "description": "Open an issue", "server": "github"}
//! {"name": "get_weather", "parameters": {"type": "object"}}"#;
//! let loaded = load::parse("tools.jsonl", file, &LoadLimits::default())?;
//! let (catalog, warnings) = Catalog::from_tools(loaded.tools);
//! assert_eq!(catalog.len(), 2);
//! assert!(warnings.is_empty());
//! assert_eq!(catalog.find("github/create_issue").map(|tool| tool.name()), Some("create_issue"));
//! # Ok::<(), pegboard_core::load::LoadError>(())
//! ```

pub mod breaker;
mod cache;
pub mod catalog;
pub mod error_chain;
pub mod load;
pub mod locks;
pub mod naming;
pub mod ranking;
pub mod schema;
mod secret;
pub mod selection;
pub mod text;
mod tokens;
pub mod tool;
pub mod vectors;

pub use cache::SnapshotCache;
pub use catalog::Catalog;
pub use load::LoadLimits;
pub use ranking::{Fallback, Field, Hit, Query, QueryError, Ranker, Ranking, Reason};
pub use secret::Secret;
pub use selection::Selection;
pub use text::line as plain_line;
pub use tokens::estimate_tokens;
pub use tool::{Annotations, Origin, RawTool, Risk, Server, Tool};
pub use vectors::{ToolVectors, VectorSource, Vectors};
