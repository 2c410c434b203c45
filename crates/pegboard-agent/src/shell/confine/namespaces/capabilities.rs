//! Capabilities in a user namespace: kept while the sandbox is built, then dropped permanently.

use std::io;

use pegboard_process::namespaces;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

/// The capabilities for building the sandbox: mounts and the host name, the loopback interface, the
/// limit on user namespaces, and dropping capabilities.
const NEEDED: [CapabilitySet; 4] =
    [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN, CapabilitySet::SYS_RESOURCE, CapabilitySet::SETPCAP];

/// Passes the needed capabilities on to the program that this process starts.
pub(super) fn keep_in_child() -> io::Result<()> {
    namespaces::keep_capabilities(&NEEDED)
}

/// Drops all capabilities, and every way to gain one.
pub(super) fn drop_all() -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The kernel has no further capabilities.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(set_no_new_privs(true)?)
}
