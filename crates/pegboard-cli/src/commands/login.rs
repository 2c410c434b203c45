//! `pegboard login`.

mod browser;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use pegboard_config::keys::did_you_mean;
use pegboard_upstream::{
    auth::{LoggedIn, Login, LoginError, Logins, Redirect},
    config::ServerConfig,
};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::serve::runtime;
use crate::{
    Outcome,
    config::state,
    error::{CliError, say, warn},
    output,
    source::Source,
};

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Name of the server in the configuration
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// Configuration file [default: `pegboard.json` in this folder or above, else your user configuration]
    #[arg(value_name = "CONFIG")]
    pub(crate) argument: Option<PathBuf>,

    /// Configuration file, as a flag
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Print the URL instead of opening a browser; if your browser is on another machine, paste the
    /// URL of the page that it fails to open at the end of the login
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// Maximum time to wait for the login
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) timeout: u64,

    /// State folder for the login [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,
}

pub(crate) fn run(args: &LoginArgs) -> Result<Outcome, CliError> {
    let file = args.argument.as_deref().or(args.config.as_deref());
    let (server, logins) = server_and_logins(&args.server, file, args.state.as_deref())?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(log_in(args, &server, &logins));
    // A read of standard input cannot be taken back; it must not keep us from ending.
    runtime.shutdown_background();
    match outcome {
        Ok(logged_in) => {
            print_success(&server.name, &logged_in, &logins);
            Ok(Outcome::Yes)
        }
        Err(Failed::Login(error)) => {
            let is_no = matches!(error, LoginError::Denied(_) | LoginError::Timeout(_));
            let shown = explain_login_error(format!("cannot log in to `{}`", server.name), error);
            if !is_no {
                return Err(shown);
            }
            shown.print();
            Ok(Outcome::No)
        }
        Err(Failed::Output(error)) => Err(error),
    }
}

/// Returns the server of this name, and where its login is saved.
pub(super) fn server_and_logins(
    name: &str,
    path: Option<&Path>,
    state: Option<&str>,
) -> Result<(ServerConfig, Logins), CliError> {
    let source = Source::find(path, false);
    let path = source.file()?;
    source.announce();
    let config = source.read(state)?;
    let folder = config
        .state
        .resolve(state)
        .ok_or_else(|| CliError::new("no state folder to save a login in").hint("name one with `--state`"))?;
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    let Some(server) = config.servers.iter().find(|server| server.name == name) else {
        let error = CliError::new(format!("no server `{name}` in `{}`", path.display()));
        return Err(match did_you_mean(name, names) {
            Some(hint) => error.hint(hint),
            None => error,
        });
    };
    if let Some(missing) = &server.missing {
        return Err(CliError::new(format!("the server `{name}` cannot be reached: {missing}")));
    }
    Ok((server.clone(), state::logins(&folder)))
}

/// Returns the error of a failed login, with a hint.
pub(super) fn explain_login_error(message: String, error: LoginError) -> CliError {
    let hint = error.hint();
    let shown = CliError::new(message).because(error);
    match hint {
        Some(hint) => shown.hint(hint),
        None => shown,
    }
}

enum Failed {
    Login(LoginError),
    Output(CliError),
}

impl From<LoginError> for Failed {
    fn from(error: LoginError) -> Self {
        Self::Login(error)
    }
}

async fn log_in(args: &LoginArgs, server: &ServerConfig, logins: &Logins) -> Result<LoggedIn, Failed> {
    let login = Login::begin(server, logins).await?;
    say(&format!("`{}` uses the authorization server {}", server.name, login.issuer()));
    if args.no_browser {
        say("open this URL in a browser:");
        output::text(&format!("{}\n", login.url())).map_err(Failed::Output)?;
        say("if your browser is on another machine, paste here the URL of the page that it fails to open in the end");
    } else {
        if let Err(error) = browser::open(login.url()) {
            warn(&format!("cannot open a browser: {error}"));
        }
        say(&format!("log in with your browser; if it does not open, go to\n  {}", login.url()));
    }
    let limit = Duration::from_secs(args.timeout);
    let coming_back = async {
        if !args.no_browser {
            return login.wait_for_redirect().await;
        }
        tokio::select! {
            redirect = login.wait_for_redirect() => redirect,
            redirect = read_pasted_redirect(&login) => redirect,
        }
    };
    let redirect = tokio::time::timeout(limit, coming_back).await.map_err(|_| LoginError::Timeout(limit))??;
    Ok(login.finish(&redirect).await?)
}

/// Reads the first valid redirect URL from standard input; waits for ever if there is none.
async fn read_pasted_redirect(login: &Login) -> Result<Redirect, LoginError> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.trim().is_empty() {
            continue;
        }
        match login.parse_pasted(&line) {
            Err(error @ (LoginError::NotARedirect | LoginError::OtherState)) => warn(&error.to_string()),
            answer => return answer,
        }
    }
    std::future::pending().await
}

fn print_success(server: &str, logged_in: &LoggedIn, logins: &Logins) {
    let scopes = match &logged_in.scopes[..] {
        [] => String::new(),
        scopes => format!(", for {}", scopes.join(", ")),
    };
    say(&format!("logged in to `{server}`{scopes}; saved in `{}`", logins.path().display()));
    if !logged_in.is_renewable {
        say("the login cannot be refreshed; log in again when it expires");
    }
}
