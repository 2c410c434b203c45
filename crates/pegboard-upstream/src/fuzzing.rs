//! Private parsers of this crate, exported for the fuzz targets only.

use serde_json::value::RawValue;

use crate::{CallError, Item, ListKind, listing, manifest};

/// Returns the items on a page of a list, and the warnings about them.
///
/// # Errors
/// When the result is not a page of a list.
pub fn read_page(kind: ListKind, result: &RawValue) -> Result<(Vec<Item>, Vec<String>), CallError> {
    listing::read_page(kind, result)
}

/// Decodes the file of a manifest and encodes it again.
///
/// # Errors
/// The reason why the manifest is not used, as text.
pub fn rewrite_manifest(file: &[u8]) -> Result<Vec<u8>, String> {
    manifest::rewrite(file)
}

/// Returns the file of a manifest with this content and a valid seal.
pub fn seal_manifest(body: &[u8]) -> Vec<u8> {
    manifest::seal(body)
}
