//! Model files of the user.

use std::{borrow::Cow, path::Path, sync::Arc};

use pegboard_engine::Model;

use crate::{catalogs::read_bounded, error::CliError};

/// Maximum size of a model file; the built-in one has a hundredth of this.
const MAX_MODEL_BYTES: usize = 1 << 30;

/// Reads the model at `path`; `None` without a path, for the built-in one.
pub(crate) fn read(path: Option<&Path>) -> Result<Option<Arc<Model>>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let bytes = read_bounded(path, MAX_MODEL_BYTES)?;
    let model = Model::parse(Cow::Owned(bytes)).map_err(|error| {
        CliError::new(format!("`{}` is not a valid model file", path.display()))
            .because(error)
            .hint("omit it to use the built-in model")
    })?;
    Ok(Some(Arc::new(model)))
}
