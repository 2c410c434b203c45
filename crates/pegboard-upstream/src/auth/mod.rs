//! Logins: OAuth 2.1 for remote servers.
//!
//! A [`Login`] is one run through the flow: the server names its authorization server, Pegboard
//! registers there, the user agrees in a browser, and the tokens are stored by [`Logins`], one
//! file for each URL of a server. From then on a `Bearer` has a token for every request to that
//! server, refreshes it before it expires or when it is rejected, and finds a login that another
//! process has made meanwhile.
//!
//! ```text
//! login.rs ─▶ oauth.rs (the MCP crate) ─▶ http.rs ─▶ guard.rs        callback.rs: the redirect page
//!    │            ▲
//!    ▼            │
//! store.rs ◀─ bearer.rs ◀─ the HTTP transports
//! ```
//!
//! Rules of this module:
//! - A token is sent only to the URL that it was issued for.
//! - URLs that a server names must be `https`; on loopback, and for servers on loopback, `http` is allowed.
//! - URLs that a server names must be on the internet, or on the kind of network that the server is on.
//! - Credentials are never printed, logged, or part of an error.

mod bearer;
mod callback;
mod error;
mod guard;
mod http;
mod login;
mod network;
mod oauth;
mod revoke;
mod store;

pub(crate) use self::bearer::{Bearer, send};
pub use self::{
    bearer::NeedsLogin,
    error::LoginError,
    login::{LoggedIn, LoggedOut, Login, Redirect, logout},
    store::Logins,
};

/// Returns the canonical URL of a server, under which its login is stored.
fn canonical(url: &str) -> Option<reqwest::Url> {
    let mut url = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.set_fragment(None);
    Some(url)
}

/// Returns the current time in seconds since 1970.
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
