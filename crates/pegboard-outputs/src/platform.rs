//! The limits of the process that runs jq filters, which depend on the operating system.
//!
//! Every implementation has the same functions, and tests also run those of other systems.

#[cfg(any(test, not(unix)))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::other::{give_up_rights, input_size};
#[cfg(unix)]
pub(crate) use self::unix::{give_up_rights, input_size};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_without_limits_set_none() {
        other::give_up_rights(0, 0).expect("nothing is done");
        assert!(other::input_size().is_none());
    }
}
