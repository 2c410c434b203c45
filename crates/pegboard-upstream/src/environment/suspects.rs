//! Finds withheld variables that may be the reason why a server fails.

use std::collections::BTreeSet;

use super::names::program_name;
use crate::config::{ServerConfig, TransportConfig};

/// Maximum number of reported names.
const MAX_NAMES: usize = 5;

/// Minimum length of a word; shorter ones occur in names by chance.
const MIN_WORD_LENGTH: usize = 3;

/// Common words in names of servers, programs and variables that do not relate them.
const COMMON_WORDS: &[&str] = &[
    "access",
    "api",
    "app",
    "auth",
    "base",
    "bin",
    "cache",
    "cli",
    "client",
    "cmd",
    "com",
    "config",
    "data",
    "debug",
    "default",
    "dir",
    "env",
    "exe",
    "file",
    "files",
    "home",
    "host",
    "http",
    "https",
    "key",
    "latest",
    "lib",
    "local",
    "log",
    "mcp",
    "mode",
    "modelcontextprotocol",
    "name",
    "node",
    "npm",
    "npx",
    "opt",
    "org",
    "password",
    "path",
    "port",
    "program",
    "python",
    "root",
    "run",
    "secret",
    "server",
    "servers",
    "session",
    "src",
    "stdio",
    "test",
    "tmp",
    "token",
    "tool",
    "tools",
    "url",
    "user",
    "usr",
    "uvx",
    "version",
];

/// Returns the withheld variables that a failed server may need: those that its output names, or,
/// if there are none and it failed to start, those that share a word with its name or package.
pub(crate) fn find_suspects(
    server: &ServerConfig,
    withheld: &[String],
    output: &str,
    has_started: bool,
) -> Vec<String> {
    let words: BTreeSet<&str> =
        output.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| is_variable_name(word)).collect();
    let named = withheld.iter().filter(|name| words.contains(name.as_str()));
    let named: Vec<String> = named.take(MAX_NAMES).cloned().collect();
    if !named.is_empty() || has_started {
        return named;
    }
    let own = words_of_server(server);
    let is_related = |name: &&String| words_of(name).any(|word| own.contains(&word));
    withheld.iter().filter(is_related).take(MAX_NAMES).cloned().collect()
}

/// Returns whether a word of an output looks like the name of a variable.
fn is_variable_name(word: &str) -> bool {
    word.len() >= MIN_WORD_LENGTH && word.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Returns the words of a server's name, its program, and the packages in its arguments.
fn words_of_server(server: &ServerConfig) -> BTreeSet<String> {
    let mut words: BTreeSet<String> = words_of(&server.name).collect();
    if let TransportConfig::Stdio { command, args, .. } = &server.transport {
        words.extend(words_of(&program_name(command)));
        // The value of a flag, a path or a URL may contain anything.
        let is_package = |arg: &&String| !arg.starts_with(['-', '/', '.', '~']) && !arg.contains([':', '=', '\\']);
        words.extend(args.iter().filter(is_package).flat_map(|arg| words_of(arg)));
    }
    words
}

/// Returns the words of a name in lower case, without common ones.
fn words_of(name: &str) -> impl Iterator<Item = String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    words.filter(|word| word.len() >= MIN_WORD_LENGTH && !COMMON_WORDS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspected_variables() {
        let withheld = ["API_KEY", "DISPLAY", "GITHUB_TOKEN", "MCP_SERVER_TOKEN", "NOTION_KEY"].map(str::to_owned);
        let check = |name: &str, args: &[&str], output: &str, has_started: bool, expected: &[&str]| {
            let args = args.iter().map(|&arg| arg.to_owned()).collect();
            let transport =
                TransportConfig::Stdio { command: "/usr/bin/npx".to_owned(), args, env: Vec::new(), cwd: None };
            let found = find_suspects(&ServerConfig::new(name, transport), &withheld, output, has_started);
            assert_eq!(found, expected, "{name} {output}");
        };
        check("x", &[], "Error: GITHUB_TOKEN is required", false, &["GITHUB_TOKEN"]);
        check("x", &[], "set $NOTION_KEY or ${API_KEY}!", false, &["API_KEY", "NOTION_KEY"]);
        check("x", &[], "GITHUB_TOKENS, MY_API_KEY, github_token", false, &[]);
        check("github", &[], "it failed", false, &["GITHUB_TOKEN"]);
        check("x", &["-y", "@modelcontextprotocol/server-github"], "", false, &["GITHUB_TOKEN"]);
        check("x", &["--key=notion", "/srv/notion", "https://notion.example"], "", false, &[]);
        // The server's output takes precedence over its name.
        check("github", &[], "no DISPLAY", false, &["DISPLAY"]);
        check("mcp-server", &["mcp", "token", "api", "key"], "", false, &[]);
        // A server that has run is not suspected by its name alone.
        check("github", &[], "it failed", true, &[]);
        check("github", &[], "GITHUB_TOKEN has expired", true, &["GITHUB_TOKEN"]);
    }
}
