//! What can be said on the command line of `pegboard serve`.

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

    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "PEGBOARD_LISTEN", conflicts_with = "stdio")]
    pub(crate) listen: Option<String>,

    /// Speak on standard input and output instead
    #[arg(long)]
    pub(crate) stdio: bool,

    /// Listen on a public address although no token is asked for
    #[arg(long)]
    pub(crate) allow_public: bool,

    /// Where to keep what servers offer, for the next start, and logins; `none` keeps nothing
    /// [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    /// Note queries and the tools that were called then, for `pegboard eval FILE`; never
    /// arguments or results
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Note nothing more once the record is this large
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, requires = "record")]
    pub(crate) record_limit: u64,

    /// Log details: once what happens to servers and requests, twice everything
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "log_level")]
    pub(crate) verbose: u8,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}
