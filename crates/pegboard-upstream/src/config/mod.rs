//! The configuration of servers.

pub mod breaker;
pub mod file;
pub mod inherit;
mod oauth;
pub mod servers;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use pegboard_core::{Secret, breaker::BreakerSettings};
use pegboard_mcp::era::Era;
use pegboard_process::supervise::ProcessNamespace;

use crate::{
    environment::{InheritEnv, Reserved},
    transport::local::LocalServer,
};

/// Which HTTP transport a remote server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, and HTTP+SSE when the server knows nothing newer.
    #[default]
    Auto,
    /// Streamable HTTP only.
    Streamable,
    /// HTTP+SSE of 2024-11-05 only.
    Sse,
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub enum TransportConfig {
    /// A child process that speaks on its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables of its own; they take precedence over inherited ones.
        env: Vec<(String, Secret)>,
        /// Where it runs.
        cwd: Option<PathBuf>,
    },
    /// A remote server.
    Http {
        /// Its endpoint.
        url: String,
        /// Headers that every request carries, `Authorization` among them.
        headers: Vec<(String, Secret)>,
        /// Which transport.
        kind: HttpKind,
    },
    /// A server inside this process.
    Local(Arc<dyn LocalServer>),
}

/// How long a lazy server stays after its last call unless something else is said.
pub const LAZY_IDLE: Duration = Duration::from_secs(300);

/// How long to wait for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From its start until its lists are there.
    pub connect: Duration,
    /// For one call, counted anew from each progress notification.
    pub call: Duration,
    /// Without calls until it is stopped; it starts again when it is needed. Zero: never.
    /// `None`: never, or after [`LAZY_IDLE`] if it is lazy.
    pub idle: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(60), call: Duration::from_secs(300), idle: None }
    }
}

/// How much of a server is used at a time, and how much may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls at a time; others wait for their turn. 0: as many as come.
    pub concurrent: usize,
    /// Bytes of the arguments of a call.
    pub argument_bytes: usize,
    /// Bytes of its result.
    pub result_bytes: usize,
}

/// A message may be as long as this whatever a result may be: lists are messages too.
const MESSAGE_BYTES: usize = 64 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self { concurrent: 128, argument_bytes: MESSAGE_BYTES, result_bytes: MESSAGE_BYTES }
    }
}

impl Limits {
    /// Bytes of a message, with what stands around a result.
    pub(crate) fn max_message(&self) -> usize {
        self.result_bytes.saturating_add(64 << 10).max(MESSAGE_BYTES)
    }
}

impl TransportConfig {
    /// Whether both mean the same program or the same address, whatever it is told beside.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
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
    /// Whether both reach the same server in the same way.
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

/// Who we are to those who give logins for a remote server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    /// The client's id; without one we register.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<Secret>,
    /// What to ask for; nothing leaves it to the server.
    pub scopes: Vec<String>,
    /// The port on this machine that a browser comes back to; any unless it is said.
    pub callback_port: Option<u16>,
    /// Whether endpoints that are found by discovery may be on private networks and on this
    /// machine although the server is not.
    pub allow_private_issuers: Option<bool>,
}

impl OAuthConfig {
    /// The secret of a client, if it is the configured one.
    pub(crate) fn secret_of(&self, client_id: &str) -> Option<&Secret> {
        self.client_secret.as_ref().filter(|_| self.client_id.as_deref() == Some(client_id))
    }
}

/// One configured server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The name that its tools carry.
    pub name: String,
    /// How to reach it.
    pub transport: TransportConfig,
    /// What people say it does; beside what it says itself.
    pub description: Option<String>,
    /// The file that variables of it come from beside the configuration.
    pub env_file: Option<PathBuf>,
    /// Whether it is used at all.
    pub is_enabled: bool,
    /// How long to wait for it.
    pub timeouts: Timeouts,
    /// How much of it is used.
    pub limits: Limits,
    /// The only era to try; `None` finds out.
    pub era: Option<Era>,
    /// Whether it starts only when it is called, as far as that is said.
    pub lazy: Option<bool>,
    /// When its calls are refused, as far as that is said.
    pub breaker: Option<BreakerSettings>,
    /// What becomes of tools that are not as they were approved, as far as that is said.
    pub pinning: Option<Pinning>,
    /// Whether it runs in a process namespace, if it is a child process and as far as that is
    /// set.
    pub process_namespace: Option<ProcessNamespace>,
    /// Whether its tools start held if it was never seen before.
    pub new_servers: NewServers,
    /// Values that were filled in from variables and files, wherever they stand. They are
    /// hidden in what is told of the server.
    pub secrets: Vec<Secret>,
    /// Values in its command line that look like secrets. They are hidden like the others, but the
    /// server stays the same one for approvals.
    pub plain_secrets: Vec<Secret>,
    /// How to get a login, if it wants one.
    pub oauth: OAuthConfig,
    /// When to use its tools, for models.
    pub prompt_instructions: PromptInstructions,
    /// Variables of this process that its program inherits beyond the short list.
    pub inherit_env: Option<InheritEnv>,
    /// Variables of this process that its program never inherits.
    pub reserved: Reserved,
    /// A variable or a file that the configuration needs for this server and that is missing. Such a server
    /// is not started, and reported as failed.
    pub missing: Option<String>,
}

/// When to use the tools of a server, in the words of the user, for models that search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptInstructions {
    /// For all of its tools that have none of their own.
    pub all: Option<String>,
    /// For single tools, by their names at the server.
    pub tools: BTreeMap<String, String>,
}

impl PromptInstructions {
    /// When to use the tool of this name.
    pub fn of(&self, tool: &str) -> Option<&str> {
        self.tools.get(tool).or(self.all.as_ref()).map(String::as_str)
    }
}

/// What becomes of tools that are not as they were approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// Nobody looks.
    Off,
    /// They are used, and reported.
    #[default]
    Warn,
    /// They are not there until they are approved.
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

/// What becomes of a server that was never seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewServers {
    /// Its tools are approved as they are first seen.
    #[default]
    Approve,
    /// Its tools are held until they are approved.
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
    /// A server with default settings.
    pub fn new(name: impl Into<String>, transport: TransportConfig) -> Self {
        Self {
            name: name.into(),
            transport,
            description: None,
            env_file: None,
            is_enabled: true,
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            era: None,
            lazy: None,
            breaker: None,
            pinning: None,
            process_namespace: None,
            new_servers: NewServers::default(),
            secrets: Vec::new(),
            plain_secrets: Vec::new(),
            oauth: OAuthConfig::default(),
            prompt_instructions: PromptInstructions::default(),
            inherit_env: None,
            reserved: Reserved::default(),
            missing: None,
        }
    }

    /// Whether it starts only when it is called.
    pub fn is_lazy(&self) -> bool {
        self.lazy.unwrap_or(false)
    }

    /// How long it may be unused before it is stopped; `None`: for ever.
    pub fn idle_limit(&self) -> Option<Duration> {
        let limit = self.timeouts.idle.or(self.is_lazy().then_some(LAZY_IDLE));
        limit.filter(|limit| !limit.is_zero())
    }
}
