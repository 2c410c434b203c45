//! Arguments of `pegboard serve`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    cli::options::{LogArgs, ModelArgs},
    source::ConfigArgument,
};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgument,

    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "PEGBOARD_LISTEN", conflicts_with = "stdio")]
    pub(crate) listen: Option<String>,

    /// Use standard input and output instead of HTTP
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Do not serve the web console
    #[arg(long)]
    pub(crate) no_console: bool,

    /// Allow a public listen address without tokens
    #[arg(long)]
    pub(crate) allow_public: bool,

    /// State folder for cached tool lists, approvals and logins; `none` saves nothing
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    /// Record queries and the tools called after them, for `pegboard eval FILE`; never
    /// arguments or results
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Maximum size of the record; recording stops when it is reached
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, requires = "record")]
    pub(crate) record_limit: u64,

    /// Log more: once for server events and requests, twice for everything
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "log_level")]
    pub(crate) verbose: u8,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}
