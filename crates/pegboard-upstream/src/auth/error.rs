//! Errors of logins and logouts.

use std::{io, time::Duration};

use pegboard_core::text::excerpt;

use super::{guard::RefusedUrl, http::HttpError};

/// The error of a login or a logout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server is not an HTTP server.
    #[error("server `{0}` is a local program and needs no login")]
    NotRemote(String),
    /// The configuration has an `Authorization` header.
    #[error("server `{0}` has an `Authorization` header in its configuration, which takes precedence over a login")]
    Configured(String),
    /// A URL must not be used for a login, or cannot be reached.
    #[error(transparent)]
    Http(LoginHttpError),
    /// The server does not require a login.
    #[error("the server does not ask for a login (HTTP status {status})")]
    NotAsked {
        /// The HTTP status of its answer.
        status: u16,
    },
    /// The server requires a login, but does not name an authorization server.
    #[error("the server requires a login, but does not name an authorization server")]
    Undiscovered,
    /// The OAuth metadata is invalid.
    #[error("invalid OAuth metadata: {0}")]
    Metadata(String),
    /// The metadata is from another issuer.
    #[error("the OAuth issuer is `{found}`, expected `{expected}`")]
    Issuer {
        /// The expected issuer.
        expected: String,
        /// The issuer in the metadata.
        found: String,
    },
    /// The authorization server has no dynamic client registration.
    #[error("`{0}` does not support dynamic client registration")]
    NoRegistration(String),
    /// The authorization server rejected the registration.
    #[error("`{issuer}` rejected the registration of Pegboard: {reason}")]
    Registration {
        /// The issuer.
        issuer: String,
        /// The reason that the issuer gave.
        reason: String,
    },
    /// The port for the redirect cannot be used.
    #[error("cannot listen for the browser on local port {port}")]
    Listen {
        /// The port; 0 is any.
        port: u16,
        /// The cause.
        source: io::Error,
    },
    /// A pasted URL is not the redirect URL.
    #[error("this is not the redirect URL of the login")]
    NotARedirect,
    /// The redirect belongs to another login.
    #[error("this redirect URL belongs to another login")]
    OtherState,
    /// The user or the issuer denied the login.
    #[error("the login was denied: {0}")]
    Denied(String),
    /// The browser did not return in time.
    #[error("no login within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The code was not exchanged for a token.
    #[error("`{issuer}` did not issue a token: {reason}")]
    Exchange {
        /// The issuer.
        issuer: String,
        /// The reason that the issuer gave.
        reason: String,
    },
    /// The login was not revoked.
    #[error("`{issuer}` did not revoke the login (HTTP status {status})")]
    Revoke {
        /// The issuer.
        issuer: String,
        /// The HTTP status of its answer.
        status: u16,
    },
    /// The login cannot be saved.
    #[error("cannot save the login in `{folder}`")]
    Keep {
        /// The folder of logins.
        folder: String,
        /// The cause.
        source: io::Error,
    },
}

/// The error of a request to an authorization server.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct LoginHttpError(HttpError);

impl From<HttpError> for LoginError {
    fn from(error: HttpError) -> Self {
        Self::Http(LoginHttpError(error))
    }
}

impl From<RefusedUrl> for LoginError {
    fn from(refused: RefusedUrl) -> Self {
        HttpError::from(refused).into()
    }
}

impl LoginError {
    /// Returns advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Configured(_) => Some("remove the header to use a login"),
            Self::Http(LoginHttpError(HttpError::Refused(RefusedUrl::Private { .. }))) => {
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

/// Shortens a message of a server to one safe line.
pub(super) fn clean_reason(text: &str) -> String {
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
        assert_eq!(clean_reason("no\n\u{1b}[31mway\t"), "no [31mway");
        assert_eq!(clean_reason(" \n"), "no reason given");
        assert_eq!(clean_reason(&"x".repeat(500)).chars().count(), 300);
    }
}
