//! Catalogs from files, and the built-in one.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use pegboard_config::document::MAX_BYTES as MAX_CONFIGURATION_BYTES;
use pegboard_core::{
    Catalog, LoadLimits, RawTool,
    catalog::Warning,
    load::{self, LoadError},
};

use crate::{
    clients::{edit, sections},
    error::{CliError, warn},
    output,
};

/// Maximum number of printed warnings; the rest is only counted.
const MAX_PRINTED_WARNINGS: usize = 10;

/// The hint for a configuration file in place of a catalog.
const CONFIGURATION: &str = "this file is a configuration: name it with `--config FILE`, or write the tools of its \
                             servers to a catalog with `pegboard catalog FILE > tools.jsonl`";

/// Reads the tools of all `files`, in order, and prints warnings about single tools.
pub(crate) fn read(files: &[PathBuf], max_bytes: usize) -> Result<Catalog, CliError> {
    let (catalog, notes) = load(files, max_bytes, &mut |_| {})?;
    notes.report(files);
    Ok(catalog)
}

/// Reads the tools of all `files`, in order, and returns them with the warnings about single tools.
/// Calls `on_read` with the content of each file.
pub(crate) fn load(
    files: &[PathBuf],
    max_bytes: usize,
    on_read: &mut dyn FnMut(&[u8]),
) -> Result<(Catalog, CatalogWarnings), CliError> {
    let limits = LoadLimits { file_bytes: max_bytes, ..LoadLimits::default() };
    let mut tools: Vec<RawTool> = Vec::new();
    let mut warnings: Vec<Warning> = Vec::new();
    for path in files {
        let bytes = read_bounded(path, limits.file_bytes)?;
        on_read(&bytes);
        let loaded = load::parse(&path.display().to_string(), &bytes, &limits).map_err(|error| {
            let is_configuration = is_configuration(&bytes);
            let error = unusable(error);
            if is_configuration { error.hint(CONFIGURATION) } else { error }
        })?;
        tools.extend(loaded.tools);
        warnings.extend(loaded.warnings);
    }
    let (catalog, further) = Catalog::from_tools(tools);
    warnings.extend(further);
    // Stable: in the order of the files, and of the lines in each.
    let place = |warning: &Warning| {
        let location = warning.location.as_ref()?;
        let file = files.iter().position(|path| path.display().to_string() == *location.source);
        Some((file?, location.line))
    };
    warnings.sort_by_key(place);
    Ok((catalog, CatalogWarnings::new(&warnings, place)))
}

/// Parses the tools in `bytes`, and prints warnings about single tools.
pub(crate) fn parse(source: &str, bytes: &[u8]) -> Result<Catalog, CliError> {
    let limits = LoadLimits { file_bytes: bytes.len(), ..LoadLimits::default() };
    let mut loaded = load::parse(source, bytes, &limits).map_err(unusable)?;
    let (catalog, further) = Catalog::from_tools(loaded.tools);
    loaded.warnings.extend(further);
    CatalogWarnings::new(&loaded.warnings, |warning| Some((0, warning.location.as_ref()?.line)))
        .report(&[source.into()]);
    Ok(catalog)
}

/// Reads a file, or `limit` and one byte of it, which the caller rejects.
pub(crate) fn read_bounded(path: &Path, limit: usize) -> Result<Vec<u8>, CliError> {
    let file = File::open(path).map_err(|error| CliError::read(path, error))?;
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(|error| CliError::read(path, error))?;
    Ok(bytes)
}

/// Returns whether a file that is not a catalog is a configuration, which may have comments.
fn is_configuration(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_CONFIGURATION_BYTES);
    text.and_then(|text| edit::json::to_json(text).ok()).is_some_and(|root| sections::is_configuration(&root))
}

fn unusable(error: LoadError) -> CliError {
    let hint = error.hint();
    let message = error.to_string();
    let cli = CliError::new(message).hint(hint);
    match error {
        LoadError::NotJson { source, .. } => cli.because(source),
        LoadError::NotUtf8 { source, .. } => cli.because(source),
        LoadError::OpenApi { source, .. } => cli.because(source),
        _ => cli,
    }
}

/// The warnings about a catalog that are printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CatalogWarnings {
    pub(crate) shown: Vec<CatalogWarning>,
    /// How many warnings are not printed.
    pub(crate) more: usize,
}

/// A warning without the name of its file, which the user may name differently the next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogWarning {
    /// The number of the file, and the line.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) text: String,
}

impl CatalogWarnings {
    fn new(warnings: &[Warning], place: impl Fn(&Warning) -> Option<(usize, usize)>) -> Self {
        let note = |warning: &Warning| {
            let text = Warning { location: None, ..warning.clone() }.to_string();
            CatalogWarning { place: place(warning), text }
        };
        let shown = warnings.iter().take(MAX_PRINTED_WARNINGS).map(note).collect();
        Self { shown, more: warnings.len().saturating_sub(MAX_PRINTED_WARNINGS) }
    }

    /// Prints the warnings; `files` are the names of the files.
    pub(crate) fn report(&self, files: &[PathBuf]) {
        for CatalogWarning { place, text } in &self.shown {
            match place.and_then(|(file, line)| Some((files.get(file)?, line))) {
                Some((file, line)) => warn(&format!("{}:{line}: {text}", file.display())),
                None => warn(text),
            }
        }
        if self.more > 0 {
            warn(&format!("{} like these", output::pluralize(self.more, "more warning")));
        }
    }
}
