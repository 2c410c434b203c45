//! The configuration of servers.

pub mod breaker;
pub mod file;
pub mod inherit;
mod oauth;
mod origin;
pub mod servers;
mod tools;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use pegboard_core::{Secret, breaker::BreakerSettings};
use pegboard_mcp::era::Era;
use pegboard_process::supervise::ProcessNamespace;

pub use self::{
    origin::ServerOrigin,
    tools::{AlwaysLoad, ToolOverride},
};
use crate::{
    environment::{InheritEnv, ReservedVariables},
    transport::local::LocalServer,
};

/// The HTTP transport of a remote server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, with HTTP+SSE as the fallback.
    #[default]
    Auto,
    /// Streamable HTTP only.
    Streamable,
    /// HTTP+SSE of 2024-11-05 only.
    Sse,
}

/// How to connect to a server.
#[derive(Clone, Debug)]
pub enum TransportConfig {
    /// A child process with messages on its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its own variables, which take precedence over inherited ones.
        env: Vec<(String, Secret)>,
        /// Its working directory.
        cwd: Option<PathBuf>,
    },
    /// A remote server.
    Http {
        /// The endpoint.
        url: String,
        /// Headers of every request, including `Authorization`.
        headers: Vec<(String, Secret)>,
        /// The transport.
        kind: HttpKind,
    },
    /// A server inside this process.
    Local(Arc<dyn LocalServer>),
}

/// Default idle time after which a lazy server is stopped.
pub const LAZY_IDLE: Duration = Duration::from_secs(300);

/// The timeouts of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of the server until its lists are complete.
    pub connect: Duration,
    /// For one call, restarted by each progress notification.
    pub call: Duration,
    /// Time without calls until the server is stopped; the next call starts it again. Zero: never.
    /// `None`: never, or after [`LAZY_IDLE`] for a lazy server.
    pub idle: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(60), call: Duration::from_secs(300), idle: None }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum number of concurrent calls; further ones wait. 0: no limit.
    pub concurrent: usize,
    /// Maximum number of bytes of the arguments of a call.
    pub argument_bytes: usize,
    /// Maximum number of bytes of the result of a call.
    pub result_bytes: usize,
}

/// Number of bytes that a message may always have, even if results are limited to less: lists are
/// messages too.
const MIN_MESSAGE_LIMIT: usize = 64 << 20;

impl Default for ServerLimits {
    fn default() -> Self {
        Self { concurrent: 128, argument_bytes: MIN_MESSAGE_LIMIT, result_bytes: MIN_MESSAGE_LIMIT }
    }
}

impl ServerLimits {
    /// Returns the maximum number of bytes of a message, which is a result and its envelope.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.result_bytes.saturating_add(64 << 10).max(MIN_MESSAGE_LIMIT)
    }
}

impl TransportConfig {
    /// Returns whether both have the same program with the same arguments, or the same URL.
    pub(crate) fn is_same_location(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Stdio { command, args, cwd, .. },
                Self::Stdio { command: command_2, args: args_2, cwd: cwd_2, .. },
            ) => (command, args, cwd) == (command_2, args_2, cwd_2),
            (Self::Http { url, .. }, Self::Http { url: url_2, .. }) => url == url_2,
            _ => self == other,
        }
    }
}

impl PartialEq for TransportConfig {
    /// Returns whether both connect to the same server in the same way.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Stdio { command, args, env, cwd },
                Self::Stdio { command: command_2, args: args_2, env: env_2, cwd: cwd_2 },
            ) => (command, args, env, cwd) == (command_2, args_2, env_2, cwd_2),
            (Self::Http { url, headers, kind }, Self::Http { url: url_2, headers: headers_2, kind: kind_2 }) => {
                (url, headers, kind) == (url_2, headers_2, kind_2)
            }
            (Self::Local(one), Self::Local(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// The OAuth client settings of a remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    /// The client id; without one, Pegboard registers itself.
    pub client_id: Option<String>,
    /// The client secret, if there is one.
    pub client_secret: Option<Secret>,
    /// The scopes to request; if empty, the server decides.
    pub scopes: Vec<String>,
    /// The local port of the redirect URL; any free one by default.
    pub callback_port: Option<u16>,
    /// Whether endpoints that are found by discovery may be on private networks and on this
    /// machine if the server is not.
    pub allow_private_issuers: Option<bool>,
}

impl OAuthConfig {
    /// Returns the secret of a client, if it is the configured one.
    pub(crate) fn secret_for(&self, client_id: &str) -> Option<&Secret> {
        self.client_secret.as_ref().filter(|_| self.client_id.as_deref() == Some(client_id))
    }
}

/// Which connections to a server the calls of clients use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionMode {
    /// Shared until the server asks a client something, one per client from then on.
    #[default]
    Auto,
    /// All clients of a protocol generation share one connection.
    Shared,
    /// Every client has a connection of its own.
    Own,
}

impl ConnectionMode {
    /// The names that configurations use.
    pub const NAMES: &'static [&'static str] = &["auto", "shared", "own"];

    /// The mode with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "shared" => Some(Self::Shared),
            "own" => Some(Self::Own),
            _ => None,
        }
    }

    /// The name that configurations use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shared => "shared",
            Self::Own => "own",
        }
    }
}

/// The connections to a server beside the one that its lists come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Which connections calls use.
    pub mode: ConnectionMode,
    /// Maximum number of connections that belong to single clients.
    pub max: usize,
    /// How long a connection may be unused before it is closed. Zero: for ever.
    pub idle: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self { mode: ConnectionMode::Auto, max: 32, idle: Duration::from_secs(600) }
    }
}

/// One configured server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The name, which is also part of the names of its tools.
    pub name: String,
    /// How to connect to it.
    pub transport: TransportConfig,
    /// A description by the user, in addition to the server's own.
    pub description: Option<String>,
    /// The file with further variables of the server.
    pub env_file: Option<PathBuf>,
    /// Whether the server is used at all.
    pub is_enabled: bool,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The limits.
    pub limits: ServerLimits,
    /// The only era to try; `None` detects it.
    pub era: Option<Era>,
    /// Which connections the calls of clients use.
    pub connections: ConnectionSettings,
    /// Whether the server starts only when it is called, if set.
    pub lazy: Option<bool>,
    /// The circuit breaker, if set.
    pub breaker: Option<BreakerSettings>,
    /// How tools that differ from their approval are treated, if set.
    pub pinning: Option<Pinning>,
    /// Whether the server runs in a process namespace, if it is a child process and this is set.
    pub process_namespace: Option<ProcessNamespace>,
    /// Whether the tools are held if the server was never seen before.
    pub new_servers: NewServers,
    /// Values that were substituted from variables and files. They are hidden in all output about
    /// the server.
    pub secrets: Vec<Secret>,
    /// Values in the command line that look like secrets. They are hidden like the others, but do not
    /// change the identity of the server for approvals.
    pub plain_secrets: Vec<Secret>,
    /// The OAuth client settings, for a server that requires a login.
    pub oauth: OAuthConfig,
    /// Instructions for models about when to use the tools.
    pub prompt_instructions: PromptInstructions,
    /// What it is for in a few words, for models.
    pub summary: Option<String>,
    /// The user's changes to single tools, by their names at the server.
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Whether it may keep its tools always listed.
    pub always_load: AlwaysLoad,
    /// Variables of this process that its program inherits beyond the short list.
    pub inherit_env: Option<InheritEnv>,
    /// Variables of this process that the program never inherits.
    pub reserved: ReservedVariables,
    /// A missing variable or file that the configuration of this server needs. Such a server is not
    /// started, and is reported as failed.
    pub missing: Option<String>,
}

/// Instructions of the user about when to use the tools of a server, for models that search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptInstructions {
    /// For all tools that have none of their own.
    pub all: Option<String>,
    /// For single tools, by their names at the server.
    pub tools: BTreeMap<String, String>,
}

impl PromptInstructions {
    /// Returns the instructions for the tool with this name.
    pub fn of(&self, tool: &str) -> Option<&str> {
        self.tools.get(tool).or(self.all.as_ref()).map(String::as_str)
    }
}

/// How tools that differ from their approval are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// Tools are not compared.
    Off,
    /// Such tools can be used, and are reported.
    #[default]
    Warn,
    /// Such tools are hidden until they are approved.
    Hold,
}

impl Pinning {
    /// The names that configurations use.
    pub const NAMES: &'static [&'static str] = &["warn", "hold", "off"];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "warn" => Some(Self::Warn),
            "hold" => Some(Self::Hold),
            _ => None,
        }
    }
}

/// How a server is treated that was never seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewServers {
    /// Its tools are approved.
    #[default]
    Approve,
    /// Its tools are held until the user approves them.
    Hold,
}

impl NewServers {
    /// The names that configurations use.
    pub const NAMES: &'static [&'static str] = &["approve", "hold"];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "approve" => Some(Self::Approve),
            "hold" => Some(Self::Hold),
            _ => None,
        }
    }
}

impl ServerConfig {
    /// Creates a server with default settings.
    pub fn new(name: impl Into<String>, transport: TransportConfig) -> Self {
        Self {
            name: name.into(),
            transport,
            description: None,
            env_file: None,
            is_enabled: true,
            timeouts: Timeouts::default(),
            limits: ServerLimits::default(),
            era: None,
            connections: ConnectionSettings::default(),
            lazy: None,
            breaker: None,
            pinning: None,
            process_namespace: None,
            new_servers: NewServers::default(),
            secrets: Vec::new(),
            plain_secrets: Vec::new(),
            oauth: OAuthConfig::default(),
            prompt_instructions: PromptInstructions::default(),
            summary: None,
            overrides: BTreeMap::new(),
            always_load: AlwaysLoad::default(),
            inherit_env: None,
            reserved: ReservedVariables::default(),
            missing: None,
        }
    }

    /// Returns whether the server starts only when it is called.
    pub fn is_lazy(&self) -> bool {
        self.lazy.unwrap_or(false)
    }

    /// Returns the time without calls until a connection beside the catalog connection is closed:
    /// the shorter one of `connectionIdleTimeout` and `idleTimeout`. Zero: never.
    pub fn connection_idle_limit(&self) -> Duration {
        let limits = [Some(self.connections.idle).filter(|limit| !limit.is_zero()), self.idle_limit()];
        limits.into_iter().flatten().min().unwrap_or_default()
    }

    /// Returns the time without calls until the server is stopped; `None`: never.
    pub fn idle_limit(&self) -> Option<Duration> {
        let limit = self.timeouts.idle.or(self.is_lazy().then_some(LAZY_IDLE));
        limit.filter(|limit| !limit.is_zero())
    }
}
