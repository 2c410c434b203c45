//! Configuration files that the user trusts to start programs.
//!
//! A `pegboard.json` comes with a cloned repository or an unpacked archive as easily as from the
//! user. So one that was found in a folder starts nothing until the user says so, for its path and
//! its content: a file that changes is asked about again.

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use pegboard_upstream::store::{Kind, LoadError, Store, digest};
use serde::{Deserialize, Serialize};

use crate::{
    catalogs::read_bounded,
    clients::{edit, show::printable},
    config::state::StateFolder,
    error::{CliError, say},
};

/// The files of the store.
const KIND: Kind = Kind { name: "trust", version: 1, max_bytes: 64 << 10 };

/// What a configuration file may have.
const MAX_BYTES: usize = pegboard_upstream::config::document::MAX_BYTES;

/// Programs that are shown before the user decides.
const SHOWN: usize = 10;

/// A file that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Trusted {
    pub(crate) path: PathBuf,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl Trusted {
    /// A file with this content.
    ///
    /// # Errors
    /// When there is no such path.
    pub(crate) fn of(path: &Path, content: &[u8]) -> Result<Self, CliError> {
        let path = fs::canonicalize(path).map_err(|error| CliError::read(path, error))?;
        Ok(Self { path, sha256: hex(&digest(content)) })
    }
}

/// Checks that a file is trusted as it is now. On a terminal the user is asked.
///
/// # Errors
/// When it is not.
pub(crate) fn check(path: &Path, state: Option<&str>) -> Result<(), CliError> {
    let now = examine(path)?;
    if is_trusted(&now, state) {
        return Ok(());
    }
    let shown = now.path.display();
    let refused = || {
        CliError::new(format!("`{shown}` is not trusted, so its servers are not started"))
            .hint("read it, then run `pegboard trust`; `--config` names a file for one run")
    };
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(refused());
    }
    say(&format!("`{shown}` was found in this folder. It starts:"));
    programs(path).iter().for_each(|line| say(&format!("  {line}")));
    if !asked("Trust this file and start its servers?")? {
        return Err(refused());
    }
    trust(&now, state)
}

/// Whether a file is trusted as it is now; nobody is asked.
pub(crate) fn is_file_trusted(path: &Path, state: Option<&str>) -> bool {
    examine(path).is_ok_and(|now| is_trusted(&now, state))
}

/// The path and the content of a file, as trust is given for them.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn examine(path: &Path) -> Result<Trusted, CliError> {
    Trusted::of(path, &read_bounded(path, MAX_BYTES)?)
}

/// Trusts a file as it was examined.
///
/// # Errors
/// When that cannot be saved.
pub(crate) fn trust(file: &Trusted, state: Option<&str>) -> Result<(), CliError> {
    let store = open(state)?.ok_or_else(|| {
        CliError::new("no state folder to save trusted files in")
            .hint("name one with `--state`, or name the file with `--config`")
    })?;
    let body = serde_json::to_vec(file).map_err(|error| CliError::new("cannot save trust").because(error))?;
    store.save(&name_of(&file.path), &body).map_err(|error| CliError::new("cannot save trust").because(error))
}

/// Trusts no longer a file; whether it was trusted.
///
/// # Errors
/// When that cannot be saved.
pub(crate) fn distrust(path: &Path, state: Option<&str>) -> Result<bool, CliError> {
    let Some(store) = open(state)? else { return Ok(false) };
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = name_of(&path);
    if store.load(&name).is_err() {
        return Ok(false);
    }
    store.remove(&name).map_err(|error| CliError::new("cannot save trust").because(error))?;
    Ok(true)
}

/// All files that are trusted, by path.
///
/// # Errors
/// When they cannot be listed.
pub(crate) fn list(state: Option<&str>) -> Result<Vec<Trusted>, CliError> {
    let Some(store) = open(state)? else { return Ok(Vec::new()) };
    let names = store.names().map_err(|error| CliError::new("cannot list trusted files").because(error))?;
    let mut files: Vec<Trusted> = names.iter().filter_map(|(name, _)| load(&store, name)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_trusted(now: &Trusted, state: Option<&str>) -> bool {
    let store = open(state).ok().flatten();
    store.is_some_and(|store| load(&store, &name_of(&now.path)).as_ref() == Some(now))
}

fn load(store: &Store, name: &str) -> Option<Trusted> {
    match store.load(name) {
        Ok(body) => serde_json::from_slice(&body).ok(),
        Err(LoadError::Missing) => None,
        Err(error) => {
            tracing::debug!(%error, "trust entry ignored");
            None
        }
    }
}

/// The store below the state folder. The file itself has no say in where that is.
fn open(state: Option<&str>) -> Result<Option<Store>, CliError> {
    let Some(folder) = StateFolder::Usual.resolve(state) else { return Ok(None) };
    let folder = folder.join("trusted");
    let store = Store::open_with_key(&folder, KIND);
    store.map(Some).map_err(|error| CliError::new(format!("cannot use `{}`", folder.display())).because(error))
}

/// The name of an entry: paths can be longer than names of files.
fn name_of(path: &Path) -> String {
    hex(&digest(path.as_os_str().as_encoded_bytes())[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The programs and addresses of a file, one a line, as far as they can be read.
pub(crate) fn programs(path: &Path) -> Vec<String> {
    let text = read_bounded(path, MAX_BYTES).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let value = text.and_then(|text| edit::json::to_json(&text).ok()).unwrap_or_default();
    let servers = ["mcpServers", "servers"].iter().find_map(|key| value.get(key)?.as_object());
    let mut lines: Vec<String> = servers.into_iter().flatten().map(|(name, server)| program(name, server)).collect();
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    if lines.is_empty() {
        lines.push("no servers".to_owned());
    }
    lines
}

fn program(name: &str, server: &serde_json::Value) -> String {
    let text = |key: &str| server.get(key).and_then(serde_json::Value::as_str);
    let line = match (text("command"), text("url")) {
        (Some(command), _) => {
            let args = server.get("args").and_then(serde_json::Value::as_array).into_iter().flatten();
            let words = std::iter::once(command).chain(args.filter_map(serde_json::Value::as_str));
            words.collect::<Vec<_>>().join(" ")
        }
        (None, Some(url)) => url.to_owned(),
        (None, None) => "nothing".to_owned(),
    };
    printable(&format!("{name}: {line}"))
}

/// Asks the user a question that is answered with yes or no; no unless they say yes.
fn asked(question: &str) -> Result<bool, CliError> {
    use io::Write as _;
    let _ = write!(anstream::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| CliError::new("cannot read your answer").because(error))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_for_a_path_and_a_content() {
        let root = std::env::temp_dir().join(format!("pegboard-trust-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let (file, state) = (root.join("pegboard.json"), root.join("state"));
        let state = state.to_str();
        fs::write(&file, r#"{"mcpServers": {"a": {"command": "run", "args": ["x"]}}}"#).expect("a file");
        let first = examine(&file).expect("it is read");
        assert!(!is_trusted(&first, state));
        trust(&first, state).expect("it is saved");
        assert!(is_trusted(&first, state));
        assert_eq!(list(state).expect("a list"), [first]);
        assert_eq!(programs(&file), ["a: run x"]);
        fs::write(&file, r#"{"mcpServers": {"a": {"command": "other"}}}"#).expect("a file");
        let second = examine(&file).expect("it is read");
        assert!(!is_trusted(&second, state), "another content");
        let copy = root.join("copy.json");
        fs::copy(&file, &copy).expect("a copy");
        trust(&second, state).expect("it is saved");
        assert!(!is_trusted(&examine(&copy).expect("it is read"), state), "another path");
        assert!(distrust(&file, state).expect("it is saved"));
        assert!(!is_trusted(&second, state));
        assert!(!distrust(&file, state).expect("it is saved"));
        let _ = fs::remove_dir_all(root);
    }
}
