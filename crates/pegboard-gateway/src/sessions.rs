//! Conversations of legacy clients.

mod begin;
pub(crate) mod kept;
mod session;

pub(crate) use self::session::{Beginning, ClientSession, Sessions, client_name, is_id, random_id};
