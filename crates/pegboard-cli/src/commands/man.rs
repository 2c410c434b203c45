//! `pegboard man`.

use crate::{Outcome, error::CliError, output, reference};

pub(crate) fn run() -> Result<Outcome, CliError> {
    output::raw(&reference::man_page()?)?;
    Ok(Outcome::Yes)
}
