//! The system files that a command may read.

use std::path::{Path, PathBuf};

/// Programs and libraries.
pub(super) const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system/sw"];

/// The files of `/etc` that programs need and that every user may read.
pub(super) const CONFIGURATION: [&str; 18] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/debian_version",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// The search path of programs.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the shell: models write for bash, and mostly in a way that other shells accept.
pub(super) fn shell() -> PathBuf {
    let bash = find("bash").filter(|path| PROGRAMS.iter().any(|folder| path.starts_with(folder)));
    bash.unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Finds a program of the system.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}
