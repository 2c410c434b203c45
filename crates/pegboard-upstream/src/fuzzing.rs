//! Parsers of this crate that are not public, for the fuzz targets alone.

use serde_json::value::RawValue;

use crate::{CallError, Item, ListKind, listing, manifest};

/// The items on a page of a list, and what was wrong with them.
///
/// # Errors
/// When it is no page of a list.
pub fn page(kind: ListKind, result: &RawValue) -> Result<(Vec<Item>, Vec<String>), CallError> {
    listing::read_page(kind, result)
}

/// Reads a manifest as it is on disk, and writes it again.
///
/// # Errors
/// Why it is not used, in words.
pub fn manifest(file: &[u8]) -> Result<Vec<u8>, String> {
    manifest::rewritten(file)
}

/// The file of a manifest with this content, sealed as it should be.
pub fn sealed_manifest(body: &[u8]) -> Vec<u8> {
    manifest::sealed(body)
}
