//! New Linux namespaces for this process.

use std::{fs, io};

use rustix::{
    io::Errno,
    process::{getegid, geteuid},
    thread::UnshareFlags,
};

/// Moves this process into new namespaces of these kinds. For a PID namespace that means the
/// processes it starts from now on; it cannot start threads afterwards.
#[expect(deprecated, reason = "unsafe for `FILES` alone, which is refused; the replacement is an unsafe function")]
pub fn unshare(flags: UnshareFlags) -> io::Result<()> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(Errno::INVAL.into());
    }
    Ok(rustix::thread::unshare(flags)?)
}

/// Moves this process into a new user namespace, where it keeps its user and its group and has
/// all capabilities, and into new namespaces of the other kinds, which belong to it. The
/// process must have one thread.
pub fn unshare_with_user(others: UnshareFlags) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | others)?;
    // The kernel wants this before a group is mapped without a privilege outside.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
