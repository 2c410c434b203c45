//! Where a server comes from.

use std::{fmt, path::Path};

use super::TransportConfig;

/// The package, the command line or the host that a server comes from. Two servers of one origin
/// are the same software, or belong to the same party.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerOrigin(Vec<String>);

impl fmt::Debug for ServerOrigin {
    // A command line may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOrigin").finish_non_exhaustive()
    }
}

impl TransportConfig {
    /// Returns the origin of the server; `None` for a server inside this process.
    pub fn origin(&self) -> Option<ServerOrigin> {
        let origin = match self {
            Self::Stdio { command, args, cwd, .. } => {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                package(command, &args).unwrap_or_else(|| {
                    // Anything may be a wrapper, and only the whole line names the server behind it.
                    let folder = cwd.as_ref().map(|folder| folder.to_string_lossy().into_owned());
                    let line = [command.as_str()].into_iter().chain(args).map(str::to_owned);
                    ["command".to_owned()].into_iter().chain(line).chain(folder).collect()
                })
            }
            Self::Http { url, .. } => vec!["host".to_owned(), host(url)],
            Self::Local(_) => return None,
        };
        Some(ServerOrigin(origin))
    }
}

/// Options of package runners that do not change which package runs.
const NEUTRAL_OPTIONS: [&str; 12] = [
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "--silent",
    "--bun",
    "--offline",
    "--prefer-offline",
    "--prefer-online",
    "--isolated",
    "--no-cache",
    "--refresh",
];

/// Returns the registry and the package that a command line runs, and the hosts in its arguments:
/// some packages connect to another server. `None` if the command line is not understood in full.
fn package(command: &str, args: &[&str]) -> Option<Vec<String>> {
    let program = Path::new(command.rsplit('\\').next()?).file_name()?.to_str()?.to_lowercase();
    let program = program.trim_end_matches(".exe").trim_end_matches(".cmd");
    let (registry, args) = match (program, args) {
        ("cmd", ["/c" | "/C", command, rest @ ..]) => return package(command, rest),
        ("npx" | "bunx" | "pnpx", args)
        | ("npm", ["exec" | "x", args @ ..])
        | ("pnpm" | "yarn", ["dlx", args @ ..])
        | ("bun", ["x", args @ ..]) => ("npm", args),
        ("uvx", args) | ("uv", ["tool", "run", args @ ..]) | ("pipx", ["run", args @ ..]) => ("pypi", args),
        _ => return None,
    };
    let mut args = args.iter();
    let package = loop {
        match (registry, *args.next()?) {
            ("npm", "-p" | "--package") | ("pypi", "--from" | "--spec") => break *args.next()?,
            (_, option) if NEUTRAL_OPTIONS.contains(&option) || option == "--" => {}
            (_, option) if option.starts_with('-') => return None,
            (_, package) => break package,
        }
    };
    let hosts = args.filter(|arg| arg.contains("://")).map(|arg| host(arg));
    let name = [registry.to_owned(), without_version(registry, package).to_lowercase()];
    Some(name.into_iter().chain(hosts).collect())
}

/// Returns the name of a package. Addresses and paths are returned as they are.
fn without_version<'a>(registry: &str, package: &'a str) -> &'a str {
    if package.contains(':') || package.starts_with(['.', '/']) {
        return package;
    }
    let end = match registry {
        // The name of a package in a scope begins with the sign.
        "npm" => package.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at),
        _ => package.find(['@', '[', '=', '<', '>', '~', '!', ' ']),
    };
    &package[..end.unwrap_or(package.len())]
}

/// Returns the host and the port of a URL, or of the URL in an argument.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default().to_lowercase();
    let default = match scheme.rsplit('=').next().unwrap_or_default().to_lowercase().as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    host.strip_suffix(default).unwrap_or(&host).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HttpKind;

    fn program(line: &str) -> ServerOrigin {
        let mut words = line.split(' ').map(str::to_owned);
        let command = words.next().expect("a program");
        let transport = TransportConfig::Stdio { command, args: words.collect(), env: Vec::new(), cwd: None };
        transport.origin().expect("an origin")
    }

    fn remote(url: &str) -> ServerOrigin {
        let transport = TransportConfig::Http { url: url.to_owned(), headers: Vec::new(), kind: HttpKind::Auto };
        transport.origin().expect("an origin")
    }

    #[test]
    fn packages() {
        let check = |one: &str, other: &str, is_same: bool| {
            assert_eq!(program(one) == program(other), is_same, "{one} | {other}");
        };
        check("npx -y @acme/mail", "npx @acme/mail@1.2.3 --account b", true);
        check("npx -y @acme/mail", "cmd /c npx.cmd -y @acme/mail", true);
        check("npx -y @acme/mail", "/opt/bin/npm exec -- @acme/mail", true);
        check("npx -y @acme/mail", "npx -y @evil/mail", false);
        check("npx -y @acme/mail", "npx -p @evil/mail @acme/mail", false);
        check("npx -y mail", "uvx mail", false);
        check("uvx acme-mail", "uv tool run --from acme-mail==1.0 mail", true);
        check("uvx acme-mail[web]", "uvx acme-mail>=2", true);
        check("uvx --from git+https://a/x mail", "uvx --from git+https://b/x mail", false);
        // An option that is not known, and packages that connect to another server.
        check("uvx --index-url https://evil acme-mail", "uvx acme-mail", false);
        check("npx -y mcp-remote https://a.example/mcp", "npx mcp-remote https://A.example/sse", true);
        check("npx -y mcp-remote https://a.example/mcp", "npx -y mcp-remote https://b.example/mcp", false);
        // Other command lines count as a whole.
        check("node a.js", "node a.js", true);
        check("node a.js", "node b.js", false);
        check("docker run -i acme/mail", "docker run -i evil/mail", false);
        check("npx", "npx", true);
    }

    #[test]
    fn hosts() {
        let check = |one: &str, other: &str, is_same: bool| {
            assert_eq!(remote(one) == remote(other), is_same, "{one} | {other}");
        };
        check("https://A.example/mcp", "https://key@a.example:443/other?x", true);
        check("https://a.example/mcp", "https://a.example:8443/mcp", false);
        check("https://a.example/mcp", "https://a.example.evil/mcp", false);
        assert_ne!(remote("https://a.example"), program("a.example"));
    }
}
