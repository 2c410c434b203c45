//! Gateways behind gateways: how deeply they may be nested, and server entries that would start the same
//! gateway again.

use std::path::{Path, PathBuf};

use pegboard_upstream::{
    config::{ServerConfig, TransportConfig},
    environment,
};

use crate::{error::CliError, source::Source};

/// Maximum number of nested gateways. A gateway for a team behind a gateway for a person is useful;
/// a longer chain is a configuration that starts itself.
const MAX_CHAIN: u32 = 3;

/// The reason why a server entry that is the same gateway is not started.
pub(crate) const SERVES_ITSELF: &str = "the server is Pegboard itself with the same configuration";

/// Checks that this process may start servers.
///
/// # Errors
/// If too many nested gateways led to this process.
pub(crate) fn check_depth() -> Result<(), CliError> {
    let depth = environment::gateway_depth();
    if depth < MAX_CHAIN {
        return Ok(());
    }
    Err(CliError::new(format!("{depth} gateways have started one another to get here, the most are {MAX_CHAIN}"))
        .hint("a server of the configuration starts Pegboard again: remove that entry (`pegboard doctor` finds it)"))
}

/// Marks the servers that would start this very gateway again as failed.
pub(crate) fn refuse_itself(servers: &mut [ServerConfig], config: &Path) {
    for server in servers {
        if let TransportConfig::Stdio { command, args, env, cwd } = &server.transport {
            let named = env.iter().find(|(name, _)| name == "PEGBOARD_CONFIG").map(|(_, value)| value.expose());
            if serves(command, args, named, cwd.as_deref(), config) {
                server.missing = Some(format!("{SERVES_ITSELF}; remove the entry"));
            }
        }
    }
}

/// Returns whether a command line starts a gateway with the configuration at `config`. `named` is
/// its `PEGBOARD_CONFIG`. A command line that names a file by other means is not recognised; the
/// limit on nested gateways ends it.
pub(crate) fn serves(command: &str, args: &[String], named: Option<&str>, cwd: Option<&Path>, config: &Path) -> bool {
    // The words of a script for a shell, too.
    let words = std::iter::once(command).chain(args.iter().flat_map(|arg| arg.split_whitespace()));
    let words: Vec<&str> = words.map(|word| word.trim_matches(['"', '\'', ';'])).collect();
    let Some(at) = words.windows(2).position(|pair| is_our_program(pair[0]) && pair[1] == "serve") else {
        return false;
    };
    let words = &words[at + 2..];
    if words.contains(&"--demo") {
        return false;
    }
    let folder = cwd.map(Path::to_owned).or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    let config = config.canonicalize().or_else(|_| std::path::absolute(config)).unwrap_or_else(|_| config.to_owned());
    // A configuration that is about to be written is not there yet.
    let file = |word: &str| Some(folder.join(word)).filter(|path| path.is_file() || *path == config);
    let word = |word: &&str| file(word.strip_prefix("--config=").unwrap_or(word));
    let files: Vec<PathBuf> = words.iter().filter_map(word).collect();
    let is_same = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone()) == config;
    match (files.is_empty(), named.and_then(file)) {
        (false, _) => files.iter().any(is_same),
        (true, Some(named)) => is_same(&named),
        (true, None) => Source::found_from(&folder).path().map(Path::to_owned).is_some_and(|path| is_same(&path)),
    }
}

/// Returns whether a word of a command line is Pegboard's own program.
pub(crate) fn is_our_program(word: &str) -> bool {
    let file = word.rsplit(['/', '\\']).next().unwrap_or(word);
    file == "pegboard" || file.eq_ignore_ascii_case("pegboard.exe")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_same_gateway_is_recognised() {
        let root = std::env::temp_dir().join(format!("pegboard-nesting-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let (own, other) = (root.join("own.json"), root.join("other.json"));
        fs::write(&own, "{}").expect("a file");
        fs::write(&other, "{}").expect("a file");
        let check = |command: &str, args: &[&str], named: Option<&str>, expected: bool| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(serves(command, &args, named, Some(&root), &own), expected, "{command} {args:?} {named:?}");
        };
        let own_path = own.to_str().expect("a path");
        check("pegboard", &["serve", "--stdio", "own.json"], None, true);
        check("/opt/pegboard", &["serve", "--stdio", own_path], None, true);
        check("pegboard", &["serve", "--config", "own.json", "--stdio"], None, true);
        check("pegboard", &["serve", "--config=own.json"], None, true);
        check("pegboard", &["serve", "--stdio"], Some("own.json"), true);
        check("sh", &["-c", "exec pegboard serve --stdio 'own.json'"], None, true);
        check("env", &["A=1", "pegboard", "serve", "own.json"], None, true);
        check("pegboard", &["serve", "--stdio", "other.json"], None, false);
        check("pegboard", &["serve", "--stdio", "other.json"], Some("own.json"), false);
        check("pegboard", &["serve", "--demo"], Some("own.json"), false);
        check("pegboard", &["catalog", "own.json"], None, false);
        check("pegboard-like", &["serve", "own.json"], None, false);
        fs::rename(&own, root.join("pegboard.json")).expect("a file");
        let found = serves("pegboard", &["serve".to_owned()], None, Some(&root), &root.join("pegboard.json"));
        assert!(found, "a file that is found in the folder");
        let _ = fs::remove_dir_all(root);
    }
}
