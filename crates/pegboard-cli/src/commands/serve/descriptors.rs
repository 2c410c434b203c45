//! File descriptors: every connection takes one, and so does every pipe to a server.

use pegboard_http::ConnectionLimits;
use pegboard_process::processes;

/// Descriptors for everything but connections: pipes and sockets to servers, files, logs.
const OTHERS: u64 = 512;

/// Raises the limit of open files as far as the connections need it and the system allows. If that
/// is not enough, reduces the connection limit.
pub(super) fn fit_to_descriptors(limits: ConnectionLimits) -> ConnectionLimits {
    let connections = u64::try_from(limits.total.saturating_add(limits.reserved)).unwrap_or(u64::MAX);
    let wanted = connections.saturating_add(OTHERS);
    let open_files = processes::raise_open_files(wanted);
    let total = if open_files < wanted { connections_for(limits.total, open_files) } else { limits.total };
    if total < limits.total {
        tracing::warn!(open_files, connections = total, "connection limit lowered: open file limit too low");
    }
    ConnectionLimits { total, ..limits }
}

/// Raises the limit of open files for connections that each need another one to a provider.
pub(crate) fn fit_to_descriptors_with_upstreams(limits: ConnectionLimits) -> ConnectionLimits {
    let doubled = ConnectionLimits { total: limits.total.saturating_mul(2), ..limits };
    let total = fit_to_descriptors(doubled).total / 2;
    ConnectionLimits { total: total.max(1), ..limits }
}

/// Returns how many connections so many open files allow; half of them if they are scarce.
fn connections_for(total: usize, open_files: u64) -> usize {
    let room = open_files.saturating_sub(OTHERS).max(open_files / 2).max(1);
    usize::try_from(room).unwrap_or(usize::MAX).min(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_files() {
        let check = |total, open_files, expected| assert_eq!(connections_for(total, open_files), expected);
        check(1024, 4096, 1024);
        check(1024, 1024, 512);
        check(1024, 256, 128);
        check(1024, 1, 1);
        check(10, 1024, 10);
    }
}
