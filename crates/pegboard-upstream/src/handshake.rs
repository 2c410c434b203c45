//! The handshake: finds out which protocol versions a server speaks.

use std::{ffi::OsString, io, sync::Arc, time::Duration};

use pegboard_core::text;
use pegboard_mcp::{
    era::{Era, LEGACY_VERSIONS, MODERN_VERSION},
    json::{Fields, Raw, raw},
    rpc::RpcError,
};
use serde_json::json;

use crate::{
    auth::Bearer,
    config::{HttpKind, ServerConfig, TransportConfig},
    connection::{Call, CallError, LAST_OUTPUT, Link, LinkSettings},
    environment::Environment,
    listing::MAX_TEXT,
    transport::{
        Outbound,
        http::{ClientError, HttpClient, is_modern_error},
        local::LocalClient,
        sse::{OpenError, SseClient},
        stdio::{self, Process, ServerProgram},
    },
};

/// The method that only modern servers answer.
pub(crate) const DISCOVER: &str = "server/discover";

/// The method that starts a legacy session.
pub(crate) const INITIALIZE: &str = "initialize";

/// How long a server on a pipe may take to answer `server/discover` before `initialize` is sent as
/// well.
const PROBE: Duration = Duration::from_secs(2);

/// Maximum length of unknown versions in messages, in bytes.
const MAX_VERSIONS: usize = 200;

/// The self-description of a server.
#[derive(Clone, Debug)]
pub struct Hello {
    /// The protocol era.
    pub era: Era,
    /// The negotiated version.
    pub version: String,
    /// The capabilities.
    pub capabilities: Fields,
    /// Name and version of the server.
    pub server_info: Option<Raw>,
    /// The instructions.
    pub instructions: Option<String>,
}

/// Why a connection to a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The program cannot be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The program.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// The server ended or closed the connection.
    #[error("{0}")]
    Closed(Arc<str>),
    /// The server rejected the handshake.
    #[error(transparent)]
    Refused(CallError),
    /// The server speaks no known version.
    #[error("the server speaks MCP version `{0}`, which Pegboard does not support")]
    Version(String),
    /// The handshake timed out.
    #[error("not ready within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

impl ConnectError {
    /// Returns what the user can do, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Start { command, source } if source.kind() == io::ErrorKind::NotFound => {
                // A path may have spaces; a command line does not begin with one.
                match command.contains(' ') && !command.contains(['/', '\\']) {
                    true => Some("`command` is only the program: move its arguments to `args`"),
                    false => Some("install the program, or give its full path"),
                }
            }
            Self::Closed(reason) if reason.contains(LAST_OUTPUT) => None,
            Self::Closed(_) => Some("run the server's command manually to see its output"),
            Self::Timeout(_) => Some("raise `connectTimeout`, or check the log for what the server is waiting for"),
            Self::Refused(CallError::Status { status: 401 | 403 }) => {
                Some("the server requires credentials: set an `Authorization` header in `headers`")
            }
            Self::Refused(CallError::Unreachable(_)) => Some("check the URL, and that the server is running"),
            _ => None,
        }
    }
}

impl ConnectError {
    /// Returns whether the server has said that it does not know the protocol, whatever was declared
    /// in the handshake.
    pub(crate) fn is_unknown_protocol(&self) -> bool {
        match self {
            Self::Version(_) => true,
            Self::Refused(CallError::Rpc(error)) => error.code == RpcError::METHOD_NOT_FOUND || is_modern_error(error),
            // A server on a pipe that does not know the question may end or stay silent.
            Self::Closed(_) | Self::Timeout(_) => true,
            Self::Refused(_) | Self::Start { .. } | Self::Config(_) => false,
        }
    }

    /// Returns whether what was declared in the handshake can be the reason.
    pub(crate) fn may_be_for_capabilities(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Refused(CallError::Rpc(_) | CallError::Garbled(_)))
    }

    /// Returns whether the server has not answered at all, which can have other reasons than the protocol.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Timeout(_))
    }

    /// Returns whether the server has answered, and does not speak the protocol version it was
    /// asked for. A server on a pipe that ends or stays silent does not know the question.
    pub(crate) fn is_wrong_version(&self) -> bool {
        match self {
            Self::Version(_) | Self::Closed(_) | Self::Timeout(_) => true,
            Self::Refused(CallError::Rpc(_) | CallError::Garbled(_)) => true,
            Self::Refused(CallError::Status { status }) => {
                (400..500).contains(status) && !matches!(status, 401 | 403 | 408 | 429)
            }
            Self::Start { .. } | Self::Config(_) | Self::Refused(_) => false,
        }
    }
}

impl From<ClientError> for ConnectError {
    fn from(error: ClientError) -> Self {
        Self::Config(error.to_string())
    }
}

impl From<OpenError> for ConnectError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Client(error) => error.into(),
            OpenError::Unreachable(error) => Self::Refused(error),
            OpenError::NoStream { status } => Self::Refused(CallError::Status { status }),
            OpenError::NoEndpoint => Self::Closed("the server did not send an `endpoint` event".into()),
        }
    }
}

/// A connection that is ready for calls.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) link: Arc<Link>,
    pub(crate) hello: Arc<Hello>,
    /// The child process, if the server is one.
    pub(crate) process: Option<Process>,
    /// Closes the link when it is dropped.
    pub(crate) closing: Closing,
}

/// Closes a link when it is dropped, which also ends its reader.
#[derive(Debug)]
pub(crate) struct Closing(Arc<Link>);

impl Closing {
    fn new(link: &Arc<Link>) -> Self {
        Self(Arc::clone(link))
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close("not connected");
    }
}

/// Returns the name and version of this client.
pub(crate) fn client_info() -> Raw {
    raw(&json!({"name": "pegboard", "title": "Pegboard", "version": env!("CARGO_PKG_VERSION")}))
}

/// The inputs of a handshake beside the configuration.
#[derive(Debug)]
pub(crate) struct ConnectOptions<'a> {
    /// The command line of the supervisor, which ends the processes with this one.
    pub(crate) supervisor: &'a [OsString],
    /// The environment of the program.
    pub(crate) environment: &'a Environment,
    /// The login, if the server can have one.
    pub(crate) bearer: Option<&'a Arc<Bearer>>,
    /// What the connection itself needs.
    pub(crate) link: LinkSettings,
}

/// Connects a server and finds out what it speaks.
///
/// The caller bounds the time; dropping the future ends the child.
pub(crate) async fn connect(
    config: &ServerConfig,
    transport: &TransportConfig,
    era: Option<Era>,
    means: ConnectOptions<'_>,
) -> Result<Connected, ConnectError> {
    let ConnectOptions { supervisor, environment, bearer, link: settings } = means;
    match transport {
        TransportConfig::Stdio { command, args, cwd, .. } => {
            let namespace = config.process_namespace.unwrap_or_default();
            let program = ServerProgram { command, args, environment, cwd: cwd.as_deref(), supervisor, namespace };
            let started =
                stdio::start(&program).map_err(|source| ConnectError::Start { command: command.clone(), source })?;
            let (sender, attachable) = started.split();
            let link = Link::new(settings, Outbound::Stdio(sender));
            let closing = Closing::new(&link);
            let mut process = attachable.attach(&link);
            let hello = tokio::select! {
                hello = greet_on_pipe(&link, era) => hello,
                ended = process.wait() => Err(ConnectError::Closed(ended.into())),
            };
            match hello {
                Ok(hello) => Ok(Connected { link, hello: Arc::new(hello), process: Some(process), closing }),
                Err(error) => {
                    let error = match error {
                        ConnectError::Closed(reason) => {
                            let reason = ended_because(&mut process, reason.to_string()).await;
                            ConnectError::Closed(link.explain(&reason).into())
                        }
                        error => error,
                    };
                    link.close("not connected");
                    process.stop().await;
                    Err(error)
                }
            }
        }
        TransportConfig::Http { url, headers, kind: HttpKind::Sse } => {
            let client = SseClient::open(url, headers, bearer).await?;
            connect_sse(settings, client).await
        }
        TransportConfig::Http { url, headers, kind } => {
            let client = Arc::new(HttpClient::new(url, headers, bearer)?);
            let link = Link::new(settings.clone(), Outbound::Http(Arc::clone(&client)));
            let closing = Closing::new(&link);
            match greet_over_http(&link, &client, era).await {
                Ok(hello) => Ok(Connected { link, hello: Arc::new(hello), process: None, closing }),
                Err(ConnectError::Refused(CallError::Status { status: 400 | 404 | 405 | 406 | 415 }))
                    if *kind == HttpKind::Auto && era != Some(Era::Modern) =>
                {
                    let client = SseClient::open(url, headers, bearer).await?;
                    connect_sse(settings, client).await
                }
                Err(error) => Err(error),
            }
        }
        TransportConfig::Local(local) => {
            let link = Link::new(settings, Outbound::Local(Arc::clone(local)));
            let closing = Closing::new(&link);
            local.connected(LocalClient::new(&link));
            let hello = greet_local(&link, era).await?;
            Ok(Connected { link, hello: Arc::new(hello), process: None, closing })
        }
    }
}

/// How long a server that has closed its pipes may take to end.
const ENDING: Duration = Duration::from_millis(500);

/// How a server ended, if it does so now; else what was seen of it.
pub(crate) async fn ended_because(process: &mut Process, seen: String) -> String {
    tokio::time::timeout(ENDING, process.wait()).await.unwrap_or(seen)
}

async fn connect_sse(settings: LinkSettings, client: SseClient) -> Result<Connected, ConnectError> {
    let client = Arc::new(client);
    let link = Link::new(settings, Outbound::Sse(Arc::clone(&client)));
    let closing = Closing::new(&link);
    client.attach(&link).await?;
    let hello = initialize(&link).await?;
    Ok(Connected { link, hello: Arc::new(hello), process: None, closing })
}

/// Asks the modern question first, and the legacy one when the answer is no or is late.
async fn greet_on_pipe(link: &Arc<Link>, era: Option<Era>) -> Result<Hello, ConnectError> {
    match era {
        Some(Era::Legacy) => return initialize(link).await,
        Some(Era::Modern) => {
            let hello = discover(link).await.map_err(refused)?;
            link.set_era(Era::Modern);
            return Ok(hello);
        }
        None => {}
    }
    let modern = discover(link);
    tokio::pin!(modern);
    match tokio::time::timeout(PROBE, &mut modern).await {
        Ok(Ok(hello)) => {
            link.set_era(Era::Modern);
            Ok(hello)
        }
        Ok(Err(CallError::Closed(reason))) => Err(ConnectError::Closed(reason)),
        Ok(Err(_)) => initialize(link).await,
        Err(_) => greet_both_ways(link, modern).await,
    }
}

/// A slow start looks like a server that ignores what it does not know. So both questions are
/// out now, and whichever is answered well decides; what that means for the link is settled
/// only then.
async fn greet_both_ways(
    link: &Arc<Link>,
    mut modern: std::pin::Pin<&mut impl Future<Output = Result<Hello, CallError>>>,
) -> Result<Hello, ConnectError> {
    let legacy = ask_to_initialize(link);
    tokio::pin!(legacy);
    let (mut is_modern_out, mut refusal) = (true, None);
    loop {
        tokio::select! {
            biased;
            hello = &mut modern, if is_modern_out => match hello {
                Ok(hello) => {
                    link.set_era(Era::Modern);
                    return Ok(hello);
                }
                Err(_) => is_modern_out = false,
            },
            hello = &mut legacy, if refusal.is_none() => match hello {
                Ok(hello) => return begin_legacy(link, hello).await,
                Err(error) => refusal = Some(error),
            },
        }
        if let (false, Some(refusal)) = (is_modern_out, refusal.take_if(|_| !is_modern_out)) {
            return Err(refusal);
        }
    }
}

async fn greet_over_http(link: &Arc<Link>, client: &Arc<HttpClient>, era: Option<Era>) -> Result<Hello, ConnectError> {
    if era != Some(Era::Legacy) {
        match discover(link).await {
            Ok(hello) => {
                link.set_era(Era::Modern);
                return Ok(hello);
            }
            Err(error) if era == Some(Era::Modern) => return Err(refused(error)),
            Err(CallError::Rpc(error)) if is_modern_error(&error) && !offers_legacy(&error) => {
                return Err(refused(CallError::Rpc(error)));
            }
            Err(CallError::Status { status: status @ (401 | 403) }) => {
                return Err(refused(CallError::Status { status }));
            }
            Err(error @ (CallError::Unreachable(_) | CallError::Login(_))) => return Err(refused(error)),
            Err(_) => {}
        }
        client.clear_session();
    }
    let hello = initialize(link).await?;
    client.set_version(&hello.version);
    let (client, link) = (Arc::clone(client), Arc::clone(link));
    tokio::spawn(client.listen(link));
    Ok(hello)
}

/// Asks the modern question, and the legacy one if the server does not know it.
async fn greet_local(link: &Arc<Link>, era: Option<Era>) -> Result<Hello, ConnectError> {
    if era == Some(Era::Legacy) {
        return initialize(link).await;
    }
    match discover(link).await {
        Ok(hello) => {
            link.set_era(Era::Modern);
            Ok(hello)
        }
        Err(CallError::Rpc(error)) if error.code == RpcError::METHOD_NOT_FOUND && era.is_none() => {
            initialize(link).await
        }
        Err(error) => Err(ConnectError::Refused(error)),
    }
}

/// Whether a server that refuses our modern version names a legacy one instead.
fn offers_legacy(error: &RpcError) -> bool {
    let data = Fields::of_optional(error.data.as_deref());
    let supported: Vec<String> = data.read("supported").unwrap_or_default();
    supported.iter().any(|version| LEGACY_VERSIONS.contains(&version.as_str()))
}

fn refused(error: CallError) -> ConnectError {
    match error {
        CallError::Closed(reason) => ConnectError::Closed(reason),
        error => ConnectError::Refused(error),
    }
}

/// `server/discover`, the one request that is modern whatever the server is.
async fn discover(link: &Arc<Link>) -> Result<Hello, CallError> {
    let call = Call { timeout: None, ..Call::new(DISCOVER, Fields::new(), Duration::MAX) };
    let result = link.call(call).await?;
    let fields = Fields::of(&result)
        .ok_or_else(|| CallError::Garbled("the result of `server/discover` is not an object".to_owned()))?;
    let versions: Vec<String> = fields.read("supportedVersions").unwrap_or_default();
    if !versions.iter().any(|version| version == MODERN_VERSION) {
        // It knows the question but not our version of the protocol.
        let versions = text::brief(&versions.join(", "), MAX_VERSIONS);
        return Err(CallError::Garbled(format!("the server supports only the MCP versions `{versions}`")));
    }
    let info = fields.get("serverInfo").map(ToOwned::to_owned).or_else(|| {
        let meta = fields.object("_meta")?;
        meta.get("io.modelcontextprotocol/serverInfo").map(ToOwned::to_owned)
    });
    Ok(Hello {
        era: Era::Modern,
        version: MODERN_VERSION.to_owned(),
        capabilities: fields.object("capabilities").unwrap_or_default(),
        server_info: info,
        instructions: instructions(&fields),
    })
}

/// `initialize`, and the notification that ends it.
async fn initialize(link: &Arc<Link>) -> Result<Hello, ConnectError> {
    let hello = ask_to_initialize(link).await?;
    begin_legacy(link, hello).await
}

async fn ask_to_initialize(link: &Arc<Link>) -> Result<Hello, ConnectError> {
    let mut params = Fields::new().with("protocolVersion", LEGACY_VERSIONS[0]);
    params.set("capabilities", link.capabilities());
    params.set("clientInfo", client_info());
    let call = Call { timeout: None, ..Call::new(INITIALIZE, params, Duration::MAX) };
    let result = link.call(call).await.map_err(refused)?;
    let fields = Fields::of(&result).ok_or_else(|| {
        ConnectError::Refused(CallError::Garbled("the result of `initialize` is not an object".to_owned()))
    })?;
    let version = fields.text("protocolVersion").unwrap_or_default();
    if !LEGACY_VERSIONS.contains(&version.as_str()) {
        return Err(ConnectError::Version(text::brief(&version, MAX_VERSIONS)));
    }
    Ok(Hello {
        era: Era::Legacy,
        version,
        capabilities: fields.object("capabilities").unwrap_or_default(),
        server_info: fields.get("serverInfo").map(ToOwned::to_owned),
        instructions: instructions(&fields),
    })
}

/// How the server wants to be used, fit to be shown.
fn instructions(fields: &Fields) -> Option<String> {
    let text = fields.text("instructions")?;
    Some(text::bounded(&text::clean(&text), MAX_TEXT).into_owned())
}

/// Lets the link follow the legacy rules from now on, and says so.
async fn begin_legacy(link: &Arc<Link>, hello: Hello) -> Result<Hello, ConnectError> {
    link.set_era(Era::Legacy);
    if let Outbound::Http(client) = link.outbound() {
        client.set_version(&hello.version);
    }
    link.notify("notifications/initialized", None).await.map_err(refused)?;
    Ok(hello)
}
