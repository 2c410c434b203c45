//! Finds the right tool among thousands for a language model.
//!
//! This crate is what a program adds. It re-exports the crates that Pegboard is made of:
//!
//! | module | feature | contains |
//! | --- | --- | --- |
//! | [`core`](mod@core) | | tools, catalogs, selections, the [`Ranker`] trait; no I/O |
//! | `engine` | `engine` (default) | the rankers, lint, metrics; no network |
//! | `discovery` | `discovery` (default) | sessions, dialects, argument validation; no network |
//! | `bm25` | `bm25` | the ranker that is built on Tantivy |
//! | `llm` | `llm` | conversations with model providers, deliveries, embeddings |
//! | `agent` | `agent` | the agent loop, functions as tools, large outputs |
//! | `agent::shell` | `code-execution` | code execution of the agent |
//!
//! The types that most programs need are at the top:
//!
#![cfg_attr(feature = "engine", doc = "```")]
#![cfg_attr(not(feature = "engine"), doc = "```ignore")]
//! use pegboard::{Catalog, Hybrid, LoadLimits, Query, Ranker, Selection, load};
//!
//! let file = br#"[{"name": "get_weather", "description": "Current weather of a city"}, {"name": "send_mail"}]"#;
//! let (catalog, _warnings) = Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default())?.tools);
//! let ranking = Hybrid::default().rank(&Query::new("weather in Rome"), &catalog, &Selection::everything())?;
//! assert_eq!(ranking.hits[0].tool.name(), "get_weather");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The folder `examples` has complete programs: `search`, `session`, `own_loop` and `agent`.

// The programs in the documentation are compiled like any other.
#[cfg(all(doctest, feature = "agent"))]
#[doc = include_str!("../../../docs/library.md")]
struct Library;

#[cfg(feature = "agent")]
pub use pegboard_agent as agent;
pub use pegboard_core as core;
#[cfg(feature = "discovery")]
pub use pegboard_discovery as discovery;
#[cfg(feature = "engine")]
pub use pegboard_engine as engine;
#[cfg(feature = "llm")]
pub use pegboard_llm as llm;
#[cfg(feature = "bm25")]
pub use pegboard_tantivy as bm25;

pub use pegboard_core::{
    Catalog, Hit, LoadLimits, Query, QueryError, Ranker, Ranking, RawTool, Secret, Selection, Server, Tool, load,
};
#[cfg(feature = "discovery")]
pub use pegboard_discovery::{DialectName, Session, Settings};
#[cfg(feature = "engine")]
pub use pegboard_engine::{Hybrid, Lexical};
