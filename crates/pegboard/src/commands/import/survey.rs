//! What the clients on this machine have.

use std::path::Path;

use crate::clients::{
    Client,
    places::{Place, Surroundings},
    read::{self, Content, ReadError},
};

/// A client's file that is there.
pub(super) struct ClientFile {
    pub(super) place: Place,
    pub(super) content: Result<Content, ReadError>,
}

impl ClientFile {
    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<String> {
        match &self.content {
            Ok(content) => content.warnings.clone(),
            Err(error) => vec![error.to_string()],
        }
    }
}

/// All files that are there.
pub(super) struct Survey {
    pub(super) files: Vec<ClientFile>,
}

impl Survey {
    pub(super) fn take(surroundings: &Surroundings<'_>, clients: &[Client], project: &Path) -> Self {
        let places = clients.iter().flat_map(|client| surroundings.places(*client, Some(project)));
        let file = |place: Place| {
            let content = read::read(&place).transpose()?;
            Some(ClientFile { place, content })
        };
        let mut survey = Self { files: places.filter_map(file).collect() };
        survey.switch_off_rejected();
        survey
    }

    /// Whoever has refused a server of a project's file in Claude Code does not want to find it
    /// running here.
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
