//! MCP clients: where each keeps its configuration, in which format, and how its server entries
//! convert to entries of Pegboard's configuration and back.

pub(crate) mod config_files;
pub(crate) mod edit;
pub(crate) mod hooks;
pub(crate) mod llm;
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

/// An MCP client.
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
    /// All clients, in the order in which they are listed.
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

    /// Returns the display name.
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

    /// Returns the name on the command line, which is also the suffix for names that would occur
    /// twice.
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

    /// Returns the key under which the client keeps its servers.
    pub(crate) fn servers_key(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            _ => "mcpServers",
        }
    }

    /// Returns the syntax of the client's files.
    pub(crate) fn syntax(self) -> Syntax {
        match self {
            Self::Codex => Syntax::Toml,
            _ => Syntax::Json,
        }
    }
}

/// Syntax of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with comments if the client accepts them.
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
