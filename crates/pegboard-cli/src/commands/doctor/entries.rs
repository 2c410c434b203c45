//! Checks of a server's entry that do not start it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use pegboard_core::Secret;
use pegboard_process::program::{self, ProgramError};
use pegboard_upstream::{
    config::{ServerConfig, TransportConfig},
    environment::search_path,
};

use super::finding::{Check, Finding};
use crate::nesting;

/// Checks how a server is reached.
pub(super) fn check_entry(server: &ServerConfig, config: &Path) -> Vec<Finding> {
    match &server.transport {
        TransportConfig::Stdio { command, args, cwd, env } => {
            let path = search_path(server);
            let named = env.iter().find(|(name, _)| name == "PEGBOARD_CONFIG").map(|(_, value)| value.expose());
            let program = Program { command, args, path: path.as_deref(), cwd: cwd.as_deref(), named };
            let checks = [
                program.folder(),
                program.command(),
                program.relative(),
                program.script(),
                program.docker(),
                program.itself(config),
            ];
            checks.into_iter().flatten().collect()
        }
        TransportConfig::Http { url, headers, .. } => plain_http(url, headers).into_iter().collect(),
        TransportConfig::Local(_) => Vec::new(),
    }
}

struct Program<'a> {
    command: &'a str,
    args: &'a [String],
    /// The server's `PATH`.
    path: Option<&'a OsStr>,
    cwd: Option<&'a Path>,
    /// The server's `PEGBOARD_CONFIG`.
    named: Option<&'a str>,
}

/// Programs that servers are usually started with, and where to get them.
const SOURCES: &[(&[&str], &str)] = &[
    (
        &["npx", "npm", "node", "pnpm", "yarn"],
        "it comes with Node.js: https://nodejs.org, or your package manager's `nodejs` and `npm`",
    ),
    (
        &["uvx", "uv"],
        "it comes with uv: `curl -LsSf https://astral.sh/uv/install.sh | sh`, `brew install uv` or `pipx install uv`",
    ),
    (&["docker"], "it comes with Docker: https://docs.docker.com/get-docker, or your package manager's `docker.io`"),
    (&["podman"], "it comes with your package manager's `podman`"),
    (
        &["python", "python3", "pip", "pipx"],
        "it comes with Python: https://www.python.org, or your package manager's `python3` and `pipx`",
    ),
    (&["bun", "bunx"], "it comes with Bun: https://bun.sh"),
    (&["deno"], "it comes with Deno: https://deno.com"),
    (&["go"], "it comes with Go: https://go.dev/dl"),
    (&["cargo"], "it comes with Rust: https://rustup.rs"),
    (&["dotnet", "dnx"], "it comes with .NET: https://dotnet.microsoft.com/download"),
    (&["java"], "it comes with a Java runtime, such as your package manager's `default-jre`"),
];

/// Programs whose first argument is a script.
const INTERPRETERS: &[&str] =
    &["node", "python", "python3", "bash", "sh", "ruby", "tsx", "ts-node", "bun", "php", "perl"];

/// Extensions of scripts.
const SCRIPTS: &[&str] = &["js", "mjs", "cjs", "ts", "mts", "py", "sh", "rb", "php", "pl"];

impl Program<'_> {
    /// Returns the name of the program without its folder.
    fn name(&self) -> &str {
        let name = self.command.rsplit(['/', '\\']).next().unwrap_or(self.command);
        name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
    }

    fn folder(&self) -> Option<Finding> {
        let cwd = self.cwd.filter(|cwd| !cwd.is_dir())?;
        let message = format!("the working directory `{}` does not exist", cwd.display());
        Some(Finding::error(Check::MissingFolder, message, "create the folder, or correct `cwd`"))
    }

    fn command(&self) -> Option<Finding> {
        let error = program::find(self.command, self.cwd, self.path).err()?;
        if let ProgramError::NotExecutable(file) = &error {
            let hint = match file.is_dir() {
                true => "it is a folder; name the program in it".to_owned(),
                false => {
                    format!("`chmod +x {}`, or name the program that runs it", crate::clients::show::quote_path(file))
                }
            };
            return Some(Finding::error(Check::NotExecutable, error.to_string(), hint));
        }
        Some(Finding::error(Check::MissingCommand, format!("there is {error}"), self.source()))
    }

    /// Returns how to install the missing program.
    fn source(&self) -> String {
        let first = self.command.split_whitespace().next().unwrap_or_default();
        if first != self.command && program::find(first, self.cwd, self.path).is_ok() {
            return format!("`command` is only the program: write `{first}` there, and the rest in `args`");
        }
        if self.command.starts_with("~/") {
            return "write `${HOME}/…`; `~` is not expanded".to_owned();
        }
        if self.command.contains('/') {
            return "correct the path, or install the program there".to_owned();
        }
        let source = SOURCES.iter().find(|(names, _)| names.contains(&self.name())).map(|(_, source)| *source);
        let is_elsewhere =
            "if it is installed, its folder is not in Pegboard's `PATH`: use the full path that `which` prints";
        match source {
            Some(source) => format!("{source}; {is_elsewhere}"),
            None => format!("install it; {is_elsewhere}"),
        }
    }

    /// Finds a path that depends on the folder in which Pegboard is started.
    fn relative(&self) -> Option<Finding> {
        if self.cwd.is_some() {
            return None;
        }
        let is_relative = |text: &str| Path::new(text).is_relative() && !text.starts_with('~');
        let command = Some(self.command).filter(|command| command.contains('/') && is_relative(command));
        let path = command.or_else(|| self.script_path().filter(|path| is_relative(path)))?;
        let message = format!("`{path}` is relative to the folder in which Pegboard is started, which can vary");
        let hint = "use an absolute path, or `${workspaceFolder}/…` for the folder of the configuration, or set `cwd`";
        Some(Finding::warning(Check::RelativePath, message, hint))
    }

    /// Returns the script that an interpreter runs.
    fn script_path(&self) -> Option<&str> {
        let first =
            self.args.iter().find(|arg| !arg.starts_with('-')).filter(|_| INTERPRETERS.contains(&self.name()))?;
        let ending = Path::new(first).extension()?.to_str()?;
        SCRIPTS.contains(&ending).then_some(first.as_str())
    }

    fn script(&self) -> Option<Finding> {
        let path = self.script_path()?;
        let file: PathBuf = self.cwd.unwrap_or(Path::new("")).join(path);
        // The name of a module may look like a file; only a name with a folder is certain.
        let is_missing = !file.exists() && (path.contains('/') || self.cwd.is_some());
        let hint = "build or install the server, or correct the path";
        is_missing.then(|| Finding::error(Check::MissingFile, format!("file `{}` not found", file.display()), hint))
    }

    /// Finds a container without standard input, or with a terminal.
    fn docker(&self) -> Option<Finding> {
        let is_run = ["docker", "podman"].contains(&self.name()) && self.args.iter().any(|arg| arg == "run");
        if !is_run {
            return None;
        }
        let cluster = |arg: &String, letter: char| {
            let letters =
                arg.strip_prefix('-').filter(|rest| !rest.is_empty() && rest.chars().all(|c| "itdPq".contains(c)));
            letters.is_some_and(|letters| letters.contains(letter))
        };
        let has = |letter: char, long: &str| self.args.iter().any(|arg| cluster(arg, letter) || arg == long);
        let name = self.name();
        if has('t', "--tty") {
            let message = format!("`{name} run -t` needs a terminal, but there is none");
            return Some(Finding::error(Check::DockerFlags, message, "remove `-t` and keep `-i`"));
        }
        if !has('i', "--interactive") {
            let message = format!("`{name} run` without `-i` closes the server's standard input");
            return Some(Finding::error(Check::DockerFlags, message, "add `-i` after `run`, preferably with `--rm`"));
        }
        None
    }

    /// Finds a server that is this very gateway.
    fn itself(&self, config: &Path) -> Option<Finding> {
        let hint = "remove the entry: a gateway cannot be its own server";
        nesting::serves(self.command, self.args, self.named, self.cwd, config)
            .then(|| Finding::error(Check::ServesItself, nesting::SERVES_ITSELF, hint))
    }
}

/// Finds credentials that are sent unencrypted.
fn plain_http(url: &str, headers: &[(String, Secret)]) -> Option<Finding> {
    let rest = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).and_then(|_| url.get(7..))?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default().rsplit('@').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_near = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let message = format!("credentials are sent to `{name}` over unencrypted `http://`");
    (!is_near && !headers.is_empty())
        .then(|| Finding::warning(Check::PlainHttp, message, "use `https://` if the server supports it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, args: &[&str], expected: &[&str]) {
        let server = ServerConfig::new(
            "x",
            TransportConfig::Stdio {
                command: command.to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                env: vec![("PATH".to_owned(), Secret::new("/bin:/usr/bin"))],
                cwd: None,
            },
        );
        let found = check_entry(&server, Path::new("/etc/passwd"));
        let shown: Vec<String> =
            found.iter().map(|found| format!("{}: {} ({})", found.check.name(), found.message, found.hint)).collect();
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (shown, expected) in shown.iter().zip(expected) {
            let is_fine = expected.split('|').all(|part| shown.contains(part));
            assert!(is_fine, "{shown}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn programs() {
        check("sh", &["-c", "true"], &[]);
        check("uvx-of-nobody", &[], &["missing-command: there is no program `uvx-of-nobody`|install it; if"]);
        check("sh -c true", &[], &["missing-command|write `sh` there"]);
        check("~/bin/x", &[], &["missing-command|${HOME}"]);
        check("/etc/passwd", &[], &["not-executable|chmod +x /etc/passwd"]);
        check("/etc", &[], &["not-executable|it is a folder"]);
        check("bin/x", &[], &["missing-command|correct the path", "relative-path: `bin/x`"]);
        check("sh", &["/nowhere/x.sh"], &["missing-file: file `/nowhere/x.sh` not found"]);
        check("sh", &["x/y.sh"], &["relative-path: `x/y.sh`", "missing-file"]);
    }

    #[test]
    fn where_programs_come_from() {
        for (name, expected) in [("npx", "Node.js"), ("uvx", "uv"), ("docker", "Docker"), ("x", "install it")] {
            let program = Program { command: name, args: &[], path: None, cwd: None, named: None };
            assert!(program.source().contains(expected), "{name}");
        }
    }

    #[test]
    fn containers() {
        let check = |args: &[&str], expected: Option<&str>| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let program = Program { command: "/opt/docker", args: &args, path: None, cwd: None, named: None };
            let found = program.docker().map(|found| found.hint);
            assert_eq!(found.is_some(), expected.is_some(), "{args:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{args:?}");
        };
        check(&["run", "-i", "--rm", "x"], None);
        check(&["run", "--interactive", "x"], None);
        check(&["exec", "x"], None);
        check(&["run", "--rm", "-e", "A", "x"], Some("add `-i`"));
        check(&["run", "-it", "x"], Some("remove `-t`"));
    }

    #[test]
    fn credentials_on_the_way() {
        let check = |url: &str, is_found: bool| {
            let headers = [("Authorization".to_owned(), Secret::new("Bearer x"))];
            assert_eq!(plain_http(url, &headers).is_some(), is_found, "{url}");
            assert!(plain_http(url, &[]).is_none());
        };
        check("http://example.com/mcp", true);
        check("HTTP://example.com:8080", true);
        check("https://example.com", false);
        check("http://localhost:3000/mcp", false);
        check("http://[::1]:3000/mcp", false);
        check("http://127.0.0.9", false);
    }
}
