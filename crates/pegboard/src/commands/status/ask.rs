//! Asking a gateway.

use std::{path::PathBuf, time::Duration};

use pegboard_gateway::control::{STATUS, Status};

use crate::{error::CliError, plain};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an answer may have; one of a thousand servers has about a megabyte.
const MAX_BYTES: usize = 32 << 20;

/// Columns of what a gateway says when it refuses.
const MAX_REASON: usize = 300;

/// Where a gateway can be asked.
#[derive(Debug)]
pub(super) struct Door {
    /// What people call it.
    pub(super) name: String,
    url: String,
    token: Option<String>,
    client: reqwest::Client,
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("no gateway answers")]
    Nobody(#[source] reqwest::Error),
    #[error("it broke off")]
    Broken(#[source] reqwest::Error),
    #[error("it wants a token")]
    Token,
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("what answers is not a gateway that can be asked")]
    NotGateway,
}

impl AskError {
    pub(super) fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody(_))
    }

    /// With the name of what was asked, and advice.
    pub(super) fn explain(self, door: &Door) -> CliError {
        let shown = CliError::new(format!("{}: {self}", door.name));
        match self {
            Self::Nobody(source) => shown
                .hint("start one with `pegboard serve`, or say where it listens with `--url`")
                .because(source.without_url()),
            Self::Broken(source) => shown.because(source.without_url()),
            Self::Token => shown.hint(
                "put one into `PEGBOARD_TOKEN` or into a file (`--token-file`), or name the configuration that has it",
            ),
            Self::NotGateway => shown.hint("say where it listens with `--url`; older versions cannot be asked"),
            Self::Refused(_) => shown,
        }
    }
}

impl Door {
    /// A gateway that listens at `url`; `/mcp` may be left out.
    pub(super) fn at(url: &str, token: Option<String>, is_far: bool) -> Result<Self, CliError> {
        let url = url.trim_end_matches('/');
        let url = url.strip_suffix(pegboard_gateway::ENDPOINT).unwrap_or(url);
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        // What is on this machine is not reached through another one.
        let builder = if is_far { builder() } else { builder().no_proxy() };
        Self::new(url.clone(), url, token, builder)
    }

    /// A gateway with a control socket.
    #[cfg(unix)]
    pub(super) fn behind(socket: PathBuf) -> Result<Self, CliError> {
        let name = socket.display().to_string();
        let builder = builder().no_proxy().unix_socket(socket);
        Self::new(name, "http://localhost".to_owned(), None, builder)
    }

    /// A gateway with a control socket.
    #[cfg(not(unix))]
    pub(super) fn behind(_socket: PathBuf) -> Result<Self, CliError> {
        Err(CliError::new("there are no control sockets on this system")
            .hint("a gateway that listens can be asked with `--url`"))
    }

    fn new(
        name: String,
        url: String,
        token: Option<String>,
        builder: reqwest::ClientBuilder,
    ) -> Result<Self, CliError> {
        let client = builder.build().map_err(|error| CliError::new("cannot ask over HTTP").because(error))?;
        Ok(Self { name: plain::one_line(&name, MAX_REASON), url, token, client })
    }

    pub(super) async fn status(&self) -> Result<Status, AskError> {
        let mut request = self.client.get(format!("{}{STATUS}", self.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let failed = |error: reqwest::Error| {
            if error.is_connect() { AskError::Nobody(error) } else { AskError::Broken(error) }
        };
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(AskError::Broken)? {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_BYTES {
                return Err(AskError::NotGateway);
            }
        }
        match status {
            200 => serde_json::from_slice(&body)
                .ok()
                .filter(|status: &Status| status.format > 0)
                .ok_or(AskError::NotGateway),
            401 => Err(AskError::Token),
            _ => Err(reason(&body).map_or(AskError::NotGateway, AskError::Refused)),
        }
    }
}

/// What a gateway says when it refuses, harmless.
fn reason(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str())?;
    Some(plain::one_line(text, MAX_REASON))
}

fn builder() -> reqwest::ClientBuilder {
    // Something else in this process may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(PATIENCE).connect_timeout(PATIENCE).redirect(reqwest::redirect::Policy::none())
}
