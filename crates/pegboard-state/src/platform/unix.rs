//! Files of systems with Unix modes and owners.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::fs::Access;

/// Creates a folder, and those above it where they are missing, that no other user can enter. A
/// folder that exists is not changed.
///
/// # Errors
/// When the system refuses.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a folder that no other user can enter, or makes an existing one of this user private.
///
/// # Errors
/// When the system refuses, or the folder belongs to another user.
pub fn make_folder_private(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return create_private_folder(path);
    }
    if !is_own(&fs::symlink_metadata(path)?) {
        return Err(refusal("the folder belongs to another user"));
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Lets only this user read and write a file that is created with these options.
pub fn restrict_to_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Lets only its owner read and write an open file.
///
/// # Errors
/// When the system refuses.
pub fn make_file_private(file: &File) -> io::Result<()> {
    match file.metadata()?.mode() & 0o077 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(0o600)),
    }
}

/// Checks that a folder belongs to this user and that no other user can write to it.
///
/// # Errors
/// When that is not so, or the folder cannot be read.
pub fn check_owner(folder: &Path) -> io::Result<()> {
    let data = fs::metadata(folder)?;
    if !is_own(&data) {
        return Err(refusal("the folder belongs to another user"));
    }
    if is_writable_by_others(&data) {
        return Err(refusal("the folder is writable by other users"));
    }
    Ok(())
}

/// Whether a file belongs to this user.
pub fn is_own(data: &Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw()
}

/// Whether users other than its owner can read a file.
pub fn is_readable_by_others(data: &Metadata) -> bool {
    data.mode() & 0o044 != 0
}

/// Whether users other than its owner can write to a file.
pub fn is_writable_by_others(data: &Metadata) -> bool {
    data.mode() & 0o022 != 0
}

/// Whether this user can create files in a folder.
pub fn can_write_to(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// The number of a file, which another file at the same path does not have.
pub fn file_number(data: &Metadata) -> u64 {
    data.ino()
}

/// When anything about a file changed last, in nanoseconds since 1970.
pub fn change_time(data: &Metadata) -> i128 {
    i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec())
}

fn refusal(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}
