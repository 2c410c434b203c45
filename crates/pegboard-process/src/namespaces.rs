//! New Linux namespaces for this process.

use std::{fs, io};

use rustix::{
    io::Errno,
    process::{getegid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
        configure_capability_in_ambient_set, set_capabilities,
    },
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

/// Lets the program that this process starts have these capabilities in its user namespace: a
/// user other than root loses all of them otherwise.
pub fn keep_capabilities(needed: &[CapabilitySet]) -> io::Result<()> {
    let all = capabilities(None)?.permitted;
    set_capabilities(None, CapabilitySets { effective: all, permitted: all, inheritable: all })?;
    for capability in needed {
        configure_capability_in_ambient_set(*capability, true)?;
    }
    Ok(())
}

/// Undoes [`keep_capabilities`] for the programs that this process starts.
pub fn drop_kept_capabilities() -> io::Result<()> {
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    clear_ambient_capability_set()?;
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() })?)
}
