//! The two eras of MCP, and what belongs to which.

/// The versions with `initialize` and sessions, newest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The version without either.
pub const MODERN_VERSION: &str = "2026-07-28";

/// Keys of `_meta` in every modern message.
pub mod meta {
    /// The version that a request is made in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What the client can be asked for.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Who the client is.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// From which level on the client wants log messages.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Which subscription a notification belongs to.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
}

/// Which rules a connection follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize`, sessions, requests in both directions.
    Legacy,
    /// 2026-07-28: every request stands alone.
    Modern,
}
