//! The tool API: the tools over HTTP on the loopback interface, for commands that a model writes.
//!
//! Paths and their description come from [`pegboard_discovery::openapi`]. The listener is that of
//! all HTTP endpoints; its rejections have the format of all replies here.

//!
//! Programs that a model writes are not trusted with the agent's memory: values are counted before
//! arguments are parsed, no more calls are parsed than run concurrently, and replies that wait to
//! be read have a budget.

mod arguments;
mod reply;
mod serve;

use std::{fmt, future::Future, net::Ipv4Addr, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use pegboard_discovery::host::code::{TOKEN_VARIABLE, URL_VARIABLE};
use pegboard_http::{ConnectionLimits, Guard, ListenError, Listener, Principal};
use serde_json::Value;
use tokio::task::JoinHandle;

/// The outcome of a call through the API.
#[derive(Clone, Debug, PartialEq)]
pub enum InvokeOutcome {
    /// No tool has this name.
    Unknown,
    /// The tool was called.
    Done {
        /// The text for a model.
        text: String,
        /// The result as a JSON value, if the tool returns one.
        value: Option<Value>,
        /// Whether the call failed.
        is_error: bool,
    },
}

/// The future of a call.
pub type InvokeFuture<'a> = Pin<Box<dyn Future<Output = InvokeOutcome> + Send + 'a>>;

/// Calls tools on behalf of the API.
pub trait ToolInvoker: Send + Sync + 'static {
    /// Calls the tool `name` of a server, or of the host program. The future is dropped when the
    /// calling program disconnects.
    fn invoke<'a>(&'a self, server: Option<&'a str>, name: &'a str, arguments: Value) -> InvokeFuture<'a>;

    /// Returns names that are similar to an unknown name.
    fn similar_names(&self, server: Option<&str>, name: &str) -> Vec<String> {
        let _ = (server, name);
        Vec::new()
    }
}

/// The settings of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// Maximum size of the arguments of one call in bytes. All connections together hold at most 64
    /// times as much.
    pub max_body_bytes: usize,
    /// Maximum number of values in the arguments of one call, including those in lists and objects.
    /// A value takes up to 220 bytes in memory, and up to 16 calls run concurrently.
    pub max_values: usize,
    /// Maximum size of the result of one call in bytes; a larger one is an error.
    pub max_result_bytes: usize,
    /// Maximum size in bytes of all replies that wait to be read by programs. Short replies do not
    /// count.
    pub max_unsent_bytes: usize,
    /// How long a reply waits for room in `max_unsent_bytes` before the call fails.
    pub room_timeout: Duration,
    /// How long a program may read nothing of its reply before it is disconnected.
    pub write_timeout: Duration,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 1 << 20,
            max_values: 50_000,
            max_result_bytes: 16 << 20,
            max_unsent_bytes: 64 << 20,
            room_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
        }
    }
}

/// Maximum number of connections; further ones are rejected.
const MAX_CONNECTIONS: usize = 256;

/// The running API. Dropping it stops it and cancels its calls.
pub struct ToolApi {
    address: SocketAddr,
    token: String,
    serving: JoinHandle<()>,
}

impl ToolApi {
    /// Listens on a port of the loopback interface, with a new token.
    ///
    /// # Errors
    /// If no port is free, or no random token can be generated.
    pub async fn start(invoke: Arc<dyn ToolInvoker>, settings: ApiSettings) -> Result<Self, ListenError> {
        let mut listening = pegboard_http::Settings::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let address = listening.address;
        let token =
            token().map_err(|error| ListenError::Bind { address, source: std::io::Error::other(error.to_string()) })?;
        listening.guard = Guard { tokens: vec![(Principal(0), token.clone())], ..Guard::default() };
        listening.connections = ConnectionLimits::for_one_caller(MAX_CONNECTIONS);
        listening.write_timeout = settings.write_timeout;
        listening.refuse = |refusal| reply::failure(refusal.message());
        let listener = Listener::bind(listening).await?;
        let address = listener.address();
        let router = serve::router(invoke, settings);
        let serving = tokio::spawn(async move { listener.serve(router, std::future::pending(), || {}).await });
        tracing::debug!(%address, "tool API listening");
        Ok(Self { address, token, serving })
    }

    /// Returns the address on which the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the token that requests must carry.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the environment variables with the URL and the token.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [(URL_VARIABLE, self.url()), (TOKEN_VARIABLE, self.token.clone())]
    }
}

impl Drop for ToolApi {
    fn drop(&mut self) {
        // The task owns the listener and its connections.
        self.serving.abort();
    }
}

impl fmt::Debug for ToolApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolApi").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Returns 32 random bytes in hexadecimal.
fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Parses the arguments in a body; on failure returns the message of the error.
#[cfg(fuzzing)]
pub(crate) fn parse_arguments(body: &[u8], max_values: usize) -> Result<serde_json::Value, String> {
    arguments::parse(body, max_values).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
