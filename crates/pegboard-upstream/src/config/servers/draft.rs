//! The configuration of a server while its keys are read.

use std::{collections::BTreeMap, path::PathBuf};

use pegboard_config::{
    document::{Node, Problems},
    keys::Scope,
    variables::{Expanded, expand},
    web::read_url,
};
use pegboard_core::{Secret, breaker::BreakerSettings};
use pegboard_mcp::era::Era;
use pegboard_process::supervise::ProcessNamespace;

use super::super::{
    AlwaysLoad, ConnectionSettings, HttpKind, OAuthConfig, Pinning, PromptInstructions, ServerConfig, ServerLimits,
    Timeouts, ToolOverride, TransportConfig,
};
use crate::environment::InheritEnv;

/// The values of a server's keys that were read so far.
#[derive(Default)]
pub(super) struct ServerDraft {
    pub(super) command: Option<Expanded>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, Secret)>,
    pub(super) env_file: Vec<(String, Secret)>,
    pub(super) env_path: Option<PathBuf>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) url: Option<(String, HttpKind)>,
    pub(super) kind: Option<&'static str>,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) token: Option<String>,
    pub(super) is_enabled: Option<bool>,
    pub(super) timeouts: Timeouts,
    pub(super) limits: ServerLimits,
    pub(super) era: Option<Era>,
    pub(super) connections: ConnectionSettings,
    pub(super) lazy: Option<bool>,
    pub(super) breaker: Option<BreakerSettings>,
    pub(super) pinning: Option<Pinning>,
    pub(super) process_namespace: Option<ProcessNamespace>,
    pub(super) secrets: Vec<Secret>,
    pub(super) description: Option<String>,
    pub(super) oauth: OAuthConfig,
    pub(super) inherit_env: Option<InheritEnv>,
    pub(super) prompt_instructions: PromptInstructions,
    pub(super) summary: Option<String>,
    pub(super) overrides: BTreeMap<String, ToolOverride>,
    pub(super) always_load: AlwaysLoad,
}

impl ServerDraft {
    /// Returns the server, if its keys are consistent.
    pub(super) fn finish(mut self, entry: &Node<'_>, problems: &mut Problems) -> Option<ServerConfig> {
        let transport = self.transport(entry, problems)?;
        Some(ServerConfig {
            description: self.description,
            env_file: self.env_path,
            is_enabled: self.is_enabled.unwrap_or(true),
            timeouts: self.timeouts,
            limits: self.limits,
            era: self.era,
            connections: self.connections,
            lazy: self.lazy,
            breaker: self.breaker,
            pinning: self.pinning,
            process_namespace: self.process_namespace,
            secrets: self.secrets,
            oauth: self.oauth,
            inherit_env: self.inherit_env,
            prompt_instructions: self.prompt_instructions,
            summary: self.summary,
            overrides: self.overrides,
            always_load: self.always_load,
            ..ServerConfig::new(entry.key(), transport)
        })
    }

    /// Substitutes variables and records the substituted values as secrets.
    pub(super) fn expand(&mut self, node: &Node<'_>, text: &str, scope: &mut Scope<'_>) -> Expanded {
        let mut expanded = expand(node, text, scope);
        self.secrets.extend(expanded.secrets.drain(..).map(Secret::new));
        expanded
    }

    /// Sets the URL, which several keys can name.
    pub(super) fn set_url(&mut self, node: &Node<'_>, kind: HttpKind, scope: &mut Scope<'_>) {
        if let Some(url) = read_url(node, scope) {
            self.secrets.extend(url.secrets.into_iter().map(Secret::new));
            set_once(&mut self.url, Some((url.text, kind)), node, scope.problems);
        }
    }

    /// Returns the transport, if the keys are consistent.
    fn transport(&mut self, entry: &Node<'_>, problems: &mut Problems) -> Option<TransportConfig> {
        let is_local = self.kind.map(|kind| kind == "stdio");
        match (self.command.take(), self.url.take()) {
            (Some(_), Some(_)) => {
                let problem = entry.problem("has both a program and an address");
                problems.push(problem.hint("split it into two servers, or remove one of them"));
                None
            }
            (Some(_), None) if is_local == Some(false) => {
                problems.push(entry.problem("has a program, but the type of a remote server"));
                None
            }
            (None, Some(_)) if is_local == Some(true) => {
                problems.push(entry.problem("has an address, but the type of a program"));
                None
            }
            (Some(command), None) => {
                self.report_remote_keys(entry, problems);
                Some(self.take_stdio(command.text))
            }
            (None, Some((url, kind))) => {
                self.report_program_keys(entry, problems);
                let kind = match self.kind {
                    Some("sse") => HttpKind::Sse,
                    Some("streamable-http" | "streamableHttp") => HttpKind::Streamable,
                    _ => kind,
                };
                Some(TransportConfig::Http { url, headers: self.all_headers(entry, problems), kind })
            }
            // Already reported when the keys were read.
            (None, None) => None,
        }
    }

    /// Reports keys of remote servers at a local one: its credentials would not be sent.
    fn report_remote_keys(&self, entry: &Node<'_>, problems: &mut Problems) {
        for key in ["headers", "authorizationToken", "bearerToken"].iter().filter_map(|key| entry.get(key)) {
            let is_nothing = key.is_null() || key.is_object() && self.headers.is_empty();
            if !is_nothing {
                let problem = key.problem("is for remote servers; a program has no headers");
                problems.push(problem.hint("pass credentials in `env`"));
            }
        }
        if let Some(setting) = entry.get("pegboard").and_then(|own| own.get("allowPrivateIssuers")) {
            problems.push(setting.problem("is for remote servers; a program needs no login"));
        }
    }

    /// Reports keys of local servers at a remote one, which would have no effect.
    fn report_program_keys(&self, entry: &Node<'_>, problems: &mut Problems) {
        let setting = entry.get("pegboard").and_then(|own| own.get("inheritEnv"));
        if let Some(setting) = setting.filter(|_| self.inherit_env.is_some()) {
            problems.push(setting.problem("is for servers that are programs; a remote server has no environment"));
        }
    }

    fn take_stdio(&mut self, command: String) -> TransportConfig {
        let mut env = std::mem::take(&mut self.env_file);
        env.retain(|(name, _)| !self.env.iter().any(|(other, _)| other == name));
        env.append(&mut self.env);
        TransportConfig::Stdio { command, args: std::mem::take(&mut self.args), env, cwd: self.cwd.take() }
    }

    fn all_headers(&mut self, entry: &Node<'_>, problems: &mut Problems) -> Vec<(String, Secret)> {
        let mut headers = std::mem::take(&mut self.headers);
        if let Some(token) = self.token.take() {
            if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                let problem = entry.problem("has a token, and an `Authorization` header as well");
                problems.push(problem.hint("keep one of them"));
            }
            headers.push(("Authorization".to_owned(), Secret::new(with_bearer_scheme(&token))));
        }
        headers
    }
}

/// Adds `Bearer` to a token without a scheme.
fn with_bearer_scheme(token: &str) -> String {
    let token = token.trim();
    let has_scheme = token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    if has_scheme { token.to_owned() } else { format!("Bearer {token}") }
}

/// Sets `slot`; if another key has already set it, both values must be equal.
pub(super) fn set_once<T: PartialEq>(slot: &mut Option<T>, value: Option<T>, node: &Node<'_>, problems: &mut Problems) {
    if slot.is_some() && value.is_some() && *slot != value {
        problems.push(node.problem("contradicts another key of the server").hint("keep one of them"));
    }
    *slot = value.or(slot.take());
}
