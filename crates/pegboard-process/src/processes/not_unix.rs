//! Waiting for processes and ending them on systems without signals and process groups, such as
//! Windows.

use std::process::{Child, Command, ExitStatus};

use super::ResourceLimit;

/// Waits until `child` has ended and returns its exit code, 1 when that is not a byte.
pub fn wait_for(child: &mut Child) -> u8 {
    let code = child.wait().ok().and_then(|status| status.code());
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Does nothing: this system has no zombies.
pub(super) fn reap() {}

/// Does nothing: this system has no signals.
pub fn terminate(_pid: i32) {}

/// Does nothing: the standard library can kill children, but not a process by its id.
pub fn kill(_pid: i32) {}

/// Does nothing: this system has no process groups.
pub fn kill_group(_leader: i32) {}

/// Does nothing: this system has no process groups.
pub fn start_in_group(_command: &mut Command) {}

/// `true`: it is not known which processes run.
pub fn is_running(_pid: u32) -> bool {
    true
}

/// `None`: this system has no signals.
pub fn ended_by(_status: ExitStatus) -> Option<ResourceLimit> {
    None
}

/// No limit: this system does not limit open files.
pub fn raise_open_files(_wanted: u64) -> u64 {
    u64::MAX
}
