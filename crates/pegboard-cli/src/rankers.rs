//! The rankers by name.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use clap::ValueEnum;
use pegboard_core::Ranker;
use pegboard_discovery::DialectName;
use pegboard_engine::{Hinted, Hybrid, Keyword, Lexical, Model, RegexRanker, Sequence, blocks::PersistentIndex};
use pegboard_llm::embeddings::{Embedder, EmbeddingRanker};
#[cfg(feature = "bm25")]
use pegboard_tantivy::Bm25;
use tokio::runtime::Handle;

/// What a ranker is built with.
struct BuildSettings<'a> {
    /// The model of semantic rankers; `None` for the built-in one.
    model: Option<&'a Arc<Model>>,
    token_bonus: f64,
}

type Build<T> = fn(&BuildSettings<'_>) -> T;

/// What the program knows about a ranker.
struct Profile {
    /// Whether `eval --ranker all` measures it.
    is_compared: bool,
    build: Build<Box<dyn Ranker>>,
    /// Builds it for an index that is cached in a file; `None` if it has no such index.
    build_with_kept_index: Option<Build<Arc<dyn PersistentIndex>>>,
}

impl Profile {
    /// A ranker that `eval --ranker all` measures, and whose index is not cached.
    const fn new(build: Build<Box<dyn Ranker>>) -> Self {
        Self { is_compared: true, build, build_with_kept_index: None }
    }
}

/// Defines the enum of all rankers: for each its help text, its variant, the name that people use,
/// and its profile.
macro_rules! rankers {
    ($(
        $(#[doc = $help:literal])+
        $(#[cfg(feature = $feature:literal)])?
        $variant:ident $name:literal => $profile:expr,
    )+) => {
        /// A ranker that users can choose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
        pub(crate) enum RankerName {
            $(
                $(#[doc = $help])+
                $(#[cfg(feature = $feature)])?
                #[value(name = $name)]
                $variant,
            )+
        }

        impl RankerName {
            /// All rankers.
            pub(crate) const ALL: &'static [Self] = &[$($(#[cfg(feature = $feature)])? Self::$variant),+];

            /// Returns the name that people use.
            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant => $name,)+
                }
            }

            fn profile(self) -> Profile {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant => $profile,)+
                }
            }
        }
    };
}

rankers! {
    /// Exact names, keywords (fielded BM25, typos, multiple intents) and meaning
    Hybrid "hybrid" => Profile {
        build_with_kept_index: Some(|settings| Arc::new(hybrid(settings))),
        ..Profile::new(|settings| Box::new(hybrid(settings)))
    },
    /// A regular expression over name and description; fuzzy if it matches nothing
    Regex "regex" => Profile::new(|_| Box::new(RegexRanker::default())),
    /// Tantivy's BM25 and query language
    #[cfg(feature = "bm25")]
    Bm25 "bm25" => Profile::new(|_| Box::new(Bm25::default())),
    /// Points for each keyword; `+word` is required
    Keyword "keyword" => Profile::new(|_| Box::new(Keyword::default())),
    /// Similarity of the whole text plus literal hits
    Sequence "sequence" => Profile::new(|settings| Box::new(Sequence::new(settings.token_bonus))),
    /// Points for name, hint and description, added up; `+word` is required
    Hinted "hinted" => Profile::new(|_| Box::new(Hinted::default())),
    /// Only the lexical half of hybrid
    Lexical "lexical" => Profile {
        is_compared: false,
        build_with_kept_index: Some(|_| Arc::new(Lexical::default())),
        ..Profile::new(|_| Box::new(Lexical::default()))
    },
}

fn hybrid(settings: &BuildSettings<'_>) -> Hybrid {
    settings.model.map_or_else(Hybrid::default, |model| Hybrid::new(Arc::clone(model)))
}

#[expect(clippy::derivable_impls, reason = "the variants come from a list")]
impl Default for RankerName {
    fn default() -> Self {
        Self::Hybrid
    }
}

impl RankerName {
    /// The names of [`ALL`](Self::ALL), in its order.
    pub(crate) const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].as_str();
            at += 1;
        }
        names
    };

    /// Returns the rankers that `all` means, the default last.
    pub(crate) fn compared() -> Vec<Self> {
        let mut compared: Vec<Self> = Self::ALL.iter().copied().filter(|name| name.profile().is_compared).collect();
        compared.sort_by_key(|name| *name == Self::default());
        compared
    }

    /// Returns the ranker of a dialect, or `hybrid` if this program was built without it.
    pub(crate) fn of(dialect: DialectName) -> Self {
        Self::from_str(dialect.dialect().default_ranker(), false).unwrap_or_default()
    }

    /// Returns the ranker, if its index can be cached in a file.
    pub(crate) fn build_with_kept_index(self, model: Option<&Arc<Model>>) -> Option<Arc<dyn PersistentIndex>> {
        let build = self.profile().build_with_kept_index?;
        Some(build(&BuildSettings { model, token_bonus: 0.0 }))
    }

    /// Returns a ranker with these settings. Semantic rankers use `model`, or the built-in one.
    pub(crate) fn build(self, model: Option<&Arc<Model>>, token_bonus: f64) -> Box<dyn Ranker> {
        (self.profile().build)(&BuildSettings { model, token_bonus })
    }
}

/// Returns the rankers of all dialects, each made once, so that sessions with the same ranker share
/// an index. `chosen` replaces the dialects' own rankers, and `model` the built-in one.
///
/// With an embedder, tools are embedded in the background, so it must then be called inside a
/// runtime.
pub(crate) fn shared_rankers(
    chosen: Option<RankerName>,
    model: Option<Arc<Model>>,
    token_bonus: f64,
    embedder: Option<Arc<Embedder>>,
) -> pegboard_gateway::Rankers {
    let embedder = embedder.map(|embedder| (embedder, Handle::current()));
    let made: Mutex<HashMap<RankerName, Arc<dyn Ranker>>> = Mutex::default();
    Arc::new(move |dialect: DialectName| {
        let name = chosen.unwrap_or_else(|| RankerName::of(dialect));
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(made.entry(name).or_insert_with(|| {
            let ranker: Arc<dyn Ranker> = Arc::from(name.build(model.as_ref(), token_bonus));
            match &embedder {
                Some((embedder, runtime)) => EmbeddingRanker::wrap(ranker, embedder, runtime),
                None => ranker,
            }
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankers_have_the_name_that_users_choose() {
        for name in RankerName::ALL {
            assert_eq!(name.build(None, 0.0).name(), name.as_str());
            assert_eq!(RankerName::from_str(name.as_str(), false), Ok(*name));
        }
        assert_eq!(RankerName::compared().last(), Some(&RankerName::Hybrid));
        assert!(!RankerName::compared().contains(&RankerName::Lexical));
    }
}
