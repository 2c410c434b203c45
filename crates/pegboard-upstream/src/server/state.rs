//! What a server is doing.

use std::time::Duration;

/// What a server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being started and listed.
    Starting,
    /// It can be called.
    Ready,
    /// It is to be started by its first call, and was not called yet or not for a while.
    /// What it offers is known.
    Lazy,
    /// It was not used for a while and was stopped; a call starts it.
    Idle,
    /// It does not run.
    Failed {
        /// What happened.
        reason: String,
        /// How long until the next try; `None` if it is not tried again before the configuration changes.
        retry_in: Option<Duration>,
    },
    /// The configuration says not to use it.
    Disabled,
    /// It was ended for good.
    Stopped,
}

impl State {
    /// Whether it is known what the server offers, or known that it offers nothing now.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Starting)
    }

    /// Returns whether it does not run, and is not expected to run soon.
    pub(crate) fn is_out_of_order(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Disabled | Self::Stopped)
    }

    /// Whether it does not run and a call would start it.
    pub fn is_resting(&self) -> bool {
        matches!(self, Self::Lazy | Self::Idle)
    }

    /// The name that people and programs use; it stays.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Lazy => "lazy",
            Self::Idle => "idle",
            Self::Failed { .. } => "failed",
            Self::Disabled => "disabled",
            Self::Stopped => "stopped",
        }
    }
}
