//! Atomic writes of files that belong to other programs, with backups.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use pegboard_state::platform::restrict_to_owner;
use serde_json::{Map, Value};

use super::{edit, sections};
use crate::error::CliError;

/// The suffix of backups.
pub(crate) const BACKUP: &str = ".pegboard-backup";

/// The suffix of the previous version of Pegboard's own file.
const PREVIOUS: &str = ".previous";

/// Maximum number of backups of one file.
const MAX_BACKUPS: usize = 1000;

/// Maximum number of symbolic links on the way to a file.
const MAX_LINKS: usize = 40;

/// An error of a write.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("cannot create the folder `{}`", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot write a backup of `{}`", path.display())]
    Backup { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` was changed by another program in the meantime", .0.display())]
    Changed(PathBuf),
    #[error("`{}` already has {MAX_BACKUPS} backups", .0.display())]
    TooManyBackups(PathBuf),
}

impl WriteError {
    /// Returns what the user can do about the error.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Changed(_) => "close the program that uses it, and try again",
            Self::TooManyBackups(_) => "remove backups that you do not need",
            _ => "check the permissions of the folder; nothing was changed",
        }
    }
}

impl From<WriteError> for CliError {
    fn from(error: WriteError) -> Self {
        let shown = Self::new(error.to_string()).hint(error.hint());
        match error {
            WriteError::Folder { source, .. }
            | WriteError::Backup { source, .. }
            | WriteError::Write { source, .. } => shown.because(source),
            WriteError::Changed(_) | WriteError::TooManyBackups(_) => shown,
        }
    }
}

/// Replaces `old`, the text that was read, with `new`. Permissions stay; a link stays a link, and
/// its target is written. Returns the path of the backup.
pub(crate) fn replace(path: &Path, old: Option<&str>, new: &str) -> Result<Option<PathBuf>, WriteError> {
    let target = follow_links(path);
    let Some(old) = old else {
        make_folder(&target)?;
        write_atomically(&target, new, None)?;
        return Ok(None);
    };
    let failed = |source| WriteError::Write { path: path.to_owned(), source };
    let permissions = fs::metadata(&target).map_err(failed)?.permissions();
    let backup = back_up(path, old, Some(&permissions))?;
    // Clients write their files too, and changes since the file was read must not be lost.
    if fs::read(&target).map_err(failed)? != old.as_bytes() {
        return Err(WriteError::Changed(path.to_owned()));
    }
    write_atomically(&target, new, Some(permissions))?;
    Ok(Some(backup))
}

/// [`replace`] for Pegboard's own file, which changes often: only the previous version is kept. A
/// file that `becomes_private` can afterwards only be read by its owner.
pub(crate) fn update(path: &Path, old: &str, new: &str, becomes_private: bool) -> Result<(), WriteError> {
    let target = follow_links(path);
    let failed = |source| WriteError::Write { path: path.to_owned(), source };
    let permissions = fs::metadata(&target).map_err(failed)?.permissions();
    if fs::read(&target).map_err(failed)? != old.as_bytes() {
        return Err(WriteError::Changed(path.to_owned()));
    }
    write_atomically(&previous_name(path)?, old, Some(permissions.clone()))?;
    write_atomically(&target, new, Some(permissions).filter(|_| !becomes_private))
}

/// Returns the path for the previous version of Pegboard's own file. A file of that name that is
/// not such a version stays as it is.
fn previous_name(path: &Path) -> Result<PathBuf, WriteError> {
    let named = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(PREVIOUS);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        PathBuf::from(name)
    };
    let is_version = |root: Value| {
        root.is_null() || root.as_object().is_some_and(Map::is_empty) || sections::is_configuration(&root)
    };
    let is_ours = |path: &PathBuf| match fs::read_to_string(path) {
        Ok(text) => edit::json::to_json(&text).is_ok_and(is_version),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    (1..=MAX_BACKUPS).map(named).find(is_ours).ok_or_else(|| WriteError::TooManyBackups(path.to_owned()))
}

/// Writes a file that only its owner can read. A backup of `old` is kept next to it.
pub(crate) fn write_private(path: &Path, old: Option<&str>, new: &str) -> Result<Option<PathBuf>, WriteError> {
    let target = follow_links(path);
    make_folder(&target)?;
    let backup = match old {
        Some(old) => Some(back_up(path, old, None)?),
        None => None,
    };
    write_atomically(&target, new, None)?;
    Ok(backup)
}

/// Removes a file that Pegboard created with this text, and its folder if that is then empty.
/// Returns `false` for a link and for a file that existed before, which has a backup; both stay.
pub(crate) fn remove_created(path: &Path, text: &str) -> Result<bool, WriteError> {
    let failed = |source| WriteError::Write { path: path.to_owned(), source };
    if path.is_symlink() || backup_name(path, 1).exists() {
        return Ok(false);
    }
    if fs::read(path).map_err(failed)? != text.as_bytes() {
        return Err(WriteError::Changed(path.to_owned()));
    }
    fs::remove_file(path).map_err(failed)?;
    // Fails if anything else is in it.
    let _ = path.parent().map(fs::remove_dir);
    Ok(true)
}

/// Follows symbolic links, also to a target that does not exist yet.
fn follow_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(link) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    path
}

fn make_folder(file: &Path) -> Result<(), WriteError> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|source| WriteError::Folder { path: folder.to_owned(), source })
}

/// Writes a backup of `text` next to `path`, under a name that is free or has the same text
/// already.
fn back_up(path: &Path, text: &str, permissions: Option<&Permissions>) -> Result<PathBuf, WriteError> {
    for number in 1..=MAX_BACKUPS {
        let backup = backup_name(path, number);
        let failed = |source| WriteError::Backup { path: path.to_owned(), source };
        match new_file(&backup) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
                if let Some(permissions) = permissions {
                    fs::set_permissions(&backup, permissions.clone()).map_err(failed)?;
                }
                return Ok(backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read(&backup).is_ok_and(|kept| kept == text.as_bytes()) {
                    return Ok(backup);
                }
            }
            Err(source) => return Err(failed(source)),
        }
    }
    Err(WriteError::TooManyBackups(path.to_owned()))
}

/// Returns the backups of a file, newest first.
pub(crate) fn backups(path: &Path) -> Vec<PathBuf> {
    (1..=MAX_BACKUPS).rev().map(|number| backup_name(path, number)).filter(|backup| backup.is_file()).collect()
}

/// Returns the path of a backup of a file.
fn backup_name(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(BACKUP);
    if number > 1 {
        name.push(format!("-{number}"));
    }
    name.into()
}

/// Writes a temporary file and renames it, so that no reader ever sees half of it.
fn write_atomically(path: &Path, text: &str, permissions: Option<Permissions>) -> Result<(), WriteError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".pegboard-{}", std::process::id()));
    let beside = PathBuf::from(name);
    let written = new_file(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|source| {
        let _ = fs::remove_file(&beside);
        WriteError::Write { path: path.to_owned(), source }
    })
}

/// Creates a file that only its owner can read.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    restrict_to_owner(options.write(true).create_new(true)).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end of the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pegboard-files-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_others_wrote_meanwhile_is_not_lost() {
        let folder = Folder::new("changed");
        let file = folder.0.join("x.json");
        fs::write(&file, "theirs").expect("a file");
        let error = replace(&file, Some("as we found it"), "ours").expect_err("a refusal");
        assert!(matches!(error, WriteError::Changed(_)), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "theirs");
    }

    #[test]
    fn an_update_keeps_the_last_version() {
        let folder = Folder::new("update");
        let file = folder.0.join("x.json");
        let [one, two, three] = ["{}", "{\"mcpServers\": {}}", "// three\n{\"servers\": {}}"];
        fs::write(&file, one).expect("a file");
        update(&file, one, two, false).expect("an update");
        update(&file, two, three, false).expect("another one");
        let read = |name: &str| fs::read_to_string(folder.0.join(name)).expect("a file");
        assert_eq!((read("x.json"), read("x.json.previous")), (three.to_owned(), two.to_owned()));
        assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 2);
        assert!(matches!(update(&file, two, "four", false), Err(WriteError::Changed(_))));
    }

    #[test]
    fn a_file_that_is_called_like_the_last_version_stays() {
        let folder = Folder::new("previous");
        let (file, previous) = (folder.0.join("x.json"), folder.0.join("x.json.previous"));
        let check = |theirs: &str, is_kept: bool| {
            let _ = fs::remove_file(folder.0.join("x.json.previous-2"));
            fs::write(&previous, theirs).expect("a file");
            for _ in 0..2 {
                fs::write(&file, "{}").expect("a file");
                update(&file, "{}", "{\"mcpServers\": {}}", false).expect("an update");
            }
            assert_eq!(fs::read_to_string(&previous).expect("a file") == theirs, is_kept, "{theirs}");
            assert_eq!(folder.0.join("x.json.previous-2").exists(), is_kept, "{theirs}");
        };
        check("my notes", true);
        check("{\"notes\": []}", true);
        check("{\"mcpServers\": {\"a\": {}}}", false);
        check("", false);
    }

    #[test]
    fn each_text_is_kept_once() {
        let folder = Folder::new("kept");
        let file = folder.0.join("x.json");
        let back_up = |text: &str| {
            let backup = super::back_up(&file, text, None).expect("a backup");
            backup.file_name().expect("a name").to_string_lossy().into_owned()
        };
        assert_eq!(back_up("a"), "x.json.pegboard-backup");
        assert_eq!(back_up("b"), "x.json.pegboard-backup-2");
        assert_eq!(back_up("a"), "x.json.pegboard-backup");
        assert_eq!(back_up("b"), "x.json.pegboard-backup-2");
        assert_eq!(back_up("c"), "x.json.pegboard-backup-3");
    }

    #[test]
    fn nothing_is_left_beside_a_file_that_could_not_be_written() {
        let folder = Folder::new("failed");
        let file = folder.0.join("x");
        // A folder cannot be replaced by a file.
        fs::create_dir_all(file.join("y")).expect("a folder");
        assert!(write_atomically(&file, "text", None).is_err());
        assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 1);
    }
}
