//! What can be said on the command line of `pegboard session`.

use std::path::PathBuf;

use clap::Args;
use pegboard_core::Limits;

use crate::{
    cli::options::{Dialect, ModelArgs, ShownArgs},
    embeddings::EmbeddingsArgs,
    rankers::RankerName,
    source::ConfigArgs,
};

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The family of meta-tools
    #[arg(long, value_name = "DIALECT", default_value = "bridge")]
    pub(crate) dialect: Dialect,

    /// A catalog file, instead of the servers of a configuration, which are started for their tools;
    /// nothing is called
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["config", "demo"])]
    pub(crate) catalog: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Refuse catalog files that are larger
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().file_bytes)]
    pub(crate) max_catalog_bytes: usize,

    /// How to rank, instead of the dialect's own way
    #[arg(long, value_name = "RANKER")]
    pub(crate) ranker: Option<RankerName>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    /// What the prompt says there is, instead of what the catalog tells
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) prompt_categories: Vec<String>,

    /// An option of the dialect, such as `maxToolsLimit=20`
    #[arg(long, value_name = "KEY=JSON")]
    pub(crate) set: Vec<String>,

    /// Learn from the calls that follow a search, and rank with what was learned. A call counts
    /// as made, since nothing is heard of what became of it
    #[arg(long)]
    pub(crate) usage: bool,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,
}
