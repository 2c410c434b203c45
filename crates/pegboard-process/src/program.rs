//! Finds the program of a command.

use std::{
    env,
    ffi::OsStr,
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use crate::System;

/// The error of a command without a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is no program with this name.
    #[error("no program `{0}`")]
    NotFound(String),
    /// The file is not executable.
    #[error("`{}` is not executable", .0.display())]
    NotExecutable(PathBuf),
}

/// Finds the program of a server with this command, working directory and `PATH`, as a shell
/// would.
///
/// # Errors
/// When there is no such program.
pub fn find(command: &str, cwd: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    let mut unfit = None;
    for file in candidates(command, cwd, path) {
        match file.metadata() {
            Ok(data) if data.is_file() && is_executable(&data) => return Ok(file),
            Ok(_) if unfit.is_none() => unfit = Some(file),
            _ => {}
        }
    }
    Err(unfit.map_or_else(|| ProgramError::NotFound(command.to_owned()), ProgramError::NotExecutable))
}

/// Returns the files that the command may name, the preferred one first.
fn candidates(command: &str, cwd: Option<&Path>, path: Option<&OsStr>) -> Vec<PathBuf> {
    if command.contains(['/', MAIN_SEPARATOR]) {
        return vec![cwd.unwrap_or(Path::new("")).join(command)];
    }
    let endings: &[&str] = match System::current() {
        System::Windows => &["", ".exe", ".cmd", ".bat"],
        System::Linux | System::Mac => &[""],
    };
    let folders: Vec<PathBuf> = path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    folders.iter().flat_map(|folder| endings.iter().map(move |end| folder.join(format!("{command}{end}")))).collect()
}

#[cfg(unix)]
fn is_executable(data: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    data.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_data: &std::fs::Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_like_a_shell_does() {
        let path = std::ffi::OsString::from("/nowhere:/bin:/usr/bin");
        let check = |command: &str, cwd: Option<&str>, path: Option<&OsStr>, expected: Result<(), &str>| {
            let found = find(command, cwd.map(Path::new), path).map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{command}");
        };
        check("sh", None, Some(&path), Ok(()));
        check("/bin/sh", None, None, Ok(()));
        check("./sh", Some("/bin"), None, Ok(()));
        check("no-such-program-here", None, Some(&path), Err("no program `no-such-program-here`"));
        check("sh", None, None, Err("no program `sh`"));
        check("/etc/passwd", None, None, Err("`/etc/passwd` is not executable"));
        check("/bin/", None, None, Err("`/bin/` is not executable"));
    }
}
