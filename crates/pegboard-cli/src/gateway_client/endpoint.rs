//! The endpoint of a running gateway, over HTTP or its control socket.

use std::{path::PathBuf, time::Duration};

use pegboard_gateway::control::{STATUS, Status};

use crate::{error::CliError, platform::connect_through, terminal_text};

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum size of an answer; the tools of a thousand servers have some ten megabytes.
const MAX_BYTES: usize = 256 << 20;

/// Maximum width of a gateway's error message.
const MAX_REASON: usize = 300;

/// The endpoint of a running gateway.
#[derive(Debug)]
pub(crate) struct GatewayEndpoint {
    /// The name for messages.
    pub(crate) name: String,
    url: String,
    token: Option<String>,
    client: reqwest::Client,
}

/// An error of a request to a gateway.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    #[error("no gateway answers")]
    Nobody(#[source] reqwest::Error),
    #[error("the connection was lost")]
    Broken(#[source] reqwest::Error),
    #[error("a token is required")]
    Token,
    #[error("the gateway rejected the request: {0}")]
    Refused(String),
    #[error("no Pegboard control API at this address")]
    NotGateway,
}

impl EndpointError {
    pub(crate) fn is_not_running(&self) -> bool {
        matches!(self, Self::Nobody(_))
    }

    /// Returns an error that names the gateway, with a hint.
    pub(crate) fn explain(self, endpoint: &GatewayEndpoint) -> CliError {
        let shown = CliError::new(format!("{}: {self}", endpoint.name));
        match self {
            Self::Nobody(source) => shown
                .hint("start one with `pegboard serve`, or name its address with `--url`")
                .because(source.without_url()),
            Self::Broken(source) => shown.because(source.without_url()),
            Self::Token => {
                shown.hint("set `PEGBOARD_TOKEN`, or name a file with `--token-file` or the gateway's configuration")
            }
            Self::NotGateway => shown.hint("name the address with `--url`; older versions have no control API"),
            Self::Refused(_) => shown,
        }
    }
}

impl GatewayEndpoint {
    /// Returns the endpoint of a gateway at `url`; `/mcp` may be left out.
    pub(crate) fn at(url: &str, token: Option<String>, is_far: bool) -> Result<Self, CliError> {
        let url = url.trim_end_matches('/');
        let url = url.strip_suffix(pegboard_gateway::ENDPOINT).unwrap_or(url);
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        // A gateway on this machine is not reached through a proxy.
        let builder = if is_far { builder() } else { builder().no_proxy() };
        Self::new(&url.clone(), url, token, builder)
    }

    /// Returns the endpoint of a gateway with a control socket.
    pub(crate) fn with_socket(socket: PathBuf) -> Result<Self, CliError> {
        let name = socket.display().to_string();
        let Some(builder) = connect_through(builder().no_proxy(), socket) else {
            return Err(CliError::new("control sockets are not supported on this system")
                .hint("name the address of an HTTP gateway with `--url`"));
        };
        Self::new(&name, "http://localhost".to_owned(), None, builder)
    }

    fn new(name: &str, url: String, token: Option<String>, builder: reqwest::ClientBuilder) -> Result<Self, CliError> {
        let client = builder.build().map_err(|error| CliError::new("cannot create an HTTP client").because(error))?;
        Ok(Self { name: terminal_text::one_line(name, MAX_REASON), url, token, client })
    }

    /// Requests the status of the gateway.
    pub(crate) async fn status(&self) -> Result<Status, EndpointError> {
        let body = self.get(STATUS).await?;
        let status = serde_json::from_slice(&body).ok().filter(|status: &Status| status.format > 0);
        status.ok_or(EndpointError::NotGateway)
    }

    /// Gets a document.
    pub(crate) async fn get(&self, path: &str) -> Result<Vec<u8>, EndpointError> {
        let request = self.client.get(format!("{}{path}", self.url)).timeout(PATIENCE);
        read(self.send(request).await?, MAX_BYTES).await
    }

    /// Posts JSON, and waits for the answer without a timeout.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Vec<u8>, EndpointError> {
        let mut request = self.client.post(format!("{}{path}", self.url)).body(body);
        request = request.header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(self.send(request).await?, MAX_BYTES).await
    }

    /// Reads a text of unlimited length and passes each piece to `take`, until that fails.
    pub(crate) async fn read_stream(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<Result<(), CliError>, EndpointError> {
        let mut response = self.send(self.client.get(format!("{}{path}", self.url))).await?;
        if !response.status().is_success() {
            return read(response, MAX_BYTES).await.map(|_| Ok(()));
        }
        while let Some(bytes) = response.chunk().await.map_err(EndpointError::Broken)? {
            if let Err(error) = take(&bytes) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<reqwest::Response, EndpointError> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let failed = |error: reqwest::Error| {
            if error.is_connect() { EndpointError::Nobody(error) } else { EndpointError::Broken(error) }
        };
        request.send().await.map_err(failed)
    }
}

/// Reads a body of at most `most` bytes.
async fn read(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, EndpointError> {
    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(EndpointError::Broken)? {
        body.extend_from_slice(&bytes);
        if body.len() > most {
            return Err(EndpointError::NotGateway);
        }
    }
    match status.as_u16() {
        200..=299 => Ok(body),
        401 => Err(EndpointError::Token),
        // A call that is refused is answered in its own form.
        400 if body.starts_with(b"{\"jsonrpc\"") => Ok(body),
        _ => Err(reason(&body).map_or(EndpointError::NotGateway, EndpointError::Refused)),
    }
}

/// Returns a gateway's error message, safe to print.
fn reason(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str())?;
    Some(terminal_text::one_line(text, MAX_REASON))
}

fn builder() -> reqwest::ClientBuilder {
    // Something else in this process may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().connect_timeout(PATIENCE).redirect(reqwest::redirect::Policy::none())
}
