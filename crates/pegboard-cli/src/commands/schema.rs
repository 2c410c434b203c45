//! `pegboard schema`.

use crate::{Outcome, config, error::CliError, output};

pub(crate) fn run() -> Result<Outcome, CliError> {
    output::json(&config::schema())?;
    Ok(Outcome::Yes)
}
