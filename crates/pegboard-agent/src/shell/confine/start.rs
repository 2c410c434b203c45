//! The command line that starts the part inside, and its order.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use super::{
    bubblewrap,
    private_folder::SOCKET,
    process_watch,
    spec::{CommandSpec, Inside, Kind, Layout, Relay, Rules},
    system,
};
use crate::shell::WORKSPACE;

/// The folder for temporary files in the private folder, if the sandbox has none of its own.
const TEMPORARY: &str = "tmp";

/// The command line and the order of the part inside.
pub(super) struct InsideCommand {
    pub(super) words: Vec<OsString>,
    pub(super) order: Inside,
    /// The folders that the command can write to on disk.
    pub(super) folders: Vec<PathBuf>,
}

impl InsideCommand {
    pub(super) fn new(spec: &CommandSpec) -> Result<Self, String> {
        let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let mut start = match &spec.sandbox {
            Kind::Bubblewrap { program } => Self::bubblewrap(spec, program, &own),
            Kind::Namespaces => Self::namespaces(spec, &own)?,
            Kind::Landlock => Self::landlock(spec, &own)?,
            Kind::None => Self::bare(spec, &own)?,
        };
        start.words = without_descriptors(start.words, &inherited_descriptors())?;
        Ok(start)
    }

    fn bubblewrap(spec: &CommandSpec, program: &Path, own: &Path) -> Self {
        let mut words = vec![program.as_os_str().to_owned()];
        words.extend(bubblewrap::arguments(spec, own));
        words.push("--".into());
        words.extend(inside_words(Path::new(bubblewrap::OURS).join("confine")));
        Self::apart(spec, words)
    }

    fn namespaces(spec: &CommandSpec, own: &Path) -> Result<Self, String> {
        let layout = Layout {
            base: spec.private.clone(),
            program: own.to_owned(),
            folder: spec.folder.clone(),
            readable: spec.readable.clone(),
            socket: spec.api.as_ref().map(|_| spec.private.join(SOCKET)),
            temporary_bytes: spec.limits.temporary_bytes,
        };
        let layout = serde_json::to_string(&layout).map_err(|error| error.to_string())?;
        let words = vec![own.as_os_str().to_owned(), "confine".into(), "--namespaces".into(), layout.into()];
        Ok(Self::apart(spec, words))
    }

    /// Starts in a sandbox with its own file system, which these words create.
    fn apart(spec: &CommandSpec, words: Vec<OsString>) -> Self {
        let port = spec.api.as_ref().map(|api| api.address.port());
        let socket = Path::new(bubblewrap::OURS).join(SOCKET);
        let url = port.map(|port| format!("http://127.0.0.1:{port}"));
        let mut order = order(spec, Path::new(WORKSPACE), Path::new("/tmp"), url);
        order.relay = port.map(|port| Relay { port, socket });
        order.is_init = true;
        Self { words, order, folders: vec![spec.folder.clone()] }
    }

    fn bare(spec: &CommandSpec, own: &Path) -> Result<Self, String> {
        let temporary = spec.private.join(TEMPORARY);
        let made = fs::DirBuilder::new().mode(0o700).create(&temporary);
        made.map_err(|error| format!("cannot create `{}`: {error}", temporary.display()))?;
        let url = spec.api.as_ref().map(|api| format!("http://{}", api.address));
        let order = order(spec, &spec.folder, &temporary, url);
        Ok(Self { words: inside_words(own), order, folders: vec![spec.folder.clone(), temporary] })
    }

    fn landlock(spec: &CommandSpec, own: &Path) -> Result<Self, String> {
        let mut start = Self::bare(spec, own)?;
        let system = system::PROGRAMS.iter().chain(&system::CONFIGURATION).map(PathBuf::from);
        start.order.landlock = Some(Rules {
            readable: system.chain(spec.readable.iter().cloned()).collect(),
            writable: start.folders.clone(),
            port: spec.api.as_ref().map(|api| api.address.port()),
        });
        if has_capabilities() {
            // Landlock restricts files; loading kernel modules needs none.
            let setpriv = system::find("setpriv").ok_or("`setpriv` is needed to drop root privileges")?;
            let options = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"];
            let mut words = vec![setpriv.into_os_string()];
            words.extend(options.map(OsString::from));
            words.append(&mut start.words);
            start.words = words;
        }
        Ok(start)
    }
}

fn inside_words(program: impl Into<PathBuf>) -> Vec<OsString> {
    vec![program.into().into_os_string(), "confine".into(), "--inside".into()]
}

fn order(spec: &CommandSpec, folder: &Path, temporary: &Path, url: Option<String>) -> Inside {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let own = [("PATH", system::PATH.to_owned()), ("LANG", "C.UTF-8".to_owned()), ("TERM", "dumb".to_owned())];
    let mut environment: BTreeMap<String, String> = own.map(|(name, value)| (name.to_owned(), value)).into();
    environment.extend(spec.environment.iter().cloned());
    // These take precedence over configured variables.
    let mut fixed = vec![("HOME", text(folder)), ("TMPDIR", text(temporary))];
    // Files that one command leaves in its home folder must not be run by the next.
    fixed.push(("PYTHONNOUSERSITE", "1".to_owned()));
    if let (Some(url), Some(api)) = (url, &spec.api) {
        fixed.extend([("MCP_API_URL", url), ("MCP_API_TOKEN", api.token.clone())]);
    }
    environment.extend(fixed.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Inside {
        shell: system::shell(),
        command: spec.command.clone(),
        folder: folder.to_owned(),
        environment: environment.into_iter().collect(),
        memory_bytes: spec.limits.memory_bytes,
        max_file_bytes: spec.limits.max_file_bytes,
        max_tasks: tasks_of_this_user().saturating_add(process_watch::max_tasks(&spec.limits) as u64),
        relay: None,
        landlock: None,
        filter: spec.filter,
        is_init: false,
    }
}

/// Returns how many processes and threads this user has.
fn tasks_of_this_user() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = processes.filter(|process| process.metadata().is_ok_and(|data| data.uid() == user));
    let tasks = ours.filter_map(|process| fs::read_dir(process.path().join("task")).ok());
    tasks.map(|tasks| tasks.count() as u64).sum()
}

/// Returns whether this process has capabilities.
fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut powers = status.lines().filter_map(|line| line.strip_prefix("CapPrm:"));
    powers.any(|powers| powers.trim().chars().any(|digit| digit != '0'))
}

/// Returns descriptors that were inherited from the parent, and that a command would inherit too.
fn inherited_descriptors() -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut inherited: Vec<u32> = numbers.filter(|number| *number > 2 && !closes_itself(*number)).collect();
    inherited.sort_unstable();
    inherited
}

fn closes_itself(descriptor: u32) -> bool {
    /// `O_CLOEXEC`, which is the same on all systems that have this folder.
    const CLOSE: u32 = 0o2_000_000;
    let flags = |info: &str| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(flags.trim(), 8).ok()
    };
    match fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")) {
        Ok(info) => flags(&info).is_some_and(|flags| flags & CLOSE != 0),
        // It was the descriptor of the folder itself.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the command line without these descriptors.
fn without_descriptors(words: Vec<OsString>, descriptors: &[u32]) -> Result<Vec<OsString>, String> {
    if descriptors.is_empty() {
        return Ok(words);
    }
    let bash = system::find("bash").ok_or("`bash` is needed to close inherited file descriptors")?;
    let closed: String = descriptors.iter().map(|number| format!(" {number}>&-")).collect();
    let script = format!("exec{closed}; exec \"$@\"");
    let mut closing = vec![bash.clone().into_os_string(), "-c".into(), script.into(), bash.into_os_string()];
    closing.extend(words);
    Ok(closing)
}
