//! `pegboard bench`.

use crate::{Outcome, cli::BenchArgs, error::CliError};

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    crate::bench::run(args)
}
