//! What can be said on the command line of `pegboard search`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    cli::options::{ModelArgs, OutputArgs, SourceArgs},
    embeddings::EmbeddingsArgs,
    rankers::RankerName,
    usage,
};

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What to look for, in the ranker's query language
    #[arg(value_name = "QUERY", required_unless_present = "query_file", conflicts_with = "query_file")]
    pub(crate) query: Vec<String>,

    /// Read the query from a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) query_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// How to rank
    #[arg(long, value_name = "RANKER", env = "PEGBOARD_RANKER")]
    pub(crate) ranker: Option<RankerName>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// At most this many hits, 1 or more [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Leave out hits that score less than this share of the best one, 0 to 1 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) threshold: Option<f64>,

    /// Show hits only if the best of them is so likely to be meant, 0 to 1; 0 shows the nearest
    /// there is [default: the ranker's own]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) least_confidence: Option<f64>,

    /// Say which field and term gave each hit how much
    #[arg(long)]
    pub(crate) explain: bool,

    /// Rank with what was learned from use: of this user, or of the caller with this name
    #[arg(long, value_name = "CALLER", num_args = 0..=1, require_equals = true, default_missing_value = usage::local())]
    pub(crate) usage: Option<String>,

    /// Say where this tool ranked and what it lacked
    #[arg(long, value_name = "NAME")]
    pub(crate) why_not: Option<String>,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1 on is expected".to_owned()),
        Ok(limit) => Ok(limit),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is expected".to_owned()),
    }
}
