//! The tools as an HTTP API on the loopback, for the commands that a model writes.
//!
//! Paths and their description come from [`pegboard_discovery::openapi`]. The listener is
//! the one of all doors; what it refuses is worded like every other reply here.

//!
//! Programs that a model writes are not trusted with our memory: what they send is looked
//! through before it is read, no more calls are read at a time than carried out, and no more
//! replies are kept for them than fit a budget.

mod arguments;
mod reply;
mod serve;

use std::{fmt, future::Future, net::Ipv4Addr, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use pegboard_discovery::host::code::{TOKEN_VARIABLE, URL_VARIABLE};
use pegboard_http::{ConnectionLimits, Guard, ListenError, Listener, Principal};
use serde_json::Value;
use tokio::task::JoinHandle;

/// What a call through the API came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Invoked {
    /// There is no such tool.
    Unknown,
    /// It was called.
    Done {
        /// What a model would read.
        text: String,
        /// The same as a value, where the tool says it so.
        value: Option<Value>,
        /// Whether it failed.
        is_error: bool,
    },
}

/// A call to come.
pub type Invoking<'a> = Pin<Box<dyn Future<Output = Invoked> + Send + 'a>>;

/// What stands behind the API.
pub trait Invoke: Send + Sync + 'static {
    /// Calls the tool `name` of a server, or of the host program. The call is given up when
    /// the program that made it goes away.
    fn invoke<'a>(&'a self, server: Option<&'a str>, name: &'a str, arguments: Value) -> Invoking<'a>;

    /// Names there that somebody may have meant who asked for a tool that is unknown.
    fn nearest(&self, server: Option<&str>, name: &str) -> Vec<String> {
        let _ = (server, name);
        Vec::new()
    }
}

/// What can be set of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// Bytes of the arguments of one call. All connections together hold no more than 64 times
    /// as much.
    pub max_body_bytes: usize,
    /// Values in the arguments of one call, those within lists and objects included. One takes
    /// up to 220 bytes in memory, and up to 16 calls are carried out at a time.
    pub max_values: usize,
    /// Bytes of the result of one call; a larger one is an error.
    pub max_result_bytes: usize,
    /// Bytes of all replies together that wait to be read by the programs that asked. Short
    /// ones do not count.
    pub max_unsent_bytes: usize,
    /// How long a reply waits until there is room for it among those. Then the call fails.
    pub room_timeout: Duration,
    /// How long a program may read nothing of its reply before it is cut off.
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

/// Connections at a time; further ones are refused.
const MAX_CONNECTIONS: usize = 256;

/// The API, while it runs. Dropping it stops it, and calls that it was carrying out.
pub struct ToolApi {
    address: SocketAddr,
    token: String,
    serving: JoinHandle<()>,
}

impl ToolApi {
    /// Opens a port on the loopback, behind a new token.
    ///
    /// # Errors
    /// When there is no port, or nothing to make a token of.
    pub async fn start(invoke: Arc<dyn Invoke>, settings: ApiSettings) -> Result<Self, ListenError> {
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What opens it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The address as programs use it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The variables that programs find it by.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [(URL_VARIABLE, self.url()), (TOKEN_VARIABLE, self.token.clone())]
    }
}

impl Drop for ToolApi {
    fn drop(&mut self) {
        // The listener goes with its task, and takes its connections along.
        self.serving.abort();
    }
}

impl fmt::Debug for ToolApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolApi").field("address", &self.address).finish_non_exhaustive()
    }
}

/// 32 random bytes as digits.
fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The arguments in a body, or why there are none.
#[cfg(fuzzing)]
pub(crate) fn parse_arguments(body: &[u8], max_values: usize) -> Result<serde_json::Value, String> {
    arguments::parse(body, max_values).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
