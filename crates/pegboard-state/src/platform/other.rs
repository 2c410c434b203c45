//! Files of systems without Unix modes and owners, such as Windows: the folders that programs of one
//! user write to are private there by default, and nothing more can be set or read with the standard
//! library.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Creates a folder, and those above it where they are missing.
///
/// # Errors
/// When the system refuses.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Creates a folder, and those above it where they are missing.
///
/// # Errors
/// When the system refuses.
pub fn make_folder_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Returns the options as they are.
pub fn restrict_to_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Does nothing.
///
/// # Errors
/// Never.
pub fn make_file_private(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Checks that the folder can be read; owners are not known.
///
/// # Errors
/// When it cannot.
pub fn check_owner(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
}

/// `true`: owners are not known.
pub fn is_own(_data: &Metadata) -> bool {
    true
}

/// `false`: there are no modes.
pub fn is_readable_by_others(_data: &Metadata) -> bool {
    false
}

/// `false`: there are no modes.
pub fn is_writable_by_others(_data: &Metadata) -> bool {
    false
}

/// Whether a folder exists and is not marked read-only.
pub fn can_write_to(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|data| !data.permissions().readonly())
}

/// Zero: file numbers are not known.
pub fn file_number(_data: &Metadata) -> u64 {
    0
}

/// Zero: this time is not known.
pub fn change_time(_data: &Metadata) -> i128 {
    0
}
