//! The command line of bubblewrap.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

use super::{
    private_folder::SOCKET,
    spec::CommandSpec,
    system::{CONFIGURATION, PROGRAMS},
};
use crate::shell::WORKSPACE;

/// The folder in the sandbox with Pegboard's own files.
pub(super) const OURS: &str = "/run/pegboard";

/// New namespaces of every kind, no capabilities, no further user namespaces, and an end together
/// with the parent. The first process inside is Pegboard and not bubblewrap, whose file a command
/// could change through `/proc/1/exe`.
const ALONE: [&str; 10] = [
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--die-with-parent",
    "--as-pid-1",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--hostname",
    "pegboard",
];

/// Returns the arguments up to the program to run; `own` is this program.
pub(super) fn arguments(spec: &CommandSpec, own: &Path) -> Vec<OsString> {
    let mut args = Arguments(ALONE.iter().map(OsString::from).collect());
    for folder in PROGRAMS {
        match fs::read_link(folder) {
            // `/bin` is a link on most systems, and must stay one to be found in `/usr`.
            Ok(target) => args.add("--symlink", [target.as_os_str(), folder.as_ref()]),
            Err(_) => args.add("--ro-bind-try", [folder, folder]),
        }
    }
    for path in CONFIGURATION {
        args.add("--ro-bind-try", [path, path]);
    }
    args.add("--proc", ["/proc"]);
    args.add("--dev", ["/dev"]);
    let size = spec.limits.temporary_bytes.to_string();
    // Memory of files without an owner process is not attributed to any process, so it must be
    // bounded here.
    for folder in ["/dev/shm", "/tmp"] {
        args.add("--size", [size.as_str()]);
        args.add("--tmpfs", [folder]);
    }
    for path in &spec.readable {
        args.add("--ro-bind-try", [path, path]);
    }
    args.add("--ro-bind", [own.as_os_str(), format!("{OURS}/confine").as_ref()]);
    if spec.api.is_some() {
        let socket = spec.private.join(SOCKET);
        args.add("--ro-bind", [socket.as_os_str(), format!("{OURS}/{SOCKET}").as_ref()]);
    }
    args.add("--bind", [spec.folder.as_os_str(), WORKSPACE.as_ref()]);
    args.add("--chdir", [WORKSPACE]);
    // Root owns files in `/proc` that belong to the whole machine.
    for folder in ["/dev", "/proc", "/"] {
        args.add("--remount-ro", [folder]);
    }
    args.add("--clearenv", [""; 0]);
    args.0
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<V: AsRef<OsStr>, const N: usize>(&mut self, option: &str, values: [V; N]) {
        self.0.push(option.into());
        self.0.extend(values.into_iter().map(|value| value.as_ref().to_owned()));
    }
}
