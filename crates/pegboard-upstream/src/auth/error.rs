//! Why a login fails.

use std::{io, time::Duration};

use pegboard_core::text::excerpt;

use super::{guard::RefusedPlace, http::HttpError};

/// Why a login or a logout fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// It is not reached over HTTP.
    #[error("server `{0}` is a local program and needs no login")]
    NotRemote(String),
    /// The configuration already says what to send.
    #[error("server `{0}` has an `Authorization` header in its configuration, which takes precedence over a login")]
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
    #[error("the server requires a login, but does not name an authorization server")]
    Undiscovered,
    /// What is said about logins there makes no sense.
    #[error("invalid OAuth metadata: {0}")]
    Metadata(String),
    /// Somebody speaks in the name of somebody else.
    #[error("the OAuth issuer is `{found}`, expected `{expected}`")]
    Issuer {
        /// Whose it must be.
        expected: String,
        /// Whose it is.
        found: String,
    },
    /// Programs cannot introduce themselves there.
    #[error("`{0}` does not support dynamic client registration")]
    NoRegistration(String),
    /// It does not want us.
    #[error("`{issuer}` rejected the registration of Pegboard: {reason}")]
    Registration {
        /// Who.
        issuer: String,
        /// In its own words.
        reason: String,
    },
    /// The port for the way back is taken.
    #[error("cannot listen for the browser on local port {port}")]
    Listen {
        /// Which port; 0 is any.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// Not what the browser was sent to.
    #[error("this is not the redirect URL of the login")]
    NotARedirect,
    /// The answer to another login.
    #[error("this redirect URL belongs to another login")]
    OtherState,
    /// The person or the issuer said no.
    #[error("the login was denied: {0}")]
    Denied(String),
    /// Nobody came back.
    #[error("no login within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The last step failed.
    #[error("`{issuer}` did not issue a token: {reason}")]
    Exchange {
        /// Who.
        issuer: String,
        /// In its own words.
        reason: String,
    },
    /// It is not taken back.
    #[error("`{issuer}` did not revoke the login (HTTP status {status})")]
    Revoke {
        /// Who.
        issuer: String,
        /// What it answered with.
        status: u16,
    },
    /// It cannot be kept.
    #[error("cannot save the login in `{folder}`")]
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
            Self::Configured(_) => Some("remove the header to use a login"),
            Self::Http(AskError(HttpError::Refused(RefusedPlace::Private { .. }))) => {
                Some("if you trust the server, set `allowPrivateIssuers` in the `pegboard` section of its entry")
            }
            Self::Undiscovered => {
                Some("if the server uses a fixed token, set `authorizationToken` in its configuration")
            }
            Self::NoRegistration(_) | Self::Registration { .. } => {
                Some("register an OAuth client there, and set its id as `oauth.clientId`")
            }
            Self::Listen { port: 1.., .. } => Some("free the port, or change `oauth.callbackPort`"),
            Self::Timeout(_) => Some("`--timeout` waits longer"),
            Self::Keep { .. } => Some("`--state` names another folder"),
            _ => None,
        }
    }
}

/// What somebody else says, fit to be shown: one line, and not a long one.
pub(super) fn told(text: &str) -> String {
    const MOST: usize = 300;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST * 2).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "no reason given".to_owned() } else { excerpt(&line, MOST).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_short_line() {
        assert_eq!(told("no\n\u{1b}[31mway\t"), "no [31mway");
        assert_eq!(told(" \n"), "no reason given");
        assert_eq!(told(&"x".repeat(500)).chars().count(), 300);
    }
}
