//! Merges the servers of all clients into one list.

use std::path::PathBuf;

use super::survey::{ClientFile, Survey};
use crate::clients::{
    Client,
    read::ServerEntry,
    server::{Server, ServerTransport},
};

/// The result for one entry of one file.
pub(super) struct ImportRow {
    /// The index of the file in the survey.
    pub(super) file: usize,
    /// The client's name of the server.
    pub(super) name: String,
    /// The only project folder in which the entry applies.
    pub(super) project: Option<PathBuf>,
    /// The name in the new configuration; `None` if it is left out.
    pub(super) written_as: Option<String>,
    /// Whether another entry is the same server.
    pub(super) is_duplicate: bool,
    pub(super) notes: Vec<String>,
}

impl ImportRow {
    /// Returns whether this entry added the server of that name.
    pub(super) fn is_written_as(&self, name: &str) -> bool {
        self.written_as.as_deref() == Some(name) && !self.is_duplicate
    }
}

/// The configuration that servers are added to.
#[derive(Default)]
pub(super) struct Existing {
    pub(super) servers: Vec<(String, Server)>,
    /// The names of all entries, including invalid ones.
    pub(super) names: Vec<String>,
}

impl Existing {
    /// Returns the name of the entry that is this server; its values may have become variables.
    fn find(&self, server: &Server) -> Option<&str> {
        let same = self.servers.iter().find(|(_, other)| other.is_same(server));
        same.or_else(|| self.servers.iter().find(|(_, other)| other.covers(server))).map(|(name, _)| name.as_str())
    }
}

/// The servers to write, and the result for each entry.
pub(super) struct Plan {
    pub(super) servers: Vec<(String, Server)>,
    pub(super) rows: Vec<ImportRow>,
    /// The client of each server.
    owners: Vec<Client>,
    existing: Existing,
}

impl Plan {
    /// Returns the servers of the clients that `existing` does not have yet.
    pub(super) fn of(survey: &Survey, existing: Existing) -> Self {
        let mut plan = Self { servers: Vec::new(), rows: Vec::new(), owners: Vec::new(), existing };
        for (at, file) in survey.files.iter().enumerate() {
            let entries = file.content.as_ref().map(|content| content.entries.as_slice()).unwrap_or_default();
            entries.iter().for_each(|entry| plan.add(at, file, entry));
        }
        plan
    }

    fn add(&mut self, file_at: usize, file: &ClientFile, entry: &ServerEntry) {
        let project = entry.project.clone().filter(|_| file.place.project.is_none());
        let mut row = ImportRow {
            file: file_at,
            name: entry.name.clone(),
            project,
            written_as: None,
            is_duplicate: false,
            notes: Vec::new(),
        };
        match &entry.server {
            Err(reason) => row.notes.push(format!("skipped: {reason}")),
            Ok(server) if server.is_pegboard(&entry.name) => row.notes.push("skipped: is Pegboard itself".to_owned()),
            Ok(_) if !file.is_trusted => row.notes.push("left out: from a file of this project".to_owned()),
            Ok(server) => self.place(server, file.place.client, &mut row),
        }
        self.rows.push(row);
    }

    fn place(&mut self, server: &Server, client: Client, row: &mut ImportRow) {
        if server.is_disabled {
            row.notes.push("disabled".to_owned());
        }
        if let Some(name) = self.existing.find(server) {
            row.notes.push(format!("already in the configuration as `{name}`"));
            row.written_as = Some(name.to_owned());
            row.is_duplicate = true;
            return;
        }
        if let Some(at) = self.servers.iter().position(|(_, other)| other.is_same(server)) {
            let (name, other) = &mut self.servers[at];
            row.notes.push(format!("the same as `{name}` of {}", self.owners[at].title()));
            if !is_contained(&server.allowed_tools, &server.denied_tools, other) {
                row.notes.push("its tool selection is not imported".to_owned());
            }
            join(other, server);
            row.written_as = Some(name.clone());
            row.is_duplicate = true;
            return;
        }
        row.notes.extend(server.notes.iter().cloned());
        let name = self.free_name(&row.name, client);
        if name != row.name {
            row.notes.push(format!("renamed to `{name}`, because the name is taken"));
        }
        row.written_as = Some(name.clone());
        self.servers.push((name, server.clone()));
        self.owners.push(client);
    }

    /// Returns a name that no server has yet: its own, or with the client as a suffix.
    fn free_name(&self, name: &str, client: Client) -> String {
        let taken = self.servers.iter().map(|(taken, _)| taken).chain(&self.existing.names);
        let is_free = |name: &String| !taken.clone().any(|taken| taken == name);
        let with_client = format!("{name}-{}", client.id());
        let numbered =
            (2..=self.servers.len() + self.existing.names.len() + 2).map(|number| format!("{with_client}-{number}"));
        let mut candidates = [name.to_owned(), with_client.clone()].into_iter().chain(numbered);
        candidates.find(is_free).unwrap_or(with_client.clone())
    }
}

fn is_contained(allowed: &[String], denied: &[String], server: &Server) -> bool {
    allowed == server.allowed_tools.as_slice() && denied == server.denied_tools.as_slice()
        || allowed.is_empty() && denied.is_empty()
}

/// Merges a second entry of the same server: it is enabled if one of them is, and has headers if
/// one of them has.
fn join(server: &mut Server, other: &Server) {
    server.is_disabled &= other.is_disabled;
    if let (ServerTransport::Remote { headers, .. }, ServerTransport::Remote { headers: others, .. }) =
        (&mut server.reach, &other.reach)
        && headers.is_empty()
    {
        headers.clone_from(others);
    }
}
