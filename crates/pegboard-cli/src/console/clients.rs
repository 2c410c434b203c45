//! The files of MCP clients, as the console shows and changes them.

use pegboard_gateway::control::host::{
    ClientAction, ClientChange, ClientFiles, ClientPreview, HostError, HostErrorKind, McpClient, McpConnection,
};
use pegboard_state::digest;
use pegboard_upstream::SecretFilter;

use super::host_error;
use crate::{
    clients::{
        Client,
        config_files::{ConfigLocation, Os, SystemEnvironment},
        pegboard_entry::accepts_urls,
        read, secrets, write,
    },
    commands::connect,
    error::CliError,
    source::Source,
};

/// Stands for a secret.
const SECRET: &str = "••••••";

/// The files of MCP clients of this user.
#[derive(Debug)]
pub(super) struct ClientConfigFiles {
    pub(super) source: Source,
    /// The URL of the gateway.
    pub(super) endpoint: Option<String>,
}

impl ClientFiles for ClientConfigFiles {
    fn list(&self) -> Vec<McpClient> {
        let env = |name: &str| std::env::var(name).ok();
        let surroundings = SystemEnvironment { os: Os::current(), env: &env };
        connect::user_clients(&surroundings)
            .into_iter()
            .map(|row| McpClient {
                id: row.place.client.id().to_owned(),
                title: row.place.client.title().to_owned(),
                path: row.place.path.display().to_string(),
                found: row.is_found,
                connected: row.connected.map(|(name, transport)| McpConnection { name, transport }),
                servers: row.servers,
                problem: row.problem,
                can_undo: !write::backups(&row.place.path).is_empty(),
                transports: self.transports(row.place.client),
            })
            .collect()
    }

    fn change(&self, change: &ClientChange) -> Result<ClientPreview, HostError> {
        let Some(client) = Client::ALL.into_iter().find(|client| client.id() == change.client) else {
            return Err(HostError::new(HostErrorKind::NotFound, "no such client", None));
        };
        let env = |name: &str| std::env::var(name).ok();
        let surroundings = SystemEnvironment { os: Os::current(), env: &env };
        let place = connect::place(client, None, &surroundings).map_err(|error| rejected(&error))?;
        match change.action {
            ClientAction::Undo => undo(&place, change),
            ClientAction::Preview | ClientAction::Write => self.connect(place, change),
        }
    }
}

impl ClientConfigFiles {
    fn transports(&self, client: Client) -> Vec<&'static str> {
        let http = (accepts_urls(client) && self.endpoint.is_some()).then_some("http");
        self.source.path().map(|_| "stdio").into_iter().chain(http).collect()
    }

    /// Plans a connection, and makes it if the user has seen it.
    fn connect(&self, place: ConfigLocation, change: &ClientChange) -> Result<ClientPreview, HostError> {
        let transports = self.transports(place.client);
        let wanted = change.transport.as_deref().or_else(|| transports.last().copied()).unwrap_or("http");
        if !transports.contains(&wanted) {
            let message = format!("{} cannot be connected by `{wanted}` here", place.client.title());
            return Err(HostError::new(HostErrorKind::Conflict, message, None));
        }
        let url = self.endpoint.as_deref().filter(|_| wanted == "http");
        let access = connect::access(url, place.client, Some(&self.source)).map_err(|error| rejected(&error))?;
        let replacing = self.source.path().filter(|_| change.replace);
        let title = place.client.title();
        let plan = connect::PlannedEdit::plan(place, &access, replacing).map_err(|error| rejected(&error))?;
        let version = version(plan.old.as_deref());
        let is_changed = plan.old.as_deref() != Some(plan.new.as_str());
        let mut notes = Vec::new();
        let mut backup = None;
        let is_written = change.action == ClientAction::Write && is_changed;
        if change.action == ClientAction::Write {
            check_version(change, &version)?;
        }
        if is_written {
            let written = write::replace(&plan.place.path, plan.old.as_deref(), &plan.new);
            backup = written.map_err(|error| rejected(&error.into()))?.map(|path| path.display().to_string());
            notes.push(format!("Restart {title} to use Pegboard."));
        } else if !is_changed {
            notes.push(format!("{title} already uses Pegboard: nothing to change."));
        }
        if !plan.replaced.names.is_empty() {
            notes.push(format!("Servers that are removed from the file: {}.", plan.replaced.names.join(", ")));
        }
        Ok(ClientPreview {
            client: change.client.clone(),
            path: plan.place.path.display().to_string(),
            old: plan.old.as_deref().map(|old| masked(old, &plan.place)),
            new: masked(&plan.new, &plan.place),
            entry: plan.entry,
            version,
            is_written,
            backup,
            notes,
        })
    }
}

/// Restores the newest backup of a client's file.
fn undo(place: &ConfigLocation, change: &ClientChange) -> Result<ClientPreview, HostError> {
    let conflict = |message: &str| HostError::new(HostErrorKind::Conflict, message, None);
    let old = read::text(&place.path).map_err(|error| rejected(&CliError::new(error.to_string())))?;
    let version = version(old.as_deref());
    check_version(change, &version)?;
    let backups = write::backups(&place.path);
    let newest = backups.first().ok_or_else(|| conflict("there is no backup of this file"))?;
    let text = read::text(newest).map_err(|error| rejected(&CliError::new(error.to_string())))?;
    let text = text.ok_or_else(|| conflict("the backup of this file is gone"))?;
    let backup = write::replace(&place.path, old.as_deref(), &text).map_err(|error| rejected(&error.into()))?;
    Ok(ClientPreview {
        client: change.client.clone(),
        path: place.path.display().to_string(),
        old: old.as_deref().map(|old| masked(old, place)),
        new: masked(&text, place),
        entry: serde_json::Value::Null,
        version,
        is_written: true,
        backup: backup.map(|path| path.display().to_string()),
        notes: vec![format!("Restored from `{}`. Restart {}.", newest.display(), place.client.title())],
    })
}

fn rejected(error: &CliError) -> HostError {
    host_error(HostErrorKind::Rejected, error)
}

/// Returns a name of the state of a file.
fn version(text: Option<&str>) -> String {
    let text = text.map_or_else(|| "none".to_owned(), |text| format!("text {text}"));
    digest(text.as_bytes()).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that the file is as the user has seen it.
fn check_version(change: &ClientChange, version: &str) -> Result<(), HostError> {
    match change.expects.as_deref() {
        Some(expected) if expected != version => {
            let hint = Some("look at the change again".to_owned());
            Err(HostError::new(HostErrorKind::Conflict, "the file has changed since it was shown", hint))
        }
        _ => Ok(()),
    }
}

/// Returns the text of a client's file without the secrets of its servers.
fn masked(text: &str, place: &ConfigLocation) -> String {
    let content = read::content(text, place).unwrap_or_default();
    let servers = content.entries.iter().filter_map(|entry| entry.server.as_ref().ok());
    let filter = SecretFilter::new(servers.flat_map(secrets::texts).collect());
    filter.replace(text, SECRET).into_owned()
}
