//! The files of sessions on disk: written atomically, and never opened through a link.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::names;
use crate::platform::Folder;

/// How often a folder is created again if it is removed concurrently.
const MAX_TRIES: usize = 8;

/// The outputs of one session.
#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    session: String,
}

/// Why an output could not be written: because of the folder or of the file.
pub(super) enum WriteError {
    Folder(io::Error),
    File(io::Error),
}

impl Store {
    pub(super) fn new(root: PathBuf, session: String) -> Self {
        Self { root, session }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.session)
    }

    /// Opens the file that a model names, if it is one of this session's outputs. Does not tell why
    /// it is not.
    pub(super) fn open(&self, given: &str) -> Option<File> {
        let name = names::resolve(given, &self.root, &self.session)?;
        Folder::open(&self.root, &self.session).and_then(|folder| folder.read(name)).ok()
    }

    /// Writes `text` to a file with the next free name; returns the name.
    pub(super) fn write(&self, next_name: impl Fn() -> String, text: &str) -> Result<String, WriteError> {
        self.write_with(next_name, |file| file.write_all(text.as_bytes()))
    }

    /// Writes a file with `fill`, which is called at most once.
    fn write_with(
        &self,
        next_name: impl Fn() -> String,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<String, WriteError> {
        let (folder, mut file, name) = self.begin(&next_name)?;
        let part = names::part_of(&name);
        // Not synced: after a power failure the conversation does not need the file any more.
        let written = fill(&mut file).and_then(|()| folder.rename(&part, &name));
        if let Err(error) = written {
            let _ = folder.remove(&part);
            return Err(WriteError::File(error));
        }
        Ok(name)
    }

    /// Creates the folder, and the unfinished file of the output. The unfinished file reserves the
    /// name: a concurrent process with the same name takes its next one.
    fn begin(&self, next_name: &impl Fn() -> String) -> Result<(Folder, File, String), WriteError> {
        let mut last = io::Error::from(ErrorKind::AlreadyExists);
        for _ in 0..MAX_TRIES {
            let folder = Folder::make(&self.root, &self.session).map_err(WriteError::Folder)?;
            let name = next_name();
            let part = names::part_of(&name);
            match folder.create(&part) {
                Ok(_) if folder.modified(&name).is_ok() => {
                    let _ = folder.remove(&part);
                    last = io::Error::from(ErrorKind::AlreadyExists);
                }
                Ok(file) => return Ok((folder, file, name)),
                // The name is taken, or the folder was just removed because it was empty and old.
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => last = error,
                Err(error) => return Err(WriteError::File(error)),
            }
        }
        Err(WriteError::File(last))
    }
}

/// Removes files older than `retention` in the folders of all sessions; returns their number. Files
/// with other names are kept.
pub(super) fn clean(root: &Path, now: SystemTime, retention: Duration) -> io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(root)? {
        let Ok(entry) = entry else { continue };
        // The type of the entry itself: a link to a folder is not a folder.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(session) = entry.file_name().into_string() else { continue };
        let Ok(folder) = Folder::open(root, &session) else { continue };
        let in_folder = clean_session(&folder, now, retention);
        if in_folder > 0 {
            // Fails while files are left in the folder.
            let _ = std::fs::remove_dir(entry.path());
        }
        removed += in_folder;
    }
    Ok(removed)
}

fn clean_session(folder: &Folder, now: SystemTime, retention: Duration) -> usize {
    let Ok(names) = folder.names() else { return 0 };
    let is_old = |name: &String| {
        let age = folder.modified(name).ok().and_then(|modified| now.duration_since(modified).ok());
        age.is_some_and(|age| age > retention)
    };
    let old = names.into_iter().filter(|name| names::is_ours(name)).filter(is_old);
    old.filter(|name| folder.remove(name).is_ok()).count()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::outputs::tests::Temp;

    const NAME: &str = "tool_20260102_030405_1_list.txt";

    fn entries(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_disk_leaves_nothing_behind() {
        let temp = Temp::new("full_disk");
        let store = Store::new(temp.path().to_owned(), "chat".to_owned());
        let full =
            |file: &mut File| file.write_all(b"half of it").and_then(|()| Err(io::Error::from(ErrorKind::StorageFull)));
        let result = store.write_with(|| NAME.to_owned(), full);
        assert!(matches!(result, Err(WriteError::File(error)) if error.kind() == ErrorKind::StorageFull));
        assert_eq!(entries(&store.path()), [""; 0]);
    }

    #[test]
    fn a_name_that_is_taken_is_never_written_over() {
        let temp = Temp::new("taken");
        let store = Store::new(temp.path().to_owned(), "chat".to_owned());
        assert!(store.write(|| NAME.to_owned(), "first").is_ok());
        assert!(store.write(|| NAME.to_owned(), "second").is_err());
        assert_eq!(fs::read_to_string(store.path().join(NAME)).expect("the file"), "first");
        assert_eq!(entries(&store.path()), [NAME]);
        let counter = std::cell::Cell::new(0);
        let next = || {
            counter.set(counter.get() + 1);
            format!("tool_20260102_030405_{}_list.txt", counter.get())
        };
        let name = store.write(next, "second").unwrap_or_default();
        assert_eq!(name, "tool_20260102_030405_2_list.txt");
    }

    #[test]
    fn another_process_that_writes_the_same_name_is_left_alone() {
        let temp = Temp::new("same_name");
        let store = Store::new(temp.path().to_owned(), "chat".to_owned());
        fs::create_dir(store.path()).expect("a folder");
        let part = names::part_of(NAME);
        fs::write(store.path().join(&part), "theirs").expect("a file");
        assert!(store.write(|| NAME.to_owned(), "ours").is_err());
        assert_eq!(fs::read_to_string(store.path().join(part)).expect("the file"), "theirs");
    }
}
