//! Arguments of `pegboard session`.

use std::path::PathBuf;

use clap::Args;
use pegboard_core::LoadLimits;

use crate::{
    cli::options::{Dialect, ModelArgs, ShownArgs},
    embeddings::EmbeddingsArgs,
    rankers::RankerName,
    source::ConfigArgs,
};

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Set of meta-tools, with which the model finds and calls tools
    #[arg(long, value_name = "DIALECT", default_value = "bridge")]
    pub(crate) dialect: Dialect,

    /// Catalog file to use instead of the configured servers, which are otherwise started to list
    /// their tools; no tool is called
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["config", "demo"])]
    pub(crate) catalog: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Maximum size of a catalog file
    #[arg(long, value_name = "BYTES", default_value_t = LoadLimits::default().file_bytes)]
    pub(crate) max_catalog_bytes: usize,

    /// Ranker to use [default: the dialect's own]
    #[arg(long, value_name = "RANKER")]
    pub(crate) ranker: Option<RankerName>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    /// Tool categories to list in the prompt, instead of those of the catalog
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) prompt_categories: Vec<String>,

    /// Set an option of the dialect, such as `maxToolsLimit=20`
    #[arg(long, value_name = "KEY=JSON")]
    pub(crate) set: Vec<String>,

    /// Learn from the calls that follow a search, and rank with learned usage; every call counts as
    /// successful, because its result is not known
    #[arg(long)]
    pub(crate) usage: bool,

    #[command(flatten)]
    pub(crate) embeddings: EmbeddingsArgs,
}
