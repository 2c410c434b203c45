//! Where requests come in, and their answers go out.
//!
//! Only a door knows in which protocol version a client speaks: it reads a request into its one
//! form ([`incoming`]) and writes the reply in the client's ([`reply_format`]).

pub(crate) mod http;
pub(crate) mod incoming;
mod legacy_tools;
pub(crate) mod reply_format;
pub(crate) mod stdio;

use std::sync::Arc;

use crate::{pipeline::Pipeline, sessions::Sessions, setup::Setups, startup::Shutdown, trace::Requests};

/// What every door needs.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) setups: Arc<Setups>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) requests: Arc<Requests>,
}
