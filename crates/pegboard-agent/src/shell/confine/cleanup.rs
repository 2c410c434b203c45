//! Folders that a command had to itself: opening what it closed, and removing all of it.

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

/// Opens a folder, never through a link. What is ours and does not let us in is made to.
pub(super) fn open_folder(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if is_closed(&stat) {
        open_up(parent, name)?;
    }
    Ok(openat(parent, name, flags(), Mode::empty())?)
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn is_closed(stat: &Stat) -> bool {
    // What its owner has to be allowed to do with a folder, so that we can look into it.
    let is_readable = Mode::from_raw_mode(stat.st_mode).contains(Mode::RUSR | Mode::XUSR);
    is_folder(stat) && !is_readable && stat.st_uid == rustix::process::getuid().as_raw()
}

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Lets its owner, us, into a folder and change it. What is opened is what is changed, should
/// somebody put a link in its place meanwhile.
#[cfg(target_os = "linux")]
fn open_up(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(parent, name, flags, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode) | Mode::RWXU;
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn open_up(_parent: BorrowedFd<'_>, _name: &CStr) -> io::Result<()> {
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Removes a folder with everything in it, however deep that is and whatever modes it has.
/// Nobody may change it meanwhile.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    match statat(CWD, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat if !stat.is_ok_and(|stat| is_folder(&stat)) => return Err(io::ErrorKind::NotADirectory.into()),
        _ => open_up_all(CWD, &name)?,
    }
    let root = openat(CWD, &name, flags(), Mode::empty())?;
    // What lies in a folder below is moved up here before that is removed, so that nothing is
    // ever deep.
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
            open_up_all(root.as_fd(), name)?;
            let folder = openat(&root, name, flags(), Mode::empty())?;
            empty(folder.as_fd(), |below| {
                open_up_all(folder.as_fd(), below)?;
                move_up(folder.as_fd(), below, root.as_fd(), &mut moved)
            })?;
            unlinkat(&root, name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(unlinkat(CWD, &name, AtFlags::REMOVEDIR)?)
}

/// Makes sure that what is in a folder can be moved and removed.
fn open_up_all(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_open = Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU);
    if is_open { Ok(()) } else { open_up(parent, name) }
}

/// Removes the files in a folder and hands on the folders; how many there were.
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

/// Moves a folder under a name that is free.
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

/// Whether a folder lists itself or its parent.
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
