//! Files with one value (`${file:PATH}`).

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{keys::Lookup, variables::resolve_in_workspace};

/// Maximum number of bytes of a file.
const MAX_BYTES: u64 = 64 << 10;

/// The error of reading a file with a value. It does not show the content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFileError {
    #[error("cannot be read: {}", .0.kind())]
    Read(#[from] io::Error),
    #[error("is not a file, is larger than 64 KiB, or is not UTF-8")]
    NoText,
}

/// Returns the path after `file:`, relative to the folder of the configuration, or to the home
/// folder after `~/`.
pub(crate) fn resolve_path(path: &str, env: Lookup<'_>) -> PathBuf {
    let home = || env("HOME").or_else(|| env("USERPROFILE"));
    match path.strip_prefix("~/").and_then(|rest| Some((home()?, rest))) {
        Some((home, rest)) => Path::new(&home).join(rest),
        None => resolve_in_workspace(path, env),
    }
}

/// Reads the value in the file at `path`, without line breaks at its end, which editors add.
pub(crate) fn read(path: &Path) -> Result<String, SecretFileError> {
    // Reading from a pipe or a terminal could block for ever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(SecretFileError::NoText);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SecretFileError::NoText);
    }
    let mut text = String::from_utf8(bytes).map_err(|_| SecretFileError::NoText)?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let folder = std::env::temp_dir().join(format!("pegboard-secret-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("value");
        let check = |content: &[u8], expected: Option<&str>| {
            std::fs::write(&path, content).expect("a file");
            assert_eq!(read(&path).ok().as_deref(), expected, "{content:?}");
        };
        check(b"s3cret\n", Some("s3cret"));
        check(b" s3cret \r\n\n", Some(" s3cret "));
        check(b"two\nlines\n", Some("two\nlines"));
        check(b"", Some(""));
        check(b"\xff", None);
        check(&vec![b'x'; 64 << 10], Some(&"x".repeat(64 << 10)));
        check(&vec![b'x'; (64 << 10) + 1], None);
        assert!(matches!(read(&folder), Err(SecretFileError::NoText)));
        assert!(matches!(read(&folder.join("none")), Err(SecretFileError::Read(_))));
        std::fs::remove_dir_all(&folder).expect("it was there");
    }

    #[test]
    fn places() {
        let env = |name: &str| match name {
            "HOME" => Some("/home/ada".to_owned()),
            super::super::variables::WORKSPACE_FOLDER => Some("/srv/app".to_owned()),
            _ => None,
        };
        let check = |path: &str, expected: &str| assert_eq!(resolve_path(path, &env), Path::new(expected), "{path}");
        check("token", "/srv/app/token");
        check("/run/secrets/token", "/run/secrets/token");
        check("~/.token", "/home/ada/.token");
    }
}
