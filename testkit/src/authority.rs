//! An OAuth 2.1 authorization server, and an MCP server's door that takes its tokens.
//!
//! | path under [`url`](Authority::url) | |
//! | --- | --- |
//! | `/mcp` | the protected server: with a good token a request passes to the one behind it |
//! | `/.well-known/oauth-protected-resource/mcp` | who gives logins for it (RFC 9728) |
//! | `/.well-known/oauth-authorization-server` | how (RFC 8414) |
//! | `/register` | programs introduce themselves (RFC 7591) |
//! | `/authorize` | the person agrees, without being asked |
//! | `/token` | codes and refresh tokens become tokens |
//! | `/revoke` | tokens are taken back (RFC 7009) |
//!
//! It refuses what real ones refuse: redirects that were not registered, a verifier that does not
//! fit its challenge, a code or a refresh token that was used before (and then everything that
//! came of it), a token for another server, a client that cannot prove who it is.
//!
//! ```
//! use pegboard_testkit::authority::{Authority, Rules};
//!
//! let authority = Authority::start(Rules::default());
//! assert!(authority.mcp().ends_with("/mcp"));
//! assert!(authority.events().is_empty());
//! ```

mod forms;
mod forward;
mod grants;
mod server;

use std::net::SocketAddr;

use self::server::Server;

/// How it behaves.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Where the server behind the door listens.
    pub backend: Option<SocketAddr>,
    /// For how long tokens are said to be good, in seconds.
    pub lifetime: u64,
    /// Whether a refresh token is good for one use only.
    pub rotates: bool,
    /// Whether programs can register themselves.
    pub registers: bool,
    /// Whether they get a secret for it.
    pub gives_secrets: bool,
    /// Whether tokens can be taken back.
    pub revokes: bool,
    /// Whether the person says no.
    pub denies: bool,
    /// Clients that are known from the start, with their secrets.
    pub clients: Vec<(String, String)>,
    /// Where such a client's person is sent back to.
    pub redirect: String,
    /// The issuer that is named in answers, in place of its own.
    pub issuer_of_answers: Option<String>,
    /// The authorization server that the door names, in place of itself.
    pub named: Option<String>,
    /// The token endpoint that is named, in place of its own.
    pub token_endpoint: Option<String>,
    /// The redirect target of the protected server.
    pub moved_to: Option<String>,
    /// Whether nothing but the door answers.
    pub is_out_of_order: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            backend: None,
            lifetime: 3600,
            rotates: true,
            registers: true,
            gives_secrets: false,
            revokes: true,
            denies: false,
            clients: Vec::new(),
            redirect: String::new(),
            issuer_of_answers: None,
            named: None,
            token_endpoint: None,
            moved_to: None,
            is_out_of_order: false,
        }
    }
}

/// A running server. Dropped, it is stopped and its connections are closed.
pub struct Authority {
    server: Server,
    url: String,
}

impl Authority {
    /// Starts one on a free port of the loopback interface.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn start(rules: Rules) -> Self {
        let server = Server::bind(rules).expect("the loopback interface has a free port");
        let url = format!("http://{}", server.address());
        Self { server, url }
    }

    /// Its address, which is also its name as an issuer.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address of the protected server.
    pub fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    /// What happened so far, in a few words each.
    pub fn events(&self) -> Vec<String> {
        self.server.state().events.clone()
    }

    /// How often it happened.
    pub fn count(&self, event: &str) -> usize {
        self.server.state().events.iter().filter(|known| known.starts_with(event)).count()
    }

    /// Returns every issued secret: codes, tokens, client secrets.
    pub fn secrets(&self) -> Vec<String> {
        self.server.state().secrets.clone()
    }

    /// Behaves differently from now on.
    pub fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.server.state().rules);
    }

    /// Lets all tokens expire; they can be renewed.
    pub fn expire(&self) {
        self.server.state().expire();
    }

    /// Ends all logins.
    pub fn end_logins(&self) {
        self.server.state().end_logins();
    }
}
