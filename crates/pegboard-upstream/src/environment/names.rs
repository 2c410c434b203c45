//! The variables that servers inherit by default.

use pegboard_process::System;

/// Variables about where and how a program runs. `*` matches any text.
const COMMON: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM", "XDG_*"];

/// Proxy settings, which programs read in both cases. Their URLs can have a password; a server
/// that cannot reach the network without the proxy needs it.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Certificate authorities to trust.
const CERTIFICATES: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "DENO_CERT",
];

/// Variables that macOS programs expect in addition to [`COMMON`].
const MACOS: &[&str] = &["__CF_USER_TEXT_ENCODING", "COMMAND_MODE"];

/// Variables that Windows programs expect in addition to [`COMMON`]; without `SYSTEMROOT` most do
/// not start.
const WINDOWS: &[&str] = &[
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES*",
    "COMPUTERNAME",
    "COMSPEC",
    "DRIVERDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_*",
    "PROGRAMDATA",
    "PROGRAMFILES*",
    "PROGRAMW6432",
    "PSMODULEPATH",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN*",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Exceptions to the patterns above. The runtime folder has sockets such as Pegboard's control
/// socket; credentials for publishing are not needed for running.
const EXCEPTIONS: &[&str] = &["XDG_RUNTIME_DIR", "UV_PUBLISH_*"];

/// Package runners, with the variables that configure where packages come from and where they are
/// stored.
const RUNNERS: &[(&[&str], &[&str])] = &[
    (
        &["npx", "npm", "pnpm", "pnpx", "yarn", "yarnpkg", "corepack"],
        &["npm_config_*", "NPM_CONFIG_*", "pnpm_config_*", "PNPM_HOME", "YARN_*", "COREPACK_*"],
    ),
    (&["bun", "bunx"], &["BUN_*", "npm_config_*", "NPM_CONFIG_*"]),
    (&["uv", "uvx"], &["UV_*"]),
    (&["pip", "pip3", "pipx"], &["PIP_*", "PIPX_*"]),
    (&["deno"], &["DENO_*", "npm_config_*", "NPM_CONFIG_*"]),
    (
        &["docker", "podman", "nerdctl"],
        &[
            "DOCKER_HOST",
            "DOCKER_CONTEXT",
            "DOCKER_CONFIG",
            "DOCKER_CERT_PATH",
            "DOCKER_TLS",
            "DOCKER_TLS_VERIFY",
            "DOCKER_API_VERSION",
            "DOCKER_DEFAULT_PLATFORM",
            "CONTAINER_HOST",
            "CONTAINER_CONNECTION",
        ],
    ),
];

/// The variables that one server inherits by default.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefaultVariables {
    runner: &'static [&'static str],
}

impl DefaultVariables {
    /// Returns the variables of a server that is started with this command line.
    pub(super) fn of(command: &str, args: &[String]) -> Self {
        let program = program_name(command);
        // The usual way to start a `.cmd` file on Windows.
        let started = match args {
            [flag, started, ..] if program == "cmd" && flag.eq_ignore_ascii_case("/c") => program_name(started),
            _ => program,
        };
        let runner = RUNNERS.iter().find(|(programs, _)| programs.contains(&started.as_str()));
        Self { runner: runner.map_or(&[], |(_, settings)| settings) }
    }

    pub(super) fn contains(self, name: &str) -> bool {
        self.contains_on(System::current(), name)
    }

    fn contains_on(self, system: System, name: &str) -> bool {
        let platform = match system {
            System::Windows => WINDOWS,
            System::Mac => MACOS,
            System::Linux => &[],
        };
        let is_in = |patterns: &[&str]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
        let is_proxy = || PROXIES.iter().any(|proxy| name == *proxy || name == proxy.to_ascii_lowercase());
        let is_listed = [COMMON, CERTIFICATES, platform, self.runner].into_iter().any(is_in) || is_proxy();
        is_listed && !is_in(EXCEPTIONS)
    }
}

/// Returns the name of a program without its folder and without the extensions of Windows.
pub(super) fn program_name(command: &str) -> String {
    let file = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let ending = [".exe", ".cmd", ".bat", ".ps1"].iter().find_map(|ending| file.strip_suffix(ending));
    ending.map_or_else(|| file.clone(), str::to_owned)
}

/// Returns whether a name matches a pattern in which `*` stands for any text. Case is ignored only
/// if the system ignores it.
pub(super) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let ignores_case = System::current().ignores_case_of_variables();
    let fold = |byte: u8| if ignores_case { byte.to_ascii_uppercase() } else { byte };
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    // The last `*`, and the number of characters that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if fold(*byte) == fold(name[read]) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, covered)) = star else { return false };
                star = Some((place, covered + 1));
                (at, read) = (place + 1, covered + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        };
        check("GITHUB_TOKEN", "GITHUB_TOKEN", true);
        check("GITHUB_TOKEN", "GITHUB_TOKEN_2", false);
        check("GITHUB_*", "GITHUB_TOKEN", true);
        check("GITHUB_*", "GITHUB_", true);
        check("GITHUB_*", "GITHUB", false);
        check("*_TOKEN", "GITHUB_TOKEN_TOKEN", true);
        check("*_TOKEN", "GITHUB_TOKENS", false);
        check("A*B*C", "AxBxBxC", true);
        check("A*B*C", "AxCxB", false);
        check("*", "", true);
        check("", "A", false);
        check(&"*a".repeat(50), &"a".repeat(200), true);
    }

    #[test]
    fn settings_of_package_runners() {
        let check = |command: &str, args: &[&str], expected: &str| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            let list = DefaultVariables::of(command, &args);
            let names = ["npm_config_registry", "NPM_CONFIG_CACHE", "BUN_INSTALL", "UV_INDEX_URL", "PIP_INDEX_URL"];
            let found: Vec<&str> = names.into_iter().filter(|name| list.contains(name)).collect();
            assert_eq!(found.join(" "), expected, "{command}");
        };
        let npm = "npm_config_registry NPM_CONFIG_CACHE";
        check("npx", &["-y", "x"], npm);
        check("/opt/node/bin/npx", &[], npm);
        check("C:\\nodejs\\NPX.CMD", &[], npm);
        check("cmd", &["/c", "npx", "-y", "x"], npm);
        check("cmd.exe", &["/C", "npx.cmd"], npm);
        check("bunx", &[], &format!("{npm} BUN_INSTALL"));
        check("uvx", &[], "UV_INDEX_URL");
        check("pipx", &["run", "x"], "PIP_INDEX_URL");
        for other in ["node", "python", "npx-of-mine", "sh", ""] {
            check(other, &["/c", "npx"], "");
        }
    }

    #[test]
    fn each_system_has_variables_of_its_own() {
        let list = DefaultVariables::of("x", &[]);
        let check = |name: &str, expected: [bool; 3]| {
            let systems = [System::Linux, System::Mac, System::Windows];
            assert_eq!(systems.map(|system| list.contains_on(system, name)), expected, "{name}");
        };
        check("PATH", [true, true, true]);
        check("SYSTEMROOT", [false, false, true]);
        check("__CF_USER_TEXT_ENCODING", [false, true, false]);
    }

    #[test]
    fn the_short_list() {
        let list = DefaultVariables::of("uvx", &[]);
        for name in ["PATH", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "NO_PROXY", "CURL_CA_BUNDLE", "UV_CACHE_DIR"] {
            assert!(list.contains(name), "{name}");
        }
        for name in
            ["XDG_RUNTIME_DIR", "UV_PUBLISH_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PATHS", "Http_Proxy"]
        {
            assert!(!list.contains(name), "{name}");
        }
    }
}
