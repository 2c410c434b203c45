//! File descriptors: every connection takes one, and so does every pipe to a server.

use pegboard_http::ConnectionLimits;

/// Descriptors for everything but connections: pipes and sockets to servers, files, logs.
#[cfg(unix)]
const OTHERS: u64 = 512;

/// Raises this program's limit of open files as far as the connections need it and the system
/// allows. Where that is not far enough, there may be fewer connections.
#[cfg(unix)]
pub(super) fn within_descriptors(limits: ConnectionLimits) -> ConnectionLimits {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let connections = u64::try_from(limits.total.saturating_add(limits.reserved)).unwrap_or(u64::MAX);
    let wanted = connections.saturating_add(OTHERS);
    let now = getrlimit(Resource::Nofile);
    let Some(current) = now.current.filter(|current| *current < wanted) else { return limits };
    let raised = now.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: now.maximum }).is_ok();
    let open_files = if is_raised { raised } else { current };
    let total = fitting(limits.total, open_files);
    if total < limits.total {
        tracing::warn!(open_files, connections = total, "connection limit lowered: open file limit too low");
    }
    ConnectionLimits { total, ..limits }
}

/// Descriptors are not limited here.
#[cfg(not(unix))]
pub(super) fn within_descriptors(limits: ConnectionLimits) -> ConnectionLimits {
    limits
}

/// As many connections as so many open files leave room for; half of them where they are scarce.
#[cfg(unix)]
fn fitting(total: usize, open_files: u64) -> usize {
    let room = open_files.saturating_sub(OTHERS).max(open_files / 2).max(1);
    usize::try_from(room).unwrap_or(usize::MAX).min(total)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_files() {
        let check = |total, open_files, expected| assert_eq!(fitting(total, open_files), expected);
        check(1024, 4096, 1024);
        check(1024, 1024, 512);
        check(1024, 256, 128);
        check(1024, 1, 1);
        check(10, 1024, 10);
    }
}
