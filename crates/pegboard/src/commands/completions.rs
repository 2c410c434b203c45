//! `pegboard completions`.

use crate::{
    Outcome,
    cli::{self, CompletionsArgs},
    error::CliError,
    output,
};

pub(crate) fn run(args: &CompletionsArgs) -> Result<Outcome, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "pegboard", &mut script);
    output::raw(&script)?;
    Ok(Outcome::Yes)
}
