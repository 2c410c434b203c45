//! What can be said on the command line of `pegboard eval`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValue};

use crate::{
    cli::options::{ModelArgs, OutputArgs},
    embeddings::EmbeddingsArgs,
    rankers::RankerName,
};

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Folder with labelled queries, or a recorded file
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,

    /// Rankers to measure; `all` for all except `lexical`
    #[arg(long, value_name = "RANKER", value_delimiter = ',', default_value = "hybrid")]
    pub(crate) ranker: Vec<RankerChoice>,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A ranker, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankerChoice {
    All,
    One(RankerName),
}

impl ValueEnum for RankerChoice {
    fn value_variants<'a>() -> &'a [Self] {
        use RankerName as R;
        &[
            Self::One(R::Hybrid),
            Self::One(R::Regex),
            Self::One(R::Bm25),
            Self::One(R::Keyword),
            Self::One(R::Sequence),
            Self::One(R::Hinted),
            Self::One(R::Lexical),
            Self::All,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::All => Some(PossibleValue::new("all").help("All except `lexical`, one after another")),
            Self::One(name) => name.to_possible_value(),
        }
    }
}
