//! Cleans up folders of a command: makes their content accessible, and removes it.

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, renameat, statat, unlinkat},
    io::Errno,
};

/// Opens a folder, never through a link. An own folder without permissions is made accessible.
pub(super) fn open_folder(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if is_closed(&stat) {
        grant_owner_access(parent, name)?;
    }
    Ok(openat(parent, name, flags(), Mode::empty())?)
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn is_closed(stat: &Stat) -> bool {
    // The permissions that its owner needs to read a folder.
    let is_readable = Mode::from_raw_mode(stat.st_mode).contains(Mode::RUSR | Mode::XUSR);
    is_folder(stat) && !is_readable && stat.st_uid == rustix::process::getuid().as_raw()
}

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Gives its owner all permissions on a folder. The opened folder is changed, even if it is
/// replaced by a link meanwhile.
#[cfg(target_os = "linux")]
fn grant_owner_access(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(parent, name, flags, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode) | Mode::RWXU;
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn grant_owner_access(_parent: BorrowedFd<'_>, _name: &CStr) -> io::Result<()> {
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Removes a folder with all its content, at any depth and with any modes. No process may change it
/// meanwhile.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    match statat(CWD, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat if !stat.is_ok_and(|stat| is_folder(&stat)) => return Err(io::ErrorKind::NotADirectory.into()),
        _ => grant_owner_access_to_all(CWD, &name)?,
    }
    let root = openat(CWD, &name, flags(), Mode::empty())?;
    // Folders below are moved up here before their parent is removed, so that paths never become
    // deep.
    let mut moved = 0;
    loop {
        let folders = empty(root.as_fd(), |_| Ok(()))?;
        if folders == 0 {
            break;
        }
        let mut names = Dir::read_from(&root)?;
        while let Some(entry) = names.read() {
            let entry = entry?;
            if is_self(entry.file_name()) || !is_folder(&statat(&root, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?) {
                continue;
            }
            let name = entry.file_name();
            grant_owner_access_to_all(root.as_fd(), name)?;
            let folder = openat(&root, name, flags(), Mode::empty())?;
            empty(folder.as_fd(), |below| {
                grant_owner_access_to_all(folder.as_fd(), below)?;
                move_up(folder.as_fd(), below, root.as_fd(), &mut moved)
            })?;
            unlinkat(&root, name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(unlinkat(CWD, &name, AtFlags::REMOVEDIR)?)
}

/// Makes the content of a folder movable and removable.
fn grant_owner_access_to_all(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_open = Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU);
    if is_open { Ok(()) } else { grant_owner_access(parent, name) }
}

/// Removes the files in a folder and passes on the folders; returns how many there were.
fn empty(folder: BorrowedFd<'_>, mut see: impl FnMut(&CStr) -> io::Result<()>) -> io::Result<usize> {
    let mut names = Dir::read_from(folder)?;
    let mut folders = 0;
    while let Some(entry) = names.read() {
        let entry = entry?;
        let name = entry.file_name();
        if is_self(name) {
            continue;
        }
        if is_folder(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?) {
            folders += 1;
            see(name)?;
        } else {
            unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(folders)
}

/// Moves a folder to a name that is free.
fn move_up(from: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        let free = format!("moved-{moved}");
        match statat(to, free.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(renameat(from, name, to, free.as_str())?),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
}

/// Returns whether an entry is the folder itself or its parent.
pub(super) fn is_self(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn what_a_command_closed_is_removed_too() {
        let root = std::env::temp_dir().join(format!("pegboard-tidy-{}", std::process::id()));
        let kept = std::env::temp_dir().join(format!("pegboard-tidy-kept-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b/c")).expect("folders");
        fs::create_dir_all(root.join("moved-1/moved-2")).expect("folders");
        fs::create_dir_all(&kept).expect("a folder");
        fs::write(root.join("a/b/file"), "x").expect("a file");
        std::os::unix::fs::symlink(&kept, root.join("a/link")).expect("a link");
        // Deeper than a path can be long, and than descriptors last.
        let mut folder = rustix::fs::open(&root, flags(), Mode::empty()).expect("it is there");
        for _ in 0..1500 {
            rustix::fs::mkdirat(&folder, "deep", Mode::RWXU).expect("a folder");
            folder = openat(&folder, "deep", flags(), Mode::empty()).expect("it is there");
        }
        for (name, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o500), ("", 0o100)] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        remove(&root).expect("all of it is ours");
        assert!(!root.exists() && kept.exists());
        remove(&root).expect("nothing is left to remove");
        fs::remove_dir(&kept).expect("it is ours");
    }
}
