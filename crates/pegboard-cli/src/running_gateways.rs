//! The registries of running gateways and of LLM API proxies: a folder with a small file for each.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use pegboard_process::processes;
use pegboard_state::platform;
use serde::{Deserialize, Serialize};

/// Maximum number of entries; there is one for each gateway, including those that crashed.
const MAX_FILES: usize = 1000;

/// Maximum size of an entry.
const MAX_BYTES: u64 = 64 << 10;

/// The extension of entries.
const ENTRY: &str = "json";

/// The extension of sockets.
const SOCKET: &str = "sock";

/// A running gateway, or an LLM API proxy.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunningGateway {
    pub(crate) pid: u32,
    /// The URL for clients.
    pub(crate) endpoint: Option<String>,
    /// The control socket, if the control API is not at the URL.
    pub(crate) socket: Option<PathBuf>,
    /// Its configuration file.
    pub(crate) configuration: Option<PathBuf>,
    /// The credential for the control API while no tokens are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

impl fmt::Debug for RunningGateway {
    /// Leaves the secret out, because this may end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, endpoint, socket, configuration, secret } = self;
        f.debug_struct("RunningGateway")
            .field("pid", pid)
            .field("endpoint", endpoint)
            .field("socket", socket)
            .field("configuration", configuration)
            .field("has_secret", &secret.is_some())
            .finish()
    }
}

/// Returns the registry folder of gateways below the state folder.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("running")
}

/// Returns the registry folder of LLM API proxies below the state folder.
pub(crate) fn proxy_folder(state: &Path) -> PathBuf {
    state.join("running-proxies")
}

/// A registry entry that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Registers a gateway.
pub(crate) fn register(folder: &Path, running: &RunningGateway) -> io::Result<Registration> {
    platform::make_folder_private(folder)?;
    let path = folder.join(format!("{}.{ENTRY}", running.pid));
    let unfinished = folder.join(format!(".writing-{}", running.pid));
    // Another process of this number may have died here.
    let _ = fs::remove_file(&unfinished);
    let mut options = fs::OpenOptions::new();
    platform::restrict_to_owner(options.write(true).create_new(true))
        .open(&unfinished)?
        .write_all(&serde_json::to_vec(running)?)?;
    fs::rename(&unfinished, &path)?;
    Ok(Registration(path))
}

/// Returns the running gateways, by process number. Entries of ended processes are removed.
pub(crate) fn list(folder: &Path) -> Vec<RunningGateway> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    let mut running: Vec<RunningGateway> = entries.filter_map(|entry| read_entry(&entry.path())).collect();
    running.sort_by_key(|running| running.pid);
    running
}

/// Reads an entry, if its process still runs.
fn read_entry(path: &Path) -> Option<RunningGateway> {
    let pid: u32 = path.file_stem()?.to_str()?.parse().ok()?;
    let ending = path.extension()?;
    if ending != ENTRY && ending != SOCKET {
        return None;
    }
    if !processes::is_running(pid) {
        let _ = fs::remove_file(path);
        return None;
    }
    if ending != ENTRY || !fs::symlink_metadata(path).is_ok_and(|data| platform::is_own(&data)) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|running: &RunningGateway| running.pid == pid)
}

/// Returns the path for the control socket of this process: where sockets usually are, or in
/// `folder`.
pub(crate) fn socket(folder: &Path) -> io::Result<PathBuf> {
    let usual = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = usual.filter(|usual| usual.is_absolute() && usual.is_dir()).map(|usual| usual.join("pegboard"));
    let folder = match usual {
        Some(usual) if platform::make_folder_private(&usual).is_ok() => usual,
        _ => {
            platform::make_folder_private(folder)?;
            folder.to_owned()
        }
    };
    // Those that crashed have left theirs.
    fs::read_dir(&folder)?.flatten().take(MAX_FILES).for_each(|entry| _ = read_entry(&entry.path()));
    Ok(folder.join(format!("{}.{SOCKET}", std::process::id())))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn those_that_are_gone_are_forgotten() {
        let state = std::env::temp_dir().join(format!("pegboard-running-{}", std::process::id()));
        let folder = folder(&state);
        let mut own = RunningGateway {
            pid: std::process::id(),
            endpoint: Some("http://127.0.0.1:1/mcp".into()),
            socket: None,
            configuration: Some("/etc/mcp.json".into()),
            secret: Some("secret".into()),
        };
        let registration = register(&folder, &own).expect("a folder");
        assert_eq!(fs::metadata(&folder).expect("a folder").mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(folder.join(format!("{}.json", own.pid))).expect("a file").mode() & 0o777, 0o600);
        // No system gives out such a number.
        let (gone, socket) = (folder.join("2147483646.json"), folder.join("2147483646.sock"));
        let mut of_another = own.clone();
        of_another.pid = 2_147_483_646;
        fs::write(&gone, serde_json::to_vec(&of_another).expect("JSON")).expect("a file");
        fs::write(&socket, "").expect("a file");
        fs::write(folder.join("1.json"), "{").expect("a file");
        fs::write(folder.join("unrelated"), "").expect("a file");
        assert_eq!(list(&folder), [own.clone()]);
        assert!(!gone.exists() && !socket.exists() && folder.join("unrelated").exists());
        own.endpoint = None;
        let again = register(&folder, &own).expect("a folder");
        assert_eq!(list(&folder), [own]);
        drop(registration);
        assert_eq!(list(&folder), []);
        drop(again);
        let _ = fs::remove_dir_all(state);
    }
}
