//! Arguments of `pegboard search`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    cache::CacheArgs,
    cli::options::{ModelArgs, OutputArgs, SourceArgs},
    embeddings::EmbeddingsArgs,
    rankers::RankerName,
    usage,
};

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Search query, in the ranker's query language
    #[arg(value_name = "QUERY", required_unless_present = "query_file", conflicts_with = "query_file")]
    pub(crate) query: Vec<String>,

    /// Read the query from a file; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) query_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Ranker to use
    #[arg(long, value_name = "RANKER", env = "PEGBOARD_RANKER")]
    pub(crate) ranker: Option<RankerName>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Maximum number of hits, at least 1 [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Omit hits that score less than this share of the best hit, 0 to 1 [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) threshold: Option<f64>,

    /// Show hits only if the best one has at least this confidence, 0 to 1; 0 always shows the
    /// nearest tools [default: the ranker's own]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub(crate) least_confidence: Option<f64>,

    /// Show how much each field and term contributes to a hit's score
    #[arg(long)]
    pub(crate) explain: bool,

    /// Rank with learned usage: of this user, or of the caller with this name
    #[arg(long, value_name = "CALLER", num_args = 0..=1, require_equals = true, default_missing_value = usage::local())]
    pub(crate) usage: Option<String>,

    /// Show where this tool ranked and why not higher
    #[arg(long, value_name = "NAME")]
    pub(crate) why_not: Option<String>,

    #[command(flatten)]
    pub(crate) cache: CacheArgs,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(limit) => Ok(limit),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}
