//! The model file, which may be replaced while the gateway runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use pegboard_engine::Model;

use super::file_versions::{FileVersion, file_version};
use crate::{error::CliError, models};

/// A model file, and its version just before it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelFile {
    path: PathBuf,
    version: FileVersion,
}

impl ModelFile {
    fn at(path: PathBuf) -> Self {
        Self { version: file_version(&path), path }
    }
}

/// The model in use, and the file that it comes from, if it is not the built-in one.
#[derive(Debug)]
pub(super) struct WatchedModel {
    /// The file of the command line, which takes precedence over the configuration.
    flag: Option<PathBuf>,
    /// The selected file. It is not in use if it could not be read.
    wanted: Option<ModelFile>,
    /// The file in use.
    used: Option<ModelFile>,
    model: Option<Arc<Model>>,
}

impl WatchedModel {
    /// Reads the model of the command line, else the one of the configuration.
    pub(super) fn read(flag: Option<PathBuf>, configured: Option<PathBuf>) -> Result<Self, CliError> {
        let used = flag.clone().or(configured).map(ModelFile::at);
        let model = models::read(used.as_ref().map(|used| &*used.path))?;
        Ok(Self { flag, wanted: used.clone(), used, model })
    }

    /// Returns the model in use, or `None` for the built-in one.
    pub(super) fn model(&self) -> Option<Arc<Model>> {
        self.model.clone()
    }

    /// Returns the selected file, with its version at the last attempt to read it.
    pub(super) fn last_seen(&self) -> Option<(PathBuf, FileVersion)> {
        self.wanted.clone().map(|wanted| (wanted.path, wanted.version))
    }

    /// Records the present version of the file.
    pub(super) async fn refresh_version(&mut self) {
        if let Some(wanted) = self.wanted.clone() {
            self.wanted = tokio::task::spawn_blocking(|| ModelFile::at(wanted.path)).await.ok();
        }
    }

    /// Switches to the selected file, and returns whether the model changed. While the file in use
    /// is damaged or missing, its model stays. A newly selected file must exist.
    pub(super) async fn update(&mut self, configured: Option<&Path>) -> Result<bool, String> {
        let path = self.flag.clone().or_else(|| configured.map(Path::to_owned));
        let used = self.used.clone();
        let read = move || {
            let wanted = path.map(ModelFile::at);
            let model = (wanted != used).then(|| models::read(wanted.as_ref().map(|wanted| &*wanted.path)));
            (wanted, model)
        };
        let (wanted, model) = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
        self.wanted.clone_from(&wanted);
        let place = |looked: &Option<ModelFile>| looked.as_ref().map(|looked| looked.path.clone());
        match model {
            None => Ok(false),
            Some(Ok(model)) => {
                (self.used, self.model) = (wanted, model);
                Ok(true)
            }
            Some(Err(error)) if place(&wanted) == place(&self.used) => {
                tracing::warn!("model file rejected, previous model kept: {}", error.in_one_line());
                Ok(false)
            }
            Some(Err(error)) => Err(error.in_one_line()),
        }
    }
}
