//! The doors, where requests arrive and replies leave.
//!
//! Only a door knows the protocol version of a client: it parses a request into its
//! version-independent form ([`incoming`]) and writes the reply in the client's ([`reply_format`]).

pub(crate) mod http;
pub(crate) mod incoming;
mod legacy_tools;
pub(crate) mod reply_format;
pub(crate) mod stdio;

use std::sync::Arc;

use crate::{pipeline::Pipeline, sessions::Sessions, setup::Setups, startup::Shutdown, trace::Requests};

/// The parts of the gateway that every door needs.
#[derive(Clone, Debug)]
pub(crate) struct DoorContext {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) setups: Arc<Setups>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) requests: Arc<Requests>,
}
