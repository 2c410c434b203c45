//! `pegboard completions`.

use clap::Args;

use crate::{Outcome, cli, error::CliError, output};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Outcome, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "pegboard", &mut script);
    output::raw(&script)?;
    Ok(Outcome::Yes)
}
