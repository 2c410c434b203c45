//! Checks of the listen address and the state folder.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
};

use pegboard_http::ListenError;
use pegboard_state::platform;
use pegboard_upstream::{Pins, WaitingPin, config::ServerConfig};

use super::finding::{Check, Finding, count, join_names};
use crate::{
    clients::show::quote_path,
    commands::serve::{DEFAULT_ADDRESS, resolve},
    config::{
        Config,
        state::{self, FOLDER_HINT},
    },
    running_gateways,
};

/// Checks whether the gateway could listen. `own` are the processes that already serve this
/// configuration.
pub(super) fn check_listen_address(config: &Config, flag: Option<&str>, own: &[u32]) -> Vec<Finding> {
    let named = flag.or(config.listen.address.as_deref());
    let text = named.unwrap_or(DEFAULT_ADDRESS);
    let Ok(address) = resolve(text) else {
        let message = format!("`{text}` is not an address to listen on");
        let hint = "write a host name or address of this machine and a port, such as `127.0.0.1:8080`";
        return vec![Finding::error(Check::ListenAddress, message, hint)];
    };
    let mut findings = Vec::new();
    if !address.ip().to_canonical().is_loopback() && config.gateway.tokens.is_empty() {
        findings.push(public(address, config.listen.allow_public));
    }
    if let Err(error) = TcpListener::bind(address) {
        findings.extend(explain_listen_error(address, &error, named.is_some(), own));
    }
    findings
}

fn public(address: SocketAddr, is_allowed: bool) -> Finding {
    let refusal = ListenError::Public { address };
    let hint = "require tokens (`pegboard.tokens`), or listen on `127.0.0.1`";
    match is_allowed {
        true => Finding::warning(Check::PublicAddress, refusal.to_string(), hint),
        false => Finding::error(Check::PublicAddress, refusal.to_string(), hint),
    }
}

/// Explains an address that cannot be used. Clients that start Pegboard themselves do without it,
/// so it is an error only if the address was set explicitly.
fn explain_listen_error(address: SocketAddr, error: &io::Error, is_named: bool, own: &[u32]) -> Option<Finding> {
    if error.kind() != io::ErrorKind::AddrInUse {
        let message = format!("cannot listen on `{address}`: {error}");
        let hint = "choose another address with `pegboard.listen` or `--listen`; ports below 1024 need privileges";
        return Some(Finding::error(Check::ListenAddress, message, hint));
    }
    let holder = holder(address.port());
    if holder.as_ref().is_some_and(|(_, pid)| own.contains(pid)) {
        return None;
    }
    if let Some((name, pid)) = holder.as_ref().filter(|(name, _)| name == "pegboard") {
        let message = format!("`{address}` is in use by `{name}` (process {pid}), probably your running gateway");
        let hint = "stop it before you start another gateway, or choose another port";
        return Some(Finding::note(Check::PortTaken, message, hint));
    }
    let by = holder.map(|(name, pid)| format!(" by `{name}` (process {pid})")).unwrap_or_default();
    let message = format!("`{address}` is already in use{by}");
    let hint = "choose another port with `pegboard.listen` or `--listen`, or stop the other program";
    Some(match is_named {
        true => Finding::error(Check::PortTaken, message, hint),
        false => Finding::warning(Check::PortTaken, message, hint),
    })
}

/// Returns the processes that serve this file.
pub(super) fn serving_processes(config: &Config, state: Option<&str>, file: &Path) -> Vec<u32> {
    let Some(state) = config.state.resolve(state) else { return Vec::new() };
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let running = running_gateways::list(&running_gateways::folder(&state)).into_iter();
    running.filter(|running| running.configuration.as_ref() == Some(&file)).map(|running| running.pid).collect()
}

/// Returns the process that listens on a port. Only Linux reports it.
fn holder(port: u16) -> Option<(String, u32)> {
    use std::fs;
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|file| fs::read_to_string(file).ok());
    let inode = sockets.collect::<String>().lines().find_map(|line| listening_inode(line, port))?;
    let link = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let mut open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if open.any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == link.as_str())) {
            let name = fs::read_to_string(process.path().join("comm")).ok()?;
            return Some((name.trim().to_owned(), pid));
        }
    }
    None
}

/// Returns the socket in a line of the system's table, if it listens on this port.
fn listening_inode(line: &str, port: u16) -> Option<u64> {
    /// The state of a listening socket in the table.
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, its) = fields.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(its, 16).ok()? == port && fields.get(3) == Some(&LISTENS);
    fields.get(9).filter(|_| is_it)?.parse().ok()
}

/// Checks the state folder.
pub(super) fn check_state_folder(config: &Config, flag: Option<&str>) -> Option<Finding> {
    let folder = config.state.resolve(flag);
    let Some(setting) = &config.holding else { return unusable(&folder?) };
    let message = match &folder {
        None => format!("`{setting}` needs a state folder for approvals, but there is none"),
        Some(folder) => format!("{}, and `{setting}` needs it for approvals", unusable(folder)?.message),
    };
    Some(Finding::error(Check::StateFolder, message, FOLDER_HINT))
}

/// Returns the problem of a folder that cannot be used.
fn unusable(folder: &Path) -> Option<Finding> {
    let shown = folder.display();
    let found = folder.ancestors().find(|folder| folder.exists());
    let hint = "correct its owner and permissions, or choose another folder with `pegboard.stateFolder` or `--state`";
    let warn = |reason: &str| {
        let message = format!("the state folder `{shown}` {reason}; nothing is cached, so every start is a cold start");
        Some(Finding::warning(Check::StateFolder, message, hint))
    };
    match found {
        None => warn("cannot be created"),
        Some(found) if !found.is_dir() => warn("is not a folder, or its parent is a file"),
        Some(found) if !platform::can_write_to(found) => warn("is not writable"),
        Some(found) if found == folder => check_permissions(folder),
        Some(_) => None,
    }
}

/// Returns the servers whose tools are held until they are approved.
pub(super) fn find_held_tools(config: &Config, flag: Option<&str>) -> Vec<Finding> {
    let Some(folder) = config.state.resolve(flag) else { return Vec::new() };
    let waiting = match Pins::at(state::pins(&folder)).waiting() {
        Ok(waiting) => waiting,
        Err(error) => {
            let message = pegboard_upstream::with_causes(&error);
            let hint = "correct its owner and permissions, or restore it";
            return vec![Finding::warning(Check::StateFolder, message, hint)];
        }
    };
    let finding = |server: &ServerConfig| {
        let is_held = |pin: &&WaitingPin| pin.report.is_held && pin.report.server == server.name;
        let held: Vec<&str> = waiting.iter().filter(is_held).map(|pin| pin.report.tool.as_str()).collect();
        let message =
            format!("{} held until approved: {}", count(held.len(), "tool"), join_names(held.iter().copied()));
        let hint = format!("review them with `pegboard approve {}`", server.name);
        (!held.is_empty()).then(|| Finding::warning(Check::HeldTools, message, hint).of(&server.name))
    };
    config.servers.iter().filter(|server| server.is_enabled && server.holds_unseen()).filter_map(finding).collect()
}

/// Checks that only the owner can write to the folder: another writer could approve tools.
fn check_permissions(folder: &Path) -> Option<Finding> {
    let data = std::fs::metadata(folder).ok()?;
    let shown = folder.display();
    let (reason, hint) = if !platform::is_own(&data) {
        ("belongs to another user", "choose your own folder with `pegboard.stateFolder` or `--state`".to_owned())
    } else if platform::is_writable_by_others(&data) {
        ("is writable by other users", format!("`chmod go-w {}`", quote_path(folder)))
    } else {
        return None;
    };
    let message = format!("the state folder `{shown}` {reason} and is not used");
    Some(Finding::warning(Check::StateFolder, message, hint))
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn who_listens() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("an address").port();
        assert_eq!(super::holder(port).map(|(_, pid)| pid), Some(std::process::id()));
        drop(socket);
    }
}
