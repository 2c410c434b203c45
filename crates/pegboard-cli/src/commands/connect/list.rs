//! `pegboard connect --list`: the clients, and whether they use Pegboard.

use std::path::Path;

use serde_json::json;

use crate::{
    Outcome,
    cli::options::Format,
    clients::{
        Client,
        config_files::{ConfigLocation, SystemEnvironment},
        hooks, read,
        server::ServerTransport,
        show::{shorten_path, table},
    },
    error::{CliError, warn},
    output,
};

pub(crate) struct ClientRow {
    pub(crate) place: ConfigLocation,
    /// Whether the client seems to be installed.
    pub(crate) is_found: bool,
    /// The name of Pegboard's entry, and its transport.
    pub(crate) connected: Option<(String, &'static str)>,
    /// Number of other servers.
    pub(crate) servers: usize,
    pub(crate) problem: Option<String>,
}

/// Returns the clients of this user with the files that `connect` would change.
pub(crate) fn user_clients(surroundings: &SystemEnvironment<'_>) -> Vec<ClientRow> {
    let places = Client::ALL.iter().flat_map(|client| usual_places(*client, None, surroundings));
    places.map(|place| inspect_client(place, surroundings)).collect()
}

pub(super) fn run(
    surroundings: &SystemEnvironment<'_>,
    project: Option<&Path>,
    format: Format,
) -> Result<Outcome, CliError> {
    let project = project.map(std::path::absolute).transpose()?;
    let places = Client::ALL.iter().flat_map(|client| usual_places(*client, project.as_deref(), surroundings));
    let rows: Vec<ClientRow> = places.map(|place| inspect_client(place, surroundings)).collect();
    match format {
        Format::Json => output::json(&rows.iter().map(to_json).collect::<Vec<_>>())?,
        Format::Text => {
            let home = surroundings.home();
            let rows = rows.iter().map(|row| to_cells(row, home.as_deref())).collect();
            output::text(&table(&["CLIENT", "FOUND", "CONNECTED", "OTHERS", "FILE"], rows))?;
        }
    }
    for row in &rows {
        if let Some(problem) = &row.problem {
            warn(&format!("`{}`: {problem}", row.place.path.display()));
        }
    }
    Ok(Outcome::Yes)
}

/// Returns the files that `connect` would change.
fn usual_places(client: Client, project: Option<&Path>, surroundings: &SystemEnvironment<'_>) -> Vec<ConfigLocation> {
    let mut places = surroundings.places(client, project);
    let user = surroundings.user_file(client);
    places.retain(|place| place.project.is_some() || Some(&place.path) == user.as_ref());
    places
}

/// Returns whether the client seems to be installed: its file exists, or the folder for it.
pub(super) fn is_found(place: &ConfigLocation, surroundings: &SystemEnvironment<'_>) -> bool {
    // Claude Code has its file in the home folder, which proves nothing, and the rest in a folder.
    let settings = (place.client == Client::ClaudeCode).then(|| hooks::file(surroundings, None)).flatten();
    let folders = [Some(place.path.as_path()), settings.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let is_sign = |folder: &Path| Some(folder) != surroundings.home().as_deref() && folder.is_dir();
    place.path.exists() || place.project.is_none() && folders.into_iter().any(is_sign)
}

fn inspect_client(place: ConfigLocation, surroundings: &SystemEnvironment<'_>) -> ClientRow {
    let is_found = is_found(&place, surroundings);
    let mut row = ClientRow { is_found, connected: None, servers: 0, problem: None, place };
    match read::read(&row.place) {
        Err(error) => row.problem = Some(error.to_string()),
        Ok(content) => {
            let content = content.unwrap_or_default();
            row.problem = content.warnings.first().cloned();
            for entry in content.entries {
                match entry.server {
                    Ok(server) if server.is_pegboard(&entry.name) && row.connected.is_none() => {
                        let way =
                            if matches!(server.reach, ServerTransport::Program { .. }) { "stdio" } else { "http" };
                        row.connected = Some((entry.name, way));
                    }
                    _ => row.servers += 1,
                }
            }
        }
    }
    row
}

fn to_json(row: &ClientRow) -> serde_json::Value {
    json!({
        "client": row.place.client.id(),
        "path": row.place.path.to_string_lossy(),
        "project": row.place.project.as_ref().map(|folder| folder.to_string_lossy()),
        "found": row.is_found,
        "connected": row.connected.as_ref().map(|(name, way)| json!({"name": name, "transport": way})),
        "servers": row.servers,
        "problem": row.problem,
    })
}

fn to_cells(row: &ClientRow, home: Option<&Path>) -> Vec<String> {
    let connected = match (&row.connected, &row.problem) {
        (Some((_, way)), _) => format!("yes, {way}"),
        (None, Some(_)) => "?".to_owned(),
        (None, None) => "no".to_owned(),
    };
    vec![
        row.place.client.id().to_owned(),
        if row.is_found { "yes" } else { "no" }.to_owned(),
        connected,
        row.servers.to_string(),
        shorten_path(&row.place.path, home),
    ]
}
