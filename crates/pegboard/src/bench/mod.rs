//! Speed and memory beside Tantivy.
use crate::{Outcome, cli::BenchArgs, error::CliError};
pub(crate) fn run(_args: &BenchArgs) -> Result<Outcome, CliError> {
    Ok(Outcome::Yes)
}
