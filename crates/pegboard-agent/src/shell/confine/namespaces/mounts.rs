//! The file system of the sandbox: the system's programs and configured paths, read-only; the
//! working folder; and folders in memory.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsString},
    fs::{self, File},
    io,
    os::unix::{ffi::OsStringExt, fs::symlink},
    path::{Path, PathBuf},
};

use rustix::{
    mount::{
        MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_remount,
        unmount,
    },
    process::{chdir, pivot_root},
};

use crate::shell::{
    WORKSPACE,
    confine::{
        bubblewrap::OURS,
        private_folder::SOCKET,
        spec::Layout,
        system::{CONFIGURATION, PROGRAMS},
    },
};

/// The path of the old root while the new one is built.
const OLD: &str = "/old";

/// The path of the new root while it is built.
const NEW: &str = "/new";

/// Devices that every program expects.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev` to open files of the process.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Flags of every mount.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// The access of a command to a mounted path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// Read and write through the device, without changing the file: special files can be written
    /// on a read-only mount, and their modes cannot be changed.
    Device,
}

impl Access {
    fn flags(self) -> MountFlags {
        match self {
            Self::Read => PLAIN.union(MountFlags::RDONLY),
            Self::Write => PLAIN,
            Self::Device => MountFlags::RDONLY.union(MountFlags::NOSUID).union(MountFlags::NOEXEC),
        }
    }
}

/// A path of the old root that is shown in the new one.
enum Entry {
    Link { target: PathBuf, at: PathBuf },
    Bind { source: PathBuf, at: PathBuf, access: Access },
}

/// Replaces the root of this process by the sandbox's.
pub(super) fn build(layout: &Layout) -> Result<(), String> {
    let entries = entries(layout)?;
    begin(&layout.base).map_err(|error| format!("cannot create a root file system: {error}"))?;
    let proc = below(Path::new("/proc"));
    fs::create_dir(&proc)
        .and_then(|()| Ok(mount("proc", &proc, "proc", PLAIN | MountFlags::NOEXEC, None)?))
        .map_err(|error| format!("cannot mount `/proc`: {error}"))?;
    devices()?;
    for folder in ["/dev/shm", "/tmp"] {
        memory(Path::new(folder), &format!("mode=1777,size={}", layout.temporary_bytes))?;
    }
    entries.iter().try_for_each(Entry::make)?;
    forbid_user_namespaces().map_err(|error| format!("cannot limit user namespaces: {error}"))?;
    // Root owns files in `/proc` that belong to the whole machine.
    for (folder, access) in [("/dev", Access::Read), ("/proc", Access::Read), ("/", Access::Read)] {
        seal(&below(Path::new(folder)), access.flags() | own_flags(folder))
            .map_err(|error| format!("cannot make `{folder}` read-only: {error}"))?;
    }
    finish().map_err(|error| format!("cannot leave the old root file system: {error}"))
}

/// Returns the system files of the sandbox. Links are resolved now: later they would resolve
/// differently.
fn entries(layout: &Layout) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for folder in PROGRAMS {
        match fs::read_link(folder) {
            // `/bin` is a link on most systems, and must stay one to be found in `/usr`.
            Ok(target) => entries.push(Entry::Link { target, at: folder.into() }),
            Err(_) => entries.extend(Entry::existing(folder.as_ref())),
        }
    }
    entries.extend(CONFIGURATION.iter().filter_map(|path| Entry::existing(path.as_ref())));
    entries.extend(layout.readable.iter().filter_map(|path| Entry::existing(path)));
    let ours = |name: &str| Path::new(OURS).join(name);
    let mut needed = vec![
        (&layout.program, ours("confine"), Access::Read),
        (&layout.folder, PathBuf::from(WORKSPACE), Access::Write),
    ];
    needed.extend(layout.socket.as_ref().map(|socket| (socket, ours(SOCKET), Access::Read)));
    for (path, at, access) in needed {
        let source = path.canonicalize().map_err(|error| format!("cannot find `{}`: {error}", path.display()))?;
        entries.push(Entry::Bind { source, at, access });
    }
    Ok(entries)
}

impl Entry {
    /// Creates an entry for a path at the same place, if the file exists.
    fn existing(path: &Path) -> Option<Self> {
        let source = path.canonicalize().ok()?;
        Some(Self::Bind { source, at: path.to_owned(), access: Access::Read })
    }

    fn make(&self) -> Result<(), String> {
        let (at, made) = match self {
            Self::Link { target, at } => (at, create_parent(&below(at)).and_then(|()| symlink(target, below(at)))),
            Self::Bind { source, at, access } => (at, bind(source, &below(at), *access)),
        };
        made.map_err(|error| format!("cannot mount `{}`: {error}", at.display()))
    }
}

/// Makes an empty folder in memory the root, with the old and the new root in it.
fn begin(base: &Path) -> io::Result<()> {
    // Mounts made here must not appear outside.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    mount("tmpfs", base, "tmpfs", PLAIN, Some(c"mode=0755"))?;
    for folder in [OLD, NEW] {
        fs::create_dir(base.join(folder.trim_start_matches('/')))?;
    }
    pivot_root(base, base.join(OLD.trim_start_matches('/')))?;
    chdir("/")?;
    Ok(mount("tmpfs", NEW, "tmpfs", PLAIN, Some(c"mode=0755"))?)
}

/// Makes the new root the only one.
fn finish() -> io::Result<()> {
    mount_change(OLD, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    unmount(OLD, UnmountFlags::DETACH)?;
    chdir(NEW)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

fn devices() -> Result<(), String> {
    memory(Path::new("/dev"), "mode=0755")?;
    let folder = below(Path::new("/dev"));
    for device in DEVICES {
        let source = Path::new("/dev").join(device);
        match bind(&source, &folder.join(device), Access::Device) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("cannot mount `{}`: {error}", source.display()));
            }
            _ => {}
        }
    }
    for (name, target) in LINKS {
        symlink(target, folder.join(name)).map_err(|error| format!("cannot create `/dev/{name}`: {error}"))?;
    }
    let terminals = folder.join("pts");
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    fs::create_dir(&terminals)
        .and_then(|()| Ok(mount("devpts", &terminals, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options)?))
        .map_err(|error| format!("cannot mount `/dev/pts`: {error}"))
}

/// Mounts a folder in memory.
fn memory(folder: &Path, options: &str) -> Result<(), String> {
    let at = below(folder);
    let made = CString::new(options).map_err(io::Error::from).and_then(|options| {
        fs::create_dir_all(&at)?;
        Ok(mount("tmpfs", &at, "tmpfs", PLAIN, options.as_c_str())?)
    });
    made.map_err(|error| format!("cannot mount `{}`: {error}", folder.display()))
}

/// Mounts a path of the old root in the new one, with all mounts below it.
fn bind(source: &Path, at: &Path, access: Access) -> io::Result<()> {
    let source = Path::new(OLD).join(source.strip_prefix("/").unwrap_or(source));
    if fs::metadata(&source)?.is_dir() {
        fs::create_dir_all(at)?;
    } else {
        create_parent(at)?;
        File::create(at)?;
    }
    mount_bind_recursive(&source, at)?;
    let mut done = BTreeSet::new();
    for mounted in mounts_below(at)? {
        // Of two mounts in one place, only the upper one is accessible.
        if !done.insert(mounted.at.clone()) {
            continue;
        }
        match seal(&mounted.at, mounted.flags | access.flags()) {
            // A mount that this user cannot access is not accessible to its commands either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_closed(&mounted.at, at) => {}
            sealed => sealed?,
        }
    }
    Ok(())
}

/// Returns whether a mount below this folder is inaccessible.
fn is_closed(mounted: &Path, folder: &Path) -> bool {
    let unreachable = fs::symlink_metadata(mounted).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    mounted != folder && unreachable
}

/// Sets the flags of one mount.
fn seal(at: &Path, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(at, MountFlags::BIND | flags, c"")?)
}

/// Returns the flags of a mount that this program created.
fn own_flags(folder: &str) -> MountFlags {
    if folder == "/proc" { MountFlags::NOEXEC } else { MountFlags::empty() }
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns a path in the new root.
fn below(path: &Path) -> PathBuf {
    Path::new(NEW).join(path.strip_prefix("/").unwrap_or(path))
}

/// Forbids further user namespaces, in which a command would have capabilities again.
fn forbid_user_namespaces() -> io::Result<()> {
    match fs::write(below(Path::new("/proc/sys/user/max_user_namespaces")), "0") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// A mount and its flags.
#[derive(Debug, PartialEq, Eq)]
struct Mounted {
    at: PathBuf,
    flags: MountFlags,
}

/// Returns the mounts at and below this path.
fn mounts_below(path: &Path) -> io::Result<Vec<Mounted>> {
    let table = fs::read(below(Path::new("/proc/self/mountinfo")))?;
    let mounts = table.split(|byte| *byte == b'\n').filter_map(Mounted::parse);
    let found: Vec<Mounted> = mounts.filter(|mounted| mounted.at.starts_with(path)).collect();
    // The mount that was just made must be among them.
    if found.iter().any(|mounted| mounted.at == path) { Ok(found) } else { Err(io::ErrorKind::InvalidData.into()) }
}

impl Mounted {
    /// Parses a line of `/proc/PID/mountinfo`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let at = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
        let options = std::str::from_utf8(fields.next()?).ok()?;
        let flags = options.split(',').map(|option| match option {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "nosymfollow" => MountFlags::NOSYMFOLLOW,
            // The handling of access times is kept.
            _ => MountFlags::empty(),
        });
        Some(Self { at, flags: flags.collect() })
    }
}

/// Decodes octal escapes, such as `\040` for a space.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                rest = &after[3..];
            }
            None => {
                plain.push(*byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_of_mounts() {
        let check = |line: &str, expected: Option<(&str, MountFlags)>| {
            let expected = expected.map(|(at, flags)| Mounted { at: at.into(), flags });
            assert_eq!(Mounted::parse(line.as_bytes()), expected, "{line}");
        };
        let line = "36 35 98:0 / /mnt/a\\040b rw,nosuid,nodev,relatime master:1 - ext3 /dev/root rw";
        check(line, Some(("/mnt/a b", PLAIN)));
        check("24 27 0:6 / /x ro,noexec - tmpfs tmpfs rw", Some(("/x", MountFlags::RDONLY | MountFlags::NOEXEC)));
        check("24 27 0:6 / /x", None);
        check("", None);
    }

    #[test]
    fn octal_escapes() {
        for (field, plain) in [("a\\040b", "a b"), ("\\134", "\\"), ("a\\", "a\\"), ("\\9", "\\9"), ("\\999", "\\999")]
        {
            assert_eq!(unescape(field.as_bytes()), plain.as_bytes(), "{field}");
        }
    }
}
