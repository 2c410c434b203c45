//! `pegboard proxy`.

use std::{path::Path, time::Duration};

use clap::{Args, ValueEnum, builder::PossibleValue};
use pegboard_http::{ConnectionLimits, Guard, Listener, Rejection};
use pegboard_proxy::{Mode, Proxy, ProxyError, Route};

use super::serve::{descriptors, presence::Presence, resolve, runtime, stop_signal};
use crate::{
    Outcome,
    cli::options::{LogArgs, LogFormat},
    config::{Config, proxy::ProxyConfig},
    error::{CliError, say},
    logging,
    source::{ConfigFileArgs, Source},
};

/// The default listen address.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8090";

/// Maximum number of connections. A streamed answer of a model takes one for minutes.
const CONNECTIONS: usize = 4096;

#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,

    /// Address to listen on [default: 127.0.0.1:8090]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// Base URL of a provider, in the form of its own base-URL variable: `openai=http://127.0.0.1:11434/v1`
    #[arg(long, value_name = "ROUTE=URL", value_parser = parse_upstream)]
    pub(crate) upstream: Vec<(Route, String)>,

    /// How tools are sent to the provider in requests that match no rule of the configuration
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ModeName>,

    /// State folder for the searches of conversations; `none` keeps them in memory
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// A mode by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModeName(pub(crate) Mode);

impl ValueEnum for ModeName {
    fn value_variants<'a>() -> &'a [Self] {
        const NAMES: [ModeName; Mode::ALL.len()] = {
            let mut names = [ModeName(Mode::ALL[0]); Mode::ALL.len()];
            let mut at = 0;
            while at < names.len() {
                names[at] = ModeName(Mode::ALL[at]);
                at += 1;
            }
            names
        };
        &NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Mode::Defer => "The model gets a search; found tools reach it when it needs them (default)",
            Mode::Prefetch => "Find the likely tools for the newest user message before the model is asked",
            Mode::Pass => "Send the request as it is; earlier searches of the conversation are restored",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

/// Parses `ROUTE=URL`.
fn parse_upstream(text: &str) -> Result<(Route, String), String> {
    let (name, url) = text.split_once('=').ok_or("expected `ROUTE=URL`")?;
    let route = Route::from_name(name)
        .ok_or_else(|| format!("unknown route `{name}`; routes are {}", Route::NAMES.join(", ")))?;
    if !pegboard_config::web::is_url(url) {
        return Err(format!("`{url}` is not a URL that begins with `http://` or `https://`"));
    }
    Ok((route, url.to_owned()))
}

pub(crate) fn run(args: &ProxyArgs) -> Result<Outcome, CliError> {
    let source = args.config.source();
    if source != Source::Demo {
        source.announce();
    }
    // A configuration decides where keys are sent, so it must be trusted.
    let config = source.read_offline(args.state.as_deref())?;
    let runtime = runtime()?;
    logging::start_with(&args.log, "info", None, None)?;
    let state = config.state.resolve(args.state.as_deref());
    runtime.block_on(serve(args, config, state.as_deref()))?;
    Ok(Outcome::Yes)
}

async fn serve(args: &ProxyArgs, config: Config, state: Option<&Path>) -> Result<(), CliError> {
    let address = args.listen.as_deref().or(config.proxy.address.as_deref()).unwrap_or(DEFAULT_ADDRESS);
    let address = resolve(address)?;
    let is_loopback = address.ip().to_canonical().is_loopback();
    let proxy = build(&config.proxy, args, is_loopback, state)?;
    let mut settings = pegboard_http::Settings::new(address);
    // The proxy checks its tokens itself: `Authorization` holds the provider's key.
    settings.allow_public = true;
    // Also the size of a connection's read buffer, which a large request fills and a stream keeps until its end.
    settings.max_header_bytes = 16 << 10;
    let total = descriptors::fit_to_descriptors_with_upstreams(ConnectionLimits {
        total: CONNECTIONS,
        per_address: if is_loopback { CONNECTIONS } else { CONNECTIONS / 4 },
        ..ConnectionLimits::default()
    });
    settings.connections = total;
    settings.refuse = refuse;
    settings.shutdown_deadline = config.listen.shutdown_deadline;
    settings.write_timeout = Duration::from_secs(120);
    settings.guard = Guard {
        allowed_hosts: config.listen.allowed_hosts.clone(),
        allowed_origins: config.listen.allowed_origins.clone(),
        self_guarded_paths: Proxy::own_paths(),
        trusted_proxies: config.listen.trusted_proxies.clone(),
        ..Guard::default()
    };
    let listener = Listener::bind(settings).await.map_err(|error| {
        let hint = error.hint();
        CliError::new(error.to_string()).hint(hint)
    })?;
    announce(args.log.log_format, &listener);
    let endpoint = format!("http://{}", listener.address());
    let _presence = Presence::announce_proxy(state, endpoint, proxy.private_router());
    listener.serve(proxy.router_alone(), stop_signal(), || {}).await;
    Ok(())
}

/// Creates the proxy of `pegboard proxy`.
fn build(config: &ProxyConfig, args: &ProxyArgs, is_loopback: bool, state: Option<&Path>) -> Result<Proxy, CliError> {
    let mut config = config.clone();
    for (route, url) in &args.upstream {
        config.settings.upstreams.set(*route, url);
    }
    if let Some(ModeName(mode)) = args.mode {
        config.settings.modes.default = mode;
    }
    open(config, is_loopback, state)
}

/// Creates a proxy for a listener.
pub(crate) fn open(config: ProxyConfig, is_loopback: bool, state: Option<&Path>) -> Result<Proxy, CliError> {
    Proxy::new(settings(config, is_loopback, state)).map_err(|error| match error {
        ProxyError::NoToken => CliError::new("other machines can reach this address, and the proxy has no tokens")
            .hint("configure `pegboard.proxy.tokens`, or listen on 127.0.0.1"),
        error => CliError::new(error.to_string()).because(error),
    })
}

/// Returns the settings of a proxy for a listener.
fn settings(config: ProxyConfig, is_loopback: bool, state: Option<&Path>) -> pegboard_proxy::Settings {
    let mut settings = config.settings;
    // On loopback too: other users of this machine reach it, and tokens are configured to keep them out.
    settings.access.is_token_required = !is_loopback || !settings.access.tokens.is_empty();
    settings.state = state.map(|state| state.join("proxy"));
    settings
}

/// Returns the body of a rejection, in the form that all providers' clients read.
fn refuse(rejection: Rejection) -> String {
    let message = rejection.message();
    format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{message}"}}}}"#)
}

fn announce(format: LogFormat, listener: &Listener) {
    let address = listener.address();
    let text = format!("LLM API proxy listening on http://{address} (/anthropic, /openai/v1, /gemini)");
    match format {
        LogFormat::Text => say(&text),
        LogFormat::Json => tracing::info!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::Secret;
    use pegboard_proxy::ClientToken;

    use super::*;

    #[test]
    fn upstreams() {
        let check = |text: &str, expected: Option<(Route, &str)>| {
            let found = parse_upstream(text).ok();
            assert_eq!(found.as_ref().map(|(route, url)| (*route, url.as_str())), expected, "{text}");
        };
        check("openai=http://127.0.0.1:1/v1", Some((Route::OpenAi, "http://127.0.0.1:1/v1")));
        check("gemini=https://x", Some((Route::Gemini, "https://x")));
        check("openai=127.0.0.1:1", None);
        check("mistral=https://x", None);
        check("openai", None);
    }

    #[test]
    fn an_open_relay_does_not_start() {
        let error = open(ProxyConfig::default(), false, None).expect_err("no tokens");
        assert!(error.to_string().contains("no tokens"), "{error}");
        assert!(open(ProxyConfig::default(), true, None).is_ok());
    }

    #[test]
    fn configured_tokens_are_required_on_loopback_too() {
        let check = |names: &[&str], is_loopback: bool, expected: bool| {
            let mut config = ProxyConfig::default();
            let token = |name: &&str| ClientToken { name: (*name).to_owned(), token: Secret::new("t") };
            config.settings.access.tokens = names.iter().map(token).collect();
            assert_eq!(
                settings(config, is_loopback, None).access.is_token_required,
                expected,
                "{names:?} {is_loopback}"
            );
        };
        check(&[], true, false);
        check(&["laptop"], true, true);
        check(&["laptop"], false, true);
        check(&[], false, true);
    }
}
