//! Why a login fails.

use std::{io, time::Duration};

use super::{guard::RefusedPlace, http::HttpError};

/// Why a login or a logout fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// It is not reached over HTTP.
    #[error("server `{0}` is not a remote server, and needs no login")]
    NotRemote(String),
    /// The configuration already says what to send.
    #[error("server `{0}` has an `Authorization` in its configuration, which counts more than a login")]
    Configured(String),
    /// An address is not to be trusted with a login, or cannot be reached.
    #[error(transparent)]
    Http(AskError),
    /// It lets everybody in.
    #[error("the server does not ask for a login (HTTP status {status})")]
    NotAsked {
        /// What it answered with.
        status: u16,
    },
    /// It wants something that it does not explain.
    #[error("the server wants a login, but does not say who gives it")]
    Undiscovered,
    /// What is said about logins there makes no sense.
    #[error("what is said about logins there cannot be used: {0}")]
    Metadata(String),
    /// Somebody speaks in the name of somebody else.
    #[error("the answer comes from `{found}`, and not from `{expected}`")]
    Issuer {
        /// Whose it must be.
        expected: String,
        /// Whose it is.
        found: String,
    },
    /// Programs cannot introduce themselves there.
    #[error("`{0}` does not let programs register themselves")]
    NoRegistration(String),
    /// It does not want us.
    #[error("`{issuer}` refuses to register Pegboard: {reason}")]
    Registration {
        /// Who.
        issuer: String,
        /// In its own words.
        reason: String,
    },
    /// The port for the way back is taken.
    #[error("cannot wait for the browser on port {port} of this machine")]
    Listen {
        /// Which port; 0 is any.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// Not what the browser was sent to.
    #[error("this is not the address that the browser was sent back to")]
    NotARedirect,
    /// The answer to another login.
    #[error("this is the answer to another login")]
    OtherState,
    /// The person or the issuer said no.
    #[error("the login was refused: {0}")]
    Denied(String),
    /// Nobody came back.
    #[error("nobody logged in within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The last step failed.
    #[error("`{issuer}` gives no token: {reason}")]
    Exchange {
        /// Who.
        issuer: String,
        /// In its own words.
        reason: String,
    },
    /// It is not taken back.
    #[error("`{issuer}` does not take the login back (HTTP status {status})")]
    Revoke {
        /// Who.
        issuer: String,
        /// What it answered with.
        status: u16,
    },
    /// It cannot be kept.
    #[error("cannot keep the login in `{folder}`")]
    Keep {
        /// Where.
        folder: String,
        /// Why.
        source: io::Error,
    },
}

/// Why something could not be asked.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AskError(HttpError);

impl From<HttpError> for LoginError {
    fn from(error: HttpError) -> Self {
        Self::Http(AskError(error))
    }
}

impl From<RefusedPlace> for LoginError {
    fn from(refused: RefusedPlace) -> Self {
        HttpError::from(refused).into()
    }
}

impl LoginError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Configured(_) => Some("remove it to use a login"),
            Self::Http(AskError(HttpError::Refused(RefusedPlace::Private { .. }))) => {
                Some("if you trust the server with that, set `allowPrivateIssuers` in its `pegboard` section")
            }
            Self::Undiscovered => Some("it may want a fixed token: set `authorizationToken` in its configuration"),
            Self::NoRegistration(_) | Self::Registration { .. } => {
                Some("register an application there, and give its id as `oauth.clientId`")
            }
            Self::Listen { port: 1.., .. } => Some("free it, or change `oauth.callbackPort`"),
            Self::Timeout(_) => Some("`--timeout` waits longer"),
            Self::Keep { .. } => Some("`--state` names another folder"),
            _ => None,
        }
    }
}

/// What somebody else says, fit to be shown: one line, and not a long one.
pub(super) fn told(text: &str) -> String {
    const MOST: usize = 300;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST + 1).collect();
    let mut line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > MOST {
        line = line.chars().take(MOST).chain(['…']).collect();
    }
    if line.is_empty() { "it does not say why".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_short_line() {
        assert_eq!(told("no\n\u{1b}[31mway\t"), "no [31mway");
        assert_eq!(told(" \n"), "it does not say why");
        assert_eq!(told(&"x".repeat(500)).chars().count(), 301);
    }
}
