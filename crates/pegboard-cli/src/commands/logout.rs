//! `pegboard logout`.

use std::path::PathBuf;

use clap::Args;
use pegboard_upstream::{
    auth::{LoggedOut, logout},
    with_causes,
};

use super::{
    login::{explain_login_error, server_and_logins},
    serve::runtime,
};
use crate::{
    Outcome,
    error::{CliError, say, warn},
};

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// Name of the server in the configuration
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Configuration file [default: `pegboard.json` in this folder or above, else your user configuration]
    #[arg(value_name = "CONFIG")]
    pub(crate) argument: Option<PathBuf>,

    /// Configuration file, as a flag
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// State folder with the logins [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,
}

pub(crate) fn run(args: &LogoutArgs) -> Result<Outcome, CliError> {
    let file = args.argument.as_deref().or(args.config.as_deref());
    let (server, logins) = server_and_logins(&args.server, file, args.state.as_deref())?;
    let name = &server.name;
    match runtime()?.block_on(logout(&server, &logins)) {
        Ok(LoggedOut::Nothing) => {
            say(&format!("not logged in to `{name}`"));
            return Ok(Outcome::No);
        }
        Ok(LoggedOut::Revoked) => say(&format!("logged out of `{name}`")),
        Ok(LoggedOut::NotRevoked(error)) => {
            say(&format!("deleted the login to `{name}` from this machine"));
            warn(&format!("cannot revoke the login, so it may still be valid: {}", with_causes(&error)));
        }
        Ok(_) => say(&format!("deleted the login to `{name}` from this machine; it stays valid until it expires")),
        Err(error) => return Err(explain_login_error(format!("cannot log out of `{name}`"), error)),
    }
    Ok(Outcome::Yes)
}
