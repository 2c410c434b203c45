//! Arguments of `pegboard bench`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::options::{ModelArgs, OutputArgs};

/// Upper limit of `--queries`; more would run for days.
const MAX_QUERIES: usize = 10_000_000;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Number of tools in the synthetic catalogs
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000,10000,100000")]
    pub(crate) sizes: Vec<usize>,

    /// Also measure this catalog file
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) catalog: Vec<PathBuf>,

    /// Number of queries to time for each row
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = parse_count)]
    pub(crate) queries: usize,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=MAX_QUERIES).contains(&count) => Ok(count),
        _ => Err(format!("expected a number from 1 to {MAX_QUERIES}")),
    }
}
