//! Configuration files that the user trusts to start programs.
//!
//! A `pegboard.json` comes with a cloned repository or an unpacked archive as easily as from the
//! user. So a file that was found in a folder starts nothing until the user trusts it, for its path
//! and its content: after a change the user is asked again.

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use pegboard_config::document::{Document, Problems};
use pegboard_state::{FileKind, LoadError, Store, digest};
use pegboard_upstream::config::{ServerConfig, TransportConfig};
use serde::{Deserialize, Serialize};

use crate::{
    clients::show::printable_line,
    config::{Content, state::StateFolder},
    error::{CliError, say},
    terminal_text,
};

/// The kind of files in the store.
const KIND: FileKind = FileKind { name: "trust", version: 1, max_bytes: 64 << 10 };

/// A trusted file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Trusted {
    pub(crate) path: PathBuf,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl Trusted {
    /// Returns the entry for a file with this content.
    ///
    /// # Errors
    /// If the path does not exist.
    pub(crate) fn of(path: &Path, content: &[u8]) -> Result<Self, CliError> {
        let path = fs::canonicalize(path).map_err(|error| CliError::read(path, error))?;
        Ok(Self { path, sha256: hex(&digest(content)) })
    }

    /// Returns the state of the file since it was trusted.
    pub(crate) fn state(&self) -> TrustState {
        if !self.path.is_file() {
            return TrustState::Missing;
        }
        match Content::load(&self.path).and_then(|content| Self::of(&self.path, content.bytes())) {
            Ok(now) if now == *self => TrustState::Unchanged,
            Ok(_) => TrustState::Changed,
            Err(_) => TrustState::Missing,
        }
    }
}

/// The state of a file since it was trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustState {
    /// The content is the same: the file is trusted.
    Unchanged,
    /// The content is different: the file is not trusted.
    Changed,
    /// The file does not exist or cannot be read.
    Missing,
}

impl TrustState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "trusted",
            Self::Changed => "changed",
            Self::Missing => "missing",
        }
    }
}

/// Checks that a file is trusted with this content. On a terminal the user is asked.
///
/// # Errors
/// If it is not trusted.
pub(crate) fn check(content: &Content, state: Option<&str>) -> Result<(), CliError> {
    let now = Trusted::of(content.path(), content.bytes())?;
    if is_trusted(&now, state) {
        return Ok(());
    }
    let shown = terminal_text::clean(&now.path.display().to_string());
    let reason = if was_trusted(&now, state) { "was changed after you trusted it" } else { "is not trusted" };
    let refused = || {
        CliError::new(format!("`{shown}` {reason}, so nothing in it is used"))
            .hint("read it, then run `pegboard trust`; `--config` names a file for one run")
    };
    if !can_ask() {
        return Err(refused());
    }
    let programs = programs(content)?;
    say(&format!("`{shown}` was found in this folder and {reason}. It starts or connects to:"));
    programs.iter().for_each(|line| say(&format!("  {line}")));
    if !ask("Trust this file?")? {
        return Err(refused());
    }
    trust(&now, state)
}

/// Returns whether a file is trusted with this content, without asking the user.
pub(crate) fn is_content_trusted(content: &Content, state: Option<&str>) -> bool {
    Trusted::of(content.path(), content.bytes()).is_ok_and(|now| is_trusted(&now, state))
}

/// Returns whether a file is trusted with its present content, without asking the user.
pub(crate) fn is_file_trusted(path: &Path, state: Option<&str>) -> bool {
    path.is_file() && Content::load(path).is_ok_and(|content| is_content_trusted(&content, state))
}

/// Trusts a file with this content.
///
/// # Errors
/// If that cannot be saved.
pub(crate) fn trust(file: &Trusted, state: Option<&str>) -> Result<(), CliError> {
    let store = open(state)?.ok_or_else(|| {
        CliError::new("no state folder to save trusted files in")
            .hint("name one with `--state`, or name the file with `--config`")
    })?;
    let body = serde_json::to_vec(file).map_err(|error| CliError::new("cannot save trust").because(error))?;
    store.save(&name_of(&file.path), &body).map_err(|error| CliError::new("cannot save trust").because(error))
}

/// Stops trusting a file, and returns whether it was trusted.
///
/// # Errors
/// If that cannot be saved.
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

/// Returns all trusted files, by path.
///
/// # Errors
/// If they cannot be listed.
pub(crate) fn list(state: Option<&str>) -> Result<Vec<Trusted>, CliError> {
    let Some(store) = open(state)? else { return Ok(Vec::new()) };
    let names = store.names().map_err(|error| CliError::new("cannot list trusted files").because(error))?;
    let mut files: Vec<Trusted> = names.iter().filter_map(|(name, _)| load(&store, name)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

pub(crate) fn is_trusted(now: &Trusted, state: Option<&str>) -> bool {
    let store = open(state).ok().flatten();
    store.is_some_and(|store| load(&store, &name_of(&now.path)).as_ref() == Some(now))
}

/// Returns whether the file was trusted with another content.
fn was_trusted(now: &Trusted, state: Option<&str>) -> bool {
    let store = open(state).ok().flatten();
    store.is_some_and(|store| load(&store, &name_of(&now.path)).is_some_and(|then| then != *now))
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

/// Opens the store below the state folder. The file itself cannot choose that folder.
fn open(state: Option<&str>) -> Result<Option<Store>, CliError> {
    // Nor has the working folder, which may have come with the file.
    let given = state.filter(|state| *state == "none" || Path::new(state).is_absolute());
    let Some(folder) = StateFolder::Usual.resolve(given) else { return Ok(None) };
    let folder = folder.join("trusted");
    let store = Store::open_with_key(&folder, KIND);
    store.map(Some).map_err(|error| CliError::new(format!("cannot use `{}`", folder.display())).because(error))
}

/// Returns the name of an entry: paths can be longer than file names.
fn name_of(path: &Path) -> String {
    hex(&digest(path.as_os_str().as_encoded_bytes())[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the programs that a file starts and the addresses that it connects to, one per line and
/// complete, because the user decides about all of it.
///
/// # Errors
/// If it is not valid JSON: what cannot be shown cannot be trusted.
pub(crate) fn programs(content: &Content) -> Result<Vec<String>, CliError> {
    let mut invalid = Problems::default();
    let _ = Document::parse(content.text()?, &mut invalid);
    if let Some(problem) = invalid.lines().first() {
        return Err(CliError::new(format!("the file cannot be trusted: {}", printable_line(problem)))
            .hint("correct the file, then run `pegboard trust`"));
    }
    let (config, problems) = content.as_written()?;
    let mut lines: Vec<String> = config.servers.iter().map(program).collect();
    lines.extend(config.embeddings.map(|endpoint| format!("embeddings: {}", endpoint.url)));
    lines.extend(config.telemetry.endpoint.map(|endpoint| format!("telemetry: {endpoint}")));
    lines.extend(problems.lines().into_iter().map(|problem| format!("cannot be shown: {problem}")));
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    Ok(lines.iter().map(|line| printable_line(line)).collect())
}

fn program(server: &ServerConfig) -> String {
    let name = &server.name;
    let line = match &server.transport {
        TransportConfig::Stdio { command, args, env, cwd } => {
            let words: Vec<&str> = std::iter::once(command.as_str()).chain(args.iter().map(String::as_str)).collect();
            let mut line = words.join(" ");
            if let Some(cwd) = cwd {
                line.push_str(&format!(" (in {})", cwd.display()));
            }
            let variables: Vec<&str> = env.iter().map(|(key, _)| key.as_str()).collect();
            if !variables.is_empty() {
                line.push_str(&format!(" (sets {})", variables.join(", ")));
            }
            line
        }
        TransportConfig::Http { url, .. } => url.clone(),
        TransportConfig::Local(_) => "part of this program".to_owned(),
    };
    let state = if server.is_enabled { "" } else { " (disabled)" };
    format!("{name}: {line}{state}")
}

/// Returns whether a user can be asked on a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks the user a yes-or-no question; anything but yes is no.
pub(crate) fn ask(question: &str) -> Result<bool, CliError> {
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
        let examine = |path: &Path| Content::load(path).and_then(|content| Trusted::of(path, content.bytes()));
        let first = examine(&file).expect("it is read");
        assert!(!is_trusted(&first, state));
        trust(&first, state).expect("it is saved");
        assert!(is_trusted(&first, state));
        assert_eq!(list(state).expect("a list"), std::slice::from_ref(&first));
        assert_eq!(first.state(), TrustState::Unchanged);
        assert_eq!(programs(&Content::load(&file).expect("a file")).expect("servers"), ["a: run x"]);
        fs::write(&file, r#"{"mcpServers": {"a": {"command": "run""#).expect("a file");
        let error = programs(&Content::load(&file).expect("a file")).expect_err("what cannot be shown is not trusted");
        assert!(error.to_string().contains("not valid JSON"), "{error}");
        fs::write(&file, r#"{"mcpServers": {"a": {"command": "other"}}}"#).expect("a file");
        let second = examine(&file).expect("it is read");
        assert!(!is_trusted(&second, state), "another content");
        assert_eq!(first.state(), TrustState::Changed);
        let copy = root.join("copy.json");
        fs::copy(&file, &copy).expect("a copy");
        trust(&second, state).expect("it is saved");
        assert!(!is_trusted(&examine(&copy).expect("it is read"), state), "another path");
        assert!(distrust(&file, state).expect("it is saved"));
        assert!(!is_trusted(&second, state));
        assert!(!distrust(&file, state).expect("it is saved"));
        fs::remove_file(&file).expect("a file");
        assert_eq!(first.state(), TrustState::Missing);
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn everything_that_runs_is_shown() {
        let root = std::env::temp_dir().join(format!("pegboard-shown-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let file = root.join("pegboard.json");
        let long = format!("exec npx{}; touch x", " ".repeat(300));
        let config = serde_json::json!({
            "mcpServers": {"a": {"command": "sh", "args": ["-c", long], "env": {"LD_PRELOAD": "${X}"}}},
            "servers": {"b": {"command": "evil", "cwd": "/tmp"}},
            "mcp": {"servers": {"c": {"url": "https://${HOST}/mcp"}, "d": {"command": "off", "disabled": true}}},
            "pegboard": {"embeddings": {"url": "http://127.0.0.1:9/v1", "model": "m", "key": "${SECRET}"}},
        });
        fs::write(&file, config.to_string()).expect("a file");
        let shown = programs(&Content::load(&file).expect("a file")).expect("servers");
        let a = format!("a: sh -c {long} (sets LD_PRELOAD)");
        let expected = [
            a.as_str(),
            "b: evil (in /tmp)",
            "c: https://${HOST}/mcp",
            "d: off (disabled)",
            "embeddings: http://127.0.0.1:9/v1",
        ];
        assert_eq!(shown, expected);
        let _ = fs::remove_dir_all(root);
    }
}
