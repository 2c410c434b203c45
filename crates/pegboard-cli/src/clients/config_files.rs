//! Locations of the configuration files of MCP clients on each operating system.
//!
//! All of it follows from the system and the environment alone, so that the paths of every system
//! can be tested on any of them.

use std::path::{Path, PathBuf};

use pegboard_config::keys::Lookup;
pub(crate) use pegboard_process::System as Os;

use super::Client;

/// A configuration file in which a client may have servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigLocation {
    pub(crate) client: Client,
    pub(crate) path: PathBuf,
    /// The folder of the project that it belongs to; `None` for the user's file.
    pub(crate) project: Option<PathBuf>,
    /// The keys of the servers in the file.
    pub(crate) keys: &'static [&'static str],
}

/// The operating system and its environment.
#[derive(Clone, Copy)]
pub(crate) struct SystemEnvironment<'a> {
    pub(crate) os: Os,
    pub(crate) env: Lookup<'a>,
}

impl SystemEnvironment<'_> {
    /// Returns the home folder of the user, if it is known.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        let variable = if self.os == Os::Windows { "USERPROFILE" } else { "HOME" };
        self.variable(variable).map(PathBuf::from)
    }

    /// Returns a variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    /// Returns the folder for settings on this system.
    fn settings(&self) -> Option<PathBuf> {
        match self.os {
            Os::Linux => self.dot_config(),
            Os::Mac => Some(self.join(&self.home()?, &["Library", "Application Support"])),
            Os::Windows => match self.variable("APPDATA") {
                Some(folder) => Some(folder.into()),
                None => Some(self.join(&self.home()?, &["AppData", "Roaming"])),
            },
        }
    }

    /// Returns `~/.config`, or the folder in `XDG_CONFIG_HOME` if that is absolute.
    fn dot_config(&self) -> Option<PathBuf> {
        match self.variable("XDG_CONFIG_HOME").filter(|folder| folder.starts_with('/')) {
            Some(folder) => Some(folder.into()),
            None => Some(self.join(&self.home()?, &[".config"])),
        }
    }

    /// Joins `folder` and `parts` with the separator of the described system, which may not be this
    /// one.
    fn join(&self, folder: &Path, parts: &[&str]) -> PathBuf {
        let separator = if self.os == Os::Windows { '\\' } else { '/' };
        let mut path = folder.to_string_lossy().trim_end_matches(['/', separator]).to_owned();
        for part in parts {
            path.push(separator);
            path.push_str(part);
        }
        path.into()
    }

    /// Returns the default path of Pegboard's user configuration.
    pub(crate) fn own_configuration(&self) -> Option<PathBuf> {
        Some(self.join(&self.settings()?, &["pegboard", "pegboard.json"]))
    }

    /// Returns the user's file of OpenCode, which is in `~/.config` on every system.
    pub(crate) fn opencode_file(&self) -> Option<PathBuf> {
        match self.variable("OPENCODE_CONFIG") {
            Some(file) => Some(file.into()),
            None => Some(self.join(&self.dot_config()?, &["opencode", "opencode.json"])),
        }
    }

    /// Returns the file of `client` that applies to every project.
    pub(crate) fn user_file(&self, client: Client) -> Option<PathBuf> {
        let in_home = |parts: &[&str]| Some(self.join(&self.home()?, parts));
        let in_settings = |parts: &[&str]| Some(self.join(&self.settings()?, parts));
        let moved =
            |variable: &str, file: &str| self.variable(variable).map(|folder| self.join(Path::new(&folder), &[file]));
        match client {
            Client::ClaudeDesktop => in_settings(&["Claude", "claude_desktop_config.json"]),
            Client::ClaudeCode => moved("CLAUDE_CONFIG_DIR", ".claude.json").or_else(|| in_home(&[".claude.json"])),
            Client::Cursor => in_home(&[".cursor", "mcp.json"]),
            Client::Vscode => in_settings(&["Code", "User", "mcp.json"]),
            Client::Windsurf => in_home(&[".codeium", "windsurf", "mcp_config.json"]),
            Client::Codex => moved("CODEX_HOME", "config.toml").or_else(|| in_home(&[".codex", "config.toml"])),
            Client::Gemini => in_home(&[".gemini", "settings.json"]),
            // Zed is the one that does not follow the Mac's own way.
            Client::Zed if self.os == Os::Windows => in_settings(&["Zed", "settings.json"]),
            Client::Zed if self.os == Os::Mac => in_home(&[".config", "zed", "settings.json"]),
            Client::Zed => Some(self.join(&self.dot_config()?, &["zed", "settings.json"])),
        }
    }

    /// Returns the file of `client` that applies to the project in `folder`, if the client has
    /// project files.
    pub(crate) fn project_file(&self, client: Client, folder: &Path) -> Option<PathBuf> {
        let parts: &[&str] = match client {
            Client::ClaudeDesktop | Client::Windsurf => return None,
            Client::ClaudeCode => &[".mcp.json"],
            Client::Cursor => &[".cursor", "mcp.json"],
            Client::Vscode => &[".vscode", "mcp.json"],
            Client::Codex => &[".codex", "config.toml"],
            Client::Gemini => &[".gemini", "settings.json"],
            Client::Zed => &[".zed", "settings.json"],
        };
        Some(self.join(folder, parts))
    }

    /// Returns all files in which `client` may have servers: of the user, then of the project.
    pub(crate) fn places(&self, client: Client, project: Option<&Path>) -> Vec<ConfigLocation> {
        let keys = keys_of(client);
        let user = |path| ConfigLocation { client, path, project: None, keys };
        let mut places: Vec<ConfigLocation> = self.user_file(client).map(user).into_iter().collect();
        if client == Client::Vscode {
            places.extend(self.further_vscode());
        }
        if let Some(folder) = project
            && let Some(path) = self.project_file(client, folder)
        {
            places.push(ConfigLocation { client, path, project: Some(folder.to_owned()), keys });
        }
        // In the home folder, one file has two roles.
        places.dedup_by(|later, earlier| later.path == earlier.path);
        places
    }

    /// Returns the files of VS Code's preview, and the older settings files of both.
    fn further_vscode(&self) -> Vec<ConfigLocation> {
        let Some(settings) = self.settings() else { return Vec::new() };
        let place = |product: &str, file: &str, keys| ConfigLocation {
            client: Client::Vscode,
            path: self.join(&settings, &[product, "User", file]),
            project: None,
            keys,
        };
        vec![place("Code - Insiders", "mcp.json", &["servers"]), place("Code", "settings.json", &["mcp", "servers"])]
    }
}

/// Returns the keys of the servers in a file of `client`.
pub(crate) fn keys_of(client: Client) -> &'static [&'static str] {
    match client.servers_key() {
        "servers" => &["servers"],
        "mcp_servers" => &["mcp_servers"],
        "context_servers" => &["context_servers"],
        _ => &["mcpServers"],
    }
}

/// Returns the folder of the project that `folder` is part of: the nearest one under version
/// control, or itself.
pub(crate) fn project_of(folder: &Path) -> PathBuf {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists());
    root.unwrap_or(folder).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the files of all clients, one per line.
    fn check(os: Os, env: &[(&str, &str)], project: Option<&str>, expected: &[&str]) {
        let lookup =
            |name: &str| env.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned());
        let surroundings = SystemEnvironment { os, env: &lookup };
        let places = Client::ALL.iter().flat_map(|client| surroundings.places(*client, project.map(Path::new)));
        let paths: Vec<String> = places.map(|place| place.path.to_string_lossy().into_owned()).collect();
        assert_eq!(paths, expected);
    }

    #[test]
    fn linux() {
        check(
            Os::Linux,
            &[("HOME", "/home/ada")],
            None,
            &[
                "/home/ada/.config/Claude/claude_desktop_config.json",
                "/home/ada/.claude.json",
                "/home/ada/.cursor/mcp.json",
                "/home/ada/.config/Code/User/mcp.json",
                "/home/ada/.config/Code - Insiders/User/mcp.json",
                "/home/ada/.config/Code/User/settings.json",
                "/home/ada/.codeium/windsurf/mcp_config.json",
                "/home/ada/.codex/config.toml",
                "/home/ada/.gemini/settings.json",
                "/home/ada/.config/zed/settings.json",
            ],
        );
    }

    #[test]
    fn mac_os() {
        check(
            Os::Mac,
            &[("HOME", "/Users/ada"), ("XDG_CONFIG_HOME", "/elsewhere")],
            None,
            &[
                "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json",
                "/Users/ada/.claude.json",
                "/Users/ada/.cursor/mcp.json",
                "/Users/ada/Library/Application Support/Code/User/mcp.json",
                "/Users/ada/Library/Application Support/Code - Insiders/User/mcp.json",
                "/Users/ada/Library/Application Support/Code/User/settings.json",
                "/Users/ada/.codeium/windsurf/mcp_config.json",
                "/Users/ada/.codex/config.toml",
                "/Users/ada/.gemini/settings.json",
                "/Users/ada/.config/zed/settings.json",
            ],
        );
    }

    #[test]
    fn windows() {
        check(
            Os::Windows,
            &[("USERPROFILE", r"C:\Users\ada"), ("APPDATA", r"C:\Users\ada\AppData\Roaming")],
            None,
            &[
                r"C:\Users\ada\AppData\Roaming\Claude\claude_desktop_config.json",
                r"C:\Users\ada\.claude.json",
                r"C:\Users\ada\.cursor\mcp.json",
                r"C:\Users\ada\AppData\Roaming\Code\User\mcp.json",
                r"C:\Users\ada\AppData\Roaming\Code - Insiders\User\mcp.json",
                r"C:\Users\ada\AppData\Roaming\Code\User\settings.json",
                r"C:\Users\ada\.codeium\windsurf\mcp_config.json",
                r"C:\Users\ada\.codex\config.toml",
                r"C:\Users\ada\.gemini\settings.json",
                r"C:\Users\ada\AppData\Roaming\Zed\settings.json",
            ],
        );
    }

    #[test]
    fn projects_and_moved_folders() {
        check(
            Os::Linux,
            &[
                ("HOME", "/home/ada/"),
                ("XDG_CONFIG_HOME", "/cfg"),
                ("CODEX_HOME", "/codex"),
                ("CLAUDE_CONFIG_DIR", "/claude"),
            ],
            Some("/src/app"),
            &[
                "/cfg/Claude/claude_desktop_config.json",
                "/claude/.claude.json",
                "/src/app/.mcp.json",
                "/home/ada/.cursor/mcp.json",
                "/src/app/.cursor/mcp.json",
                "/cfg/Code/User/mcp.json",
                "/cfg/Code - Insiders/User/mcp.json",
                "/cfg/Code/User/settings.json",
                "/src/app/.vscode/mcp.json",
                "/home/ada/.codeium/windsurf/mcp_config.json",
                "/codex/config.toml",
                "/src/app/.codex/config.toml",
                "/home/ada/.gemini/settings.json",
                "/src/app/.gemini/settings.json",
                "/cfg/zed/settings.json",
                "/src/app/.zed/settings.json",
            ],
        );
    }

    #[test]
    fn nothing_is_guessed_without_a_home() {
        check(Os::Linux, &[("HOME", "")], None, &[]);
        check(
            Os::Windows,
            &[("APPDATA", r"D:\roaming\")],
            None,
            &[
                r"D:\roaming\Claude\claude_desktop_config.json",
                r"D:\roaming\Code\User\mcp.json",
                r"D:\roaming\Code - Insiders\User\mcp.json",
                r"D:\roaming\Code\User\settings.json",
                r"D:\roaming\Zed\settings.json",
            ],
        );
    }

    #[test]
    fn the_home_folder_as_a_project_is_read_once() {
        let lookup = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
        let surroundings = SystemEnvironment { os: Os::Linux, env: &lookup };
        assert_eq!(surroundings.places(Client::Cursor, Some(Path::new("/home/ada"))).len(), 1);
    }

    #[test]
    fn our_own_file() {
        let lookup = |name: &str| match name {
            "HOME" => Some("/home/ada".to_owned()),
            "USERPROFILE" => Some(r"C:\Users\ada".to_owned()),
            _ => None,
        };
        let own = |os| {
            let path = SystemEnvironment { os, env: &lookup }.own_configuration();
            path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
        };
        assert_eq!(own(Os::Linux), "/home/ada/.config/pegboard/pegboard.json");
        assert_eq!(own(Os::Mac), "/home/ada/Library/Application Support/pegboard/pegboard.json");
        assert_eq!(own(Os::Windows), r"C:\Users\ada\AppData\Roaming\pegboard\pegboard.json");
    }
}
