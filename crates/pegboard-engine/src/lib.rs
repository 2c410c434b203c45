//! Text analysis, the lexical index and the rankers.
//!
//! Every ranker implements [`pegboard_core::Ranker`]. [`Hybrid`] is the default and the
//! product's own; [`Lexical`] is its lexical half alone; [`RegexRanker`], [`Keyword`],
//! [`Sequence`] and [`Hinted`] reproduce four published systems exactly and are never
//! improved. The fifth, `bm25`, lives in `pegboard-tantivy`, because Tantivy is the
//! heaviest build of the workspace. Nothing here touches a network or a file.
//!
//! ```
//! use pegboard_core::{Catalog, LoadLimits, Query, Ranker, Selection, load};
//! use pegboard_engine::Hybrid;
//!
//! let file = br#"[
//!     {"name": "create_issue", "description": "Open an issue in a repository", "server": "github"},
//!     {"name": "get_weather", "description": "Current weather for a city"}
//! ]"#;
//! let (catalog, _) = Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default())?.tools);
//! let ranking = Hybrid::default().rank(&Query::new("wether in tokyo"), &catalog, &Selection::everything())?;
//! assert_eq!(ranking.hits[0].tool.name(), "get_weather");
//! assert_eq!(ranking.unmatched, ["tokyo"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod actions;
pub mod analysis;
pub mod blocks;
mod hybrid;
mod languages;
pub mod lexical;
pub mod lint;
pub mod metrics;
mod rankers;
mod scores;
pub mod semantic;
pub mod usage;

pub use hybrid::{ByWordsAndMeaning, Hybrid};
pub use lexical::{ByWords, Lexical};
pub use rankers::{
    hinted::{self, Hinted},
    keyword::{self, Keyword},
    ranker_by_name,
    regex::RegexRanker,
    sequence::{self, Sequence},
};
pub use semantic::{Model, ModelError};
