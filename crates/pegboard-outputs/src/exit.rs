//! What the process that runs filters and the one that starts it agree on.

/// How deep filters and documents may go. The first thread's own stack is too small for
/// what people write by hand.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// How the process ends when it does so by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The filter is not valid.
    Filter = 10,
    /// The input is not JSON.
    NotJson = 11,
    /// The filter ended in an error.
    Failed = 12,
    /// The limits could not be set.
    Unconfined = 13,
}

impl Exit {
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        [Self::Filter, Self::NotJson, Self::Failed, Self::Unconfined].into_iter().find(|exit| *exit as i32 == code)
    }
}
