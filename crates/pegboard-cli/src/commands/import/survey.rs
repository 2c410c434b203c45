//! The client files on this machine, and their servers.

use std::path::Path;

use crate::clients::{
    Client,
    config_files::{ConfigLocation, SystemEnvironment},
    read::{self, ClientServers, ReadError, ServerEntry},
    secrets,
    server::{Server, ServerTransport},
};

/// An existing file of a client.
pub(super) struct ClientFile {
    pub(super) place: ConfigLocation,
    pub(super) content: Result<ClientServers, ReadError>,
    /// Whether its servers may be imported: a project's files come with a clone as easily as from
    /// the user.
    pub(super) is_trusted: bool,
}

impl ClientFile {
    /// Returns the problems of the file.
    pub(super) fn problems(&self) -> Vec<String> {
        match &self.content {
            Ok(content) => content.warnings.clone(),
            Err(error) => vec![error.to_string()],
        }
    }
}

/// All existing files.
pub(super) struct Survey {
    pub(super) files: Vec<ClientFile>,
}

impl Survey {
    /// Reads the files of the user and of the project, whose own files are trusted if
    /// `trusts_project`.
    pub(super) fn take(
        surroundings: &SystemEnvironment<'_>,
        clients: &[Client],
        project: &Path,
        trusts_project: bool,
    ) -> Self {
        let places = clients.iter().flat_map(|client| surroundings.places(*client, Some(project)));
        let file = |place: ConfigLocation| {
            let content = read::read(&place).transpose()?;
            let is_trusted = trusts_project || place.project.is_none();
            Some(ClientFile { place, content, is_trusted })
        };
        let mut survey = Self { files: places.filter_map(file).collect() };
        survey.switch_off_rejected();
        survey
    }

    /// Returns the servers of files that are not trusted: their names, each with what it starts or
    /// connects to.
    pub(super) fn untrusted(&self) -> Vec<(&str, String)> {
        let files = self.files.iter().filter(|file| !file.is_trusted);
        let entries = files.filter_map(|file| file.content.as_ref().ok()).flat_map(|content| &content.entries);
        let is_server =
            |entry: &&ServerEntry| entry.server.as_ref().is_ok_and(|server| !server.is_pegboard(&entry.name));
        let servers = entries.filter(is_server);
        servers.filter_map(|entry| Some((entry.name.as_str(), line_of(entry.server.as_ref().ok()?)))).collect()
    }

    /// Returns the project whose files are not trusted.
    pub(super) fn untrusted_project(&self) -> Option<&Path> {
        self.files.iter().find(|file| !file.is_trusted)?.place.project.as_deref()
    }

    /// Trusts all files.
    pub(super) fn trust(&mut self) {
        self.files.iter_mut().for_each(|file| file.is_trusted = true);
    }

    /// Disables servers that the user has rejected in Claude Code: they must not run here either.
    fn switch_off_rejected(&mut self) {
        let contents = self.files.iter().filter_map(|file| file.content.as_ref().ok());
        let rejected: Vec<_> = contents.flat_map(|content| content.rejected.clone()).collect();
        for file in self.files.iter_mut().filter(|file| file.place.client == Client::ClaudeCode) {
            let (Some(project), Ok(content)) = (&file.place.project, &mut file.content) else { continue };
            for entry in &mut content.entries {
                let is_rejected = rejected.iter().any(|(folder, name)| folder == project && *name == entry.name);
                if let Ok(server) = &mut entry.server
                    && is_rejected
                {
                    server.is_disabled = true;
                }
            }
        }
    }
}

/// Returns what a server starts or connects to, in one complete line, without secrets.
fn line_of(server: &Server) -> String {
    match secrets::mask(server).reach {
        ServerTransport::Remote { url, .. } => url,
        ServerTransport::Program { command, args, env, cwd, .. } => {
            let mut line = std::iter::once(command).chain(args).collect::<Vec<_>>().join(" ");
            line.extend(cwd.map(|cwd| format!(" (in {cwd})")));
            let variables: Vec<String> = env.into_iter().map(|(name, _)| name).collect();
            if !variables.is_empty() {
                line.push_str(&format!(" (sets {})", variables.join(", ")));
            }
            line
        }
    }
}
