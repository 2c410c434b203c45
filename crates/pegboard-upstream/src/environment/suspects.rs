//! Which withheld variables may be the reason that a server fails.

use std::collections::BTreeSet;

use super::names::program_name;
use crate::config::{ServerConfig, TransportConfig};

/// Names that are reported at most.
const MOST: usize = 5;

/// Shorter words occur in names by chance.
const SHORTEST: usize = 3;

/// Words in names of servers, programs and variables that do not connect the one with the other.
const COMMONPLACE: &[&str] = &[
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

/// The withheld variables that a server which failed may lack: those that its own output names;
/// without any, and where it failed to start, those that share a word with its name or package.
pub(crate) fn suspects(server: &ServerConfig, withheld: &[String], output: &str, has_started: bool) -> Vec<String> {
    let words: BTreeSet<&str> =
        output.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| is_telling(word)).collect();
    let named = withheld.iter().filter(|name| words.contains(name.as_str()));
    let named: Vec<String> = named.take(MOST).cloned().collect();
    if !named.is_empty() || has_started {
        return named;
    }
    let own = words_of_server(server);
    let is_related = |name: &&String| words_of(name).any(|word| own.contains(&word));
    withheld.iter().filter(is_related).take(MOST).cloned().collect()
}

/// Whether a word of an output can be meant as the name of a variable.
fn is_telling(word: &str) -> bool {
    word.len() >= SHORTEST && word.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// The words by which a server is known: its name, its program, and the packages in its
/// arguments.
fn words_of_server(server: &ServerConfig) -> BTreeSet<String> {
    let mut words: BTreeSet<String> = words_of(&server.name).collect();
    if let TransportConfig::Stdio { command, args, .. } = &server.transport {
        words.extend(words_of(&program_name(command)));
        // A flag's value, a path or an address may hold anything.
        let is_package = |arg: &&String| !arg.starts_with(['-', '/', '.', '~']) && !arg.contains([':', '=', '\\']);
        words.extend(args.iter().filter(is_package).flat_map(|arg| words_of(arg)));
    }
    words
}

/// The words of a name in lower case, commonplace ones left out.
fn words_of(name: &str) -> impl Iterator<Item = String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    words.filter(|word| word.len() >= SHORTEST && !COMMONPLACE.contains(&word.as_str()))
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
            let found = suspects(&ServerConfig::new(name, transport), &withheld, output, has_started);
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
