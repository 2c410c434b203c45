//! Logins: OAuth 2.1 for remote servers.
//!
//! A [`Login`] is one person's way through it: the server says who may let people in, we
//! register there, the person agrees in a browser, and what comes of it is kept by
//! [`Logins`], one file for each address of a server. From then on a `Bearer` has a token for
//! every request to that server, renews it before it expires or when it is refused, and finds
//! a login that was made meanwhile by another process.
//!
//! ```text
//! login.rs ─▶ oauth.rs (the MCP crate) ─▶ http.rs ─▶ guard.rs        callback.rs: where the browser comes back
//!    │            ▲
//!    ▼            │
//! store.rs ◀─ bearer.rs ◀─ the HTTP transports
//! ```
//!
//! Rules that hold everywhere here:
//! - A token goes to the address that it was made for, and to nobody else.
//! - What a server names must be `https`; on loopback, and for servers on loopback, `http` will do.
//! - What a server names must be on the internet, or on the kind of network that the server is on.
//! - Nothing that opens a door is printed, logged, or part of an error.

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

/// A server's address as logins are kept for it; two spellings of one are the same.
fn canonical(url: &str) -> Option<reqwest::Url> {
    let mut url = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.set_fragment(None);
    Some(url)
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
