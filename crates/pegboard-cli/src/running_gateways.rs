//! Which gateways run here, for whoever looks for one: a folder with a small file for each.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use pegboard_process::processes;
use pegboard_state::platform;
use serde::{Deserialize, Serialize};

/// Files that are looked at; there are as many as gateways, and those that crashed.
const MAX_FILES: usize = 1000;

/// What such a file may have.
const MAX_BYTES: u64 = 64 << 10;

/// The ending of their names.
const ENTRY: &str = "json";

/// The ending of the names of sockets.
const SOCKET: &str = "sock";

/// A gateway that runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Running {
    pub(crate) pid: u32,
    /// Where clients connect.
    pub(crate) endpoint: Option<String>,
    /// Where it can be asked how it is, if that is not the same.
    pub(crate) socket: Option<PathBuf>,
    /// Its configuration file.
    pub(crate) configuration: Option<PathBuf>,
}

/// Below the state folder: the gateways that run.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("running")
}

/// An entry that goes away with whoever holds it.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Lets a gateway be found.
pub(crate) fn register(folder: &Path, running: &Running) -> io::Result<Registration> {
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

/// The gateways that run, by their process numbers. What others have left behind is removed.
pub(crate) fn list(folder: &Path) -> Vec<Running> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    let mut running: Vec<Running> = entries.filter_map(|entry| look(&entry.path())).collect();
    running.sort_by_key(|running| running.pid);
    running
}

/// What a file says, if whoever wrote it still runs.
fn look(path: &Path) -> Option<Running> {
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
    serde_json::from_slice(&bytes).ok().filter(|running: &Running| running.pid == pid)
}

/// Where the control socket of this process can be: where sockets usually are, or in `folder`.
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
    fs::read_dir(&folder)?.flatten().take(MAX_FILES).for_each(|entry| _ = look(&entry.path()));
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
        let mut own = Running {
            pid: std::process::id(),
            endpoint: Some("http://127.0.0.1:1/mcp".into()),
            socket: None,
            configuration: Some("/etc/mcp.json".into()),
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
