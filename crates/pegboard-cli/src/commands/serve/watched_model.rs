//! The model file, which may become another one while the gateway runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use pegboard_engine::Model;

use super::file_versions::{Mark, mark};
use crate::{error::CliError, models};

/// A file, and what it looked like just before it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Looked {
    path: PathBuf,
    mark: Mark,
}

impl Looked {
    fn at(path: PathBuf) -> Self {
        Self { mark: mark(&path), path }
    }
}

/// Where the model comes from, if it is not the one that is built in.
#[derive(Debug)]
pub(super) struct FollowedModel {
    /// What the command line says, which goes before the configuration.
    flag: Option<PathBuf>,
    /// The file that is asked for. It is not in use if it could not be read.
    wanted: Option<Looked>,
    /// The file in use.
    used: Option<Looked>,
    model: Option<Arc<Model>>,
}

impl FollowedModel {
    /// Reads the model that the command line names, else the one of the configuration.
    pub(super) fn read(flag: Option<PathBuf>, configured: Option<PathBuf>) -> Result<Self, CliError> {
        let used = flag.clone().or(configured).map(Looked::at);
        let model = models::read(used.as_ref().map(|used| &*used.path))?;
        Ok(Self { flag, wanted: used.clone(), used, model })
    }

    /// The model in use, or `None` for the one that is built in.
    pub(super) fn model(&self) -> Option<Arc<Model>> {
        self.model.clone()
    }

    /// The file that is asked for, as it was when it was last read, or when that was tried.
    pub(super) fn seen(&self) -> Option<(PathBuf, Mark)> {
        self.wanted.clone().map(|wanted| (wanted.path, wanted.mark))
    }

    /// Looks at the file again.
    pub(super) async fn look(&mut self) {
        if let Some(wanted) = self.wanted.clone() {
            self.wanted = tokio::task::spawn_blocking(|| Looked::at(wanted.path)).await.ok();
        }
    }

    /// Goes over to the file that is asked for now; whether it brings another model. What was read
    /// stays while its file is damaged or gone. At a new place it must be there.
    pub(super) async fn follow(&mut self, configured: Option<&Path>) -> Result<bool, String> {
        let path = self.flag.clone().or_else(|| configured.map(Path::to_owned));
        let used = self.used.clone();
        let read = move || {
            let wanted = path.map(Looked::at);
            let model = (wanted != used).then(|| models::read(wanted.as_ref().map(|wanted| &*wanted.path)));
            (wanted, model)
        };
        let (wanted, model) = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
        self.wanted.clone_from(&wanted);
        let place = |looked: &Option<Looked>| looked.as_ref().map(|looked| looked.path.clone());
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
