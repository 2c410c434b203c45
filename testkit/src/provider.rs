//! A scripted LLM provider.
//!
//! One server on loopback speaks Anthropic Messages, OpenAI Chat Completions and Responses,
//! Gemini, and MiniMax's two wires:
//!
//! | wire | paths under [`url`](Provider::url) |
//! | --- | --- |
//! | Anthropic | `/v1/messages`, `/v1/messages/count_tokens` |
//! | OpenAI Chat | `/v1/chat/completions` |
//! | OpenAI Responses | `/v1/responses`, `/v1/responses/input_tokens` |
//! | Gemini | `/v1beta/models/M:generateContent`, `:streamGenerateContent`, `:countTokens`; also under `/v1` |
//! | MiniMax | `/minimax/anthropic/v1/messages`, `/minimax/v1/chat/completions` |
//! | embeddings | `/v1/embeddings` |
//! | list of models | `/v1/models` |
//!
//! Every request is held to the rules of its provider ([`Check`]) and refused in its words
//! where it breaks one. What passes takes the next [`ScriptedTurn`] of the [`Script`], encoded for the
//! wire that asked, streamed or not. For clients that are not Rust, `GET /_requests` tells what
//! was recorded and `PUT /_script` starts over with another script.
//!
//! A Messages conversation by hand:
//!
//! ```
//! use pegboard_testkit::provider::{Check, Part, Provider, Script, ScriptedTurn};
//! use serde_json::json;
//!
//! let script = Script::new([
//!     ScriptedTurn::say([Part::call("search_tools", json!({"query": "mail"}))]),
//!     ScriptedTurn::say([Part::call("send_mail", json!({"to": "a@example.com"}))]),
//!     ScriptedTurn::say([Part::text("Sent.")]),
//! ]);
//! let provider = Provider::start(script.forbid("send_mail", 1).stable_prefix());
//! // … run a client against provider.url() …
//! provider.assert_clean();
//! ```

mod ask;
mod cache;
mod checks;
pub(crate) mod embeddings;
mod encode;
mod errors;
mod events;
mod exchange;
mod goal;
pub(crate) mod http;
pub(crate) mod ids;
mod memory;
mod prompt;
mod record;
mod route;
mod script;
mod send;
mod server;

use std::{
    io, thread,
    time::{Duration, Instant},
};

pub use checks::{Check, Violation};
pub use record::{Ending, Recorded};
pub use route::{Vendor, Wire};
pub use script::{
    Call, Embeddings, Fault, Forbidden, Goal, Models, Noise, Output, Part, Quirk, Script, ScriptError, ScriptedError,
    ScriptedTurn, Search, Sending, Stall, Stop, StreamError, Usage,
};

use server::Server;

/// A running server. Dropped, it is stopped and its connections are closed.
pub struct Provider {
    server: Server,
    url: String,
}

impl Provider {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn start(script: Script) -> Provider {
        Provider::bind(script, 0).expect("the loopback interface has a free port")
    }

    /// Starts a server on this port of the loopback interface.
    ///
    /// # Errors
    ///
    /// When the port cannot be had.
    pub fn bind(script: Script, port: u16) -> io::Result<Provider> {
        let server = Server::bind(script, port)?;
        let url = format!("http://{}", server.address());
        Ok(Provider { server, url })
    }

    /// Where it listens: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What was asked so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.server.state().recorded.clone()
    }

    /// What was wrong with it, request by request.
    pub fn violations(&self) -> Vec<Violation> {
        self.server.state().recorded.iter().flat_map(|recorded| recorded.violations.clone()).collect()
    }

    /// How many turns of the script have been used.
    pub fn turns_taken(&self) -> usize {
        self.server.state().turns_taken()
    }

    /// Puts further turns at the end of the script, for what only becomes known on the way.
    pub fn go_on(&self, turns: impl IntoIterator<Item = ScriptedTurn>) {
        self.server.state().go_on(turns);
    }

    /// Waits until what was recorded satisfies `enough`; returns whether it came to that in time.
    /// An answer's [`Ending`] is known only a moment after the client has read its last byte.
    pub fn wait_until(&self, time: Duration, enough: impl Fn(&[Recorded]) -> bool) -> bool {
        let begun = Instant::now();
        loop {
            if enough(&self.server.state().recorded) {
                return true;
            }
            if begun.elapsed() > time {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks that no request was wrong in any way.
    ///
    /// # Panics
    ///
    /// When one was, with everything that was wrong.
    #[track_caller]
    pub fn assert_clean(&self) {
        let wrong = self.violations();
        let list: Vec<String> =
            wrong.iter().map(|wrong| format!("{}: {}", wrong.check.name(), wrong.message)).collect();
        assert!(list.is_empty(), "the provider found fault:\n{}", list.join("\n"));
    }
}
