//! Arguments of `pegboard eval`.

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
        const CHOICES: [RankerChoice; RankerName::ALL.len() + 1] = {
            let mut choices = [RankerChoice::All; RankerName::ALL.len() + 1];
            let mut at = 0;
            while at < RankerName::ALL.len() {
                choices[at] = RankerChoice::One(RankerName::ALL[at]);
                at += 1;
            }
            choices
        };
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::All => Some(PossibleValue::new("all").help("All except `lexical`, one after another")),
            Self::One(name) => name.to_possible_value(),
        }
    }
}
