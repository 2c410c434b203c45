//! Callers, and what they may see.

use std::sync::Arc;

use pegboard_core::Selection;
use pegboard_http::Principal;

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Anybody, where no token is asked for.
    Anybody,
    /// The program that started this one and speaks on its pipes.
    Pipe,
    /// The holder of a token.
    Token(Principal),
}

/// What a caller may see.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) caller: Caller,
    pub(crate) selection: Arc<Selection>,
    /// The number of the settings that say so.
    pub(crate) setup: u64,
}
