//! The part of the program that runs in the sandbox: it applies the limits to itself, connects the
//! tool API and becomes the command.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::mpsc::{self, SyncSender},
    thread,
};

use pegboard_process::processes;
use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit, setsid};

use super::{
    relay::CONNECTIONS,
    spec::{Filter, Inside, Rules},
};

/// The first word on standard output when the sandbox is set up; the version of Landlock follows,
/// and whether system calls are filtered.
pub(super) const READY: &str = "pegboard-ready ";

/// Maximum number of open files of one process.
const OPEN_FILES: u64 = 1024;

/// The niceness of commands, so that they yield to the watcher and to other programs.
const YIELDING: i32 = 10;

/// Stack size of a thread that copies.
const STACK: usize = 128 * 1024;

pub(super) fn run() -> ExitCode {
    let mut order = Vec::new();
    let order = io::stdin().read_to_end(&mut order).map_err(|error| error.to_string()).and_then(|_| {
        let order: Result<Inside, _> = serde_json::from_slice(&order);
        order.map_err(|error| error.to_string())
    });
    match order.and_then(|order| begin(&order)) {
        Ok(code) => code,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            ExitCode::from(126)
        }
    }
}

/// Runs the command; returns only if it ran as a child, or not at all.
fn begin(order: &Inside) -> Result<ExitCode, String> {
    limit(order)?;
    let listener = match &order.relay {
        Some(relay) => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, relay.port));
            Some((listener.map_err(|error| format!("cannot listen for the tool API: {error}"))?, relay.socket.clone()))
        }
        None => None,
    };
    let landlock = order.landlock.as_ref().map_or(Ok(0), restrict)?;
    let is_filtered = filter(order, landlock)?;
    let mut command = Command::new(&order.shell);
    command.arg("-c").arg(&order.command).current_dir(&order.folder).stdin(Stdio::null());
    command.env_clear().envs(order.environment.iter().map(|(name, value)| (name, value)));
    let mut stdout = io::stdout();
    let ready = writeln!(stdout, "{READY}{landlock} {is_filtered}").and_then(|()| stdout.flush());
    ready.map_err(|error| error.to_string())?;
    let cannot = |error: io::Error| format!("cannot start `{}`: {error}", order.shell.display());
    if listener.is_none() && !order.is_init {
        return Err(cannot(command.exec()));
    }
    let mut child = command.spawn().map_err(cannot)?;
    if let Some((listener, socket)) = listener {
        thread::spawn(move || relay(&listener, &socket));
    }
    Ok(ExitCode::from(processes::wait_for(&mut child)))
}

/// Applies resource limits to this process and its children.
fn limit(order: &Inside) -> Result<(), String> {
    // A new session: nothing here can join a process group of the parent.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        // The first process to be killed when the machine runs out of memory.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
    let _ = setpriority_process(None, YIELDING);
    let limits = [
        // Not the address space: some interpreters reserve far more than they use.
        (Resource::Data, order.memory_bytes),
        (Resource::Fsize, order.max_file_bytes),
        (Resource::Core, 0),
        // This limit does not apply to root.
        (Resource::Nproc, order.max_tasks),
        (Resource::Nofile, OPEN_FILES),
    ];
    for (resource, most) in limits {
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("cannot set a limit: {error}"))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn restrict(rules: &Rules) -> Result<u32, String> {
    match super::landlock::restrict(rules) {
        Ok(0) => Err("not supported or disabled in the kernel".to_owned()),
        Ok(abi) => Ok(abi),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(target_os = "linux"))]
fn restrict(_rules: &Rules) -> Result<u32, String> {
    Err("only available on Linux".to_owned())
}

/// Filters system calls, as the last step; returns whether that worked.
fn filter(order: &Inside, landlock: u32) -> Result<bool, String> {
    if order.filter == Filter::Never {
        return Ok(false);
    }
    match apply_filter(landlock) {
        Err(reason) if order.filter == Filter::Must => Err(format!("cannot filter system calls: {reason}")),
        applied => Ok(applied.is_ok()),
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn apply_filter(landlock: u32) -> Result<(), String> {
    use super::filter::FilterTarget;

    super::filter::apply(if landlock == 0 {
        FilterTarget::Namespaces
    } else {
        FilterTarget::Landlock { abi: landlock }
    })
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn apply_filter(_landlock: u32) -> Result<(), String> {
    Err("no system call filter for this processor architecture".to_owned())
}

/// Connects clients of `listener` with the socket outside.
fn relay(listener: &TcpListener, socket: &Path) {
    // One permit for each connection; it is returned when the connection ends.
    let (give, take) = mpsc::sync_channel(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let _ = give.send(());
    }
    for inside in listener.incoming() {
        let (Ok(inside), Ok(())) = (inside, take.recv()) else { continue };
        let (socket, permit) = (socket.to_owned(), Permit(give.clone()));
        // Without a thread the connection is closed, which the command sees.
        let _ = thread::Builder::new().stack_size(STACK).spawn(move || {
            let _permit = permit;
            let _ = connect(&inside, &socket);
        });
    }
}

struct Permit(SyncSender<()>);

impl Drop for Permit {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

fn connect(inside: &TcpStream, socket: &PathBuf) -> io::Result<()> {
    let outside = UnixStream::connect(socket)?;
    let (mut to, mut from) = (outside.try_clone()?, inside.try_clone()?);
    let forth = thread::Builder::new().stack_size(STACK).spawn(move || {
        let copied = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
        copied
    })?;
    let _ = io::copy(&mut &outside, &mut &*inside);
    let _ = inside.shutdown(Shutdown::Write);
    let _ = forth.join();
    Ok(())
}
