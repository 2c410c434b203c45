//! `pegboard logout`.

use std::path::PathBuf;

use clap::Args;
use pegboard_upstream::{
    auth::{LoggedOut, logout},
    with_causes,
};

use super::{
    login::{server_and_logins, shown},
    serve::runtime,
};
use crate::{
    Outcome,
    error::{CliError, say, warn},
};

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The name of the server in the configuration
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// The configuration [default: `pegboard.json` in this folder or above, else your own]
    #[arg(value_name = "CONFIG", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Where the login is kept [default: `pegboard` in the user's folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,
}

pub(crate) fn run(args: &LogoutArgs) -> Result<Outcome, CliError> {
    let (server, logins) = server_and_logins(&args.server, args.config.as_deref(), args.state.as_deref())?;
    let name = &server.name;
    match runtime()?.block_on(logout(&server, &logins)) {
        Ok(LoggedOut::Nothing) => {
            say(&format!("there is no login to `{name}`"));
            return Ok(Outcome::No);
        }
        Ok(LoggedOut::Revoked) => say(&format!("logged out of `{name}`")),
        Ok(LoggedOut::NotRevoked(error)) => {
            say(&format!("the login to `{name}` is forgotten here"));
            warn(&format!("it may still be valid: {}", with_causes(&error)));
        }
        Ok(_) => say(&format!("the login to `{name}` is forgotten here; it ends by itself when it expires")),
        Err(error) => return Err(shown(format!("cannot log out of `{name}`"), error)),
    }
    Ok(Outcome::Yes)
}
