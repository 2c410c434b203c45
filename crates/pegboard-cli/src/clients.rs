//! What is known of MCP clients: where each keeps its configuration, how it writes servers
//! there, and how that becomes a server of our own configuration, or the other way round.

pub(crate) mod config_files;
pub(crate) mod edit;
pub(crate) mod hooks;
pub(crate) mod pegboard_entry;
pub(crate) mod read;
pub(crate) mod secrets;
pub(crate) mod sections;
pub(crate) mod server;
pub(crate) mod show;
mod translate;
pub(crate) mod variables;
pub(crate) mod write;

use clap::ValueEnum;

/// A program that uses MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Client {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Windsurf
    Windsurf,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Zed
    Zed,
}

impl Client {
    /// All of them, in the order in which they are shown and asked.
    pub(crate) const ALL: [Self; 8] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::Vscode,
        Self::Windsurf,
        Self::Codex,
        Self::Gemini,
        Self::Zed,
    ];

    /// What people call it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Zed => "Zed",
        }
    }

    /// What it is called on the command line, and behind names that would be there twice.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Zed => "zed",
        }
    }

    /// The keys under which it keeps servers by name.
    pub(crate) fn servers_key(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            _ => "mcpServers",
        }
    }

    /// How its files are written.
    pub(crate) fn syntax(self) -> Syntax {
        match self {
            Self::Codex => Syntax::Toml,
            _ => Syntax::Json,
        }
    }
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with comments where the client takes them.
    Json,
    /// TOML.
    Toml,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_one_name() {
        for client in Client::ALL {
            assert_eq!(client.to_possible_value().expect("a value").get_name(), client.id());
        }
        assert_eq!(Client::ALL, Client::value_variants());
    }
}
