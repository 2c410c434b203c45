//! A server of which some keys were read.

use std::path::PathBuf;

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
    HttpKind, Limits, OAuthConfig, Pinning, PromptInstructions, ServerConfig, Timeouts, TransportConfig,
};
use crate::environment::InheritEnv;

/// What is known of a server so far.
#[derive(Default)]
pub(super) struct Draft {
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
    pub(super) limits: Limits,
    pub(super) era: Option<Era>,
    pub(super) lazy: Option<bool>,
    pub(super) breaker: Option<BreakerSettings>,
    pub(super) pinning: Option<Pinning>,
    pub(super) process_namespace: Option<ProcessNamespace>,
    pub(super) secrets: Vec<Secret>,
    pub(super) description: Option<String>,
    pub(super) oauth: OAuthConfig,
    pub(super) inherit_env: Option<InheritEnv>,
    pub(super) prompt_instructions: PromptInstructions,
}

impl Draft {
    /// The server, if its keys agree on how it is reached.
    pub(super) fn finish(mut self, entry: &Node<'_>, problems: &mut Problems) -> Option<ServerConfig> {
        let transport = self.transport(entry, problems)?;
        Some(ServerConfig {
            description: self.description,
            env_file: self.env_path,
            is_enabled: self.is_enabled.unwrap_or(true),
            timeouts: self.timeouts,
            limits: self.limits,
            era: self.era,
            lazy: self.lazy,
            breaker: self.breaker,
            pinning: self.pinning,
            process_namespace: self.process_namespace,
            secrets: self.secrets,
            oauth: self.oauth,
            inherit_env: self.inherit_env,
            prompt_instructions: self.prompt_instructions,
            ..ServerConfig::new(entry.key(), transport)
        })
    }

    /// [`expand`] that takes note of what was filled in.
    pub(super) fn expand(&mut self, node: &Node<'_>, text: &str, scope: &mut Scope<'_>) -> Expanded {
        let mut expanded = expand(node, text, scope);
        self.secrets.extend(expanded.secrets.drain(..).map(Secret::new));
        expanded
    }

    /// Takes in an address, which several keys can name.
    pub(super) fn address(&mut self, node: &Node<'_>, kind: HttpKind, scope: &mut Scope<'_>) {
        if let Some(url) = read_url(node, scope) {
            self.secrets.extend(url.secrets.into_iter().map(Secret::new));
            set_once(&mut self.url, Some((url.text, kind)), node, scope.problems);
        }
    }

    /// How to reach the server, if its keys agree on it.
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
                self.refuse_remote_keys(entry, problems);
                Some(self.stdio(command.text))
            }
            (None, Some((url, kind))) => {
                self.refuse_program_keys(entry, problems);
                let kind = match self.kind {
                    Some("sse") => HttpKind::Sse,
                    Some("streamable-http" | "streamableHttp") => HttpKind::Streamable,
                    _ => kind,
                };
                Some(TransportConfig::Http { url, headers: self.all_headers(entry, problems), kind })
            }
            // Said already, when the keys were read.
            (None, None) => None,
        }
    }

    /// Credentials that nobody would send are a misunderstanding worth telling.
    fn refuse_remote_keys(&self, entry: &Node<'_>, problems: &mut Problems) {
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

    /// A setting without effect is a misunderstanding as well.
    fn refuse_program_keys(&self, entry: &Node<'_>, problems: &mut Problems) {
        let setting = entry.get("pegboard").and_then(|own| own.get("inheritEnv"));
        if let Some(setting) = setting.filter(|_| self.inherit_env.is_some()) {
            problems.push(setting.problem("is for servers that are programs; a remote server has no environment"));
        }
    }

    fn stdio(&mut self, command: String) -> TransportConfig {
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
            headers.push(("Authorization".to_owned(), Secret::new(bearer(&token))));
        }
        headers
    }
}

/// `Bearer` in front of a token that does not have it yet.
fn bearer(token: &str) -> String {
    let token = token.trim();
    let has_scheme = token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    if has_scheme { token.to_owned() } else { format!("Bearer {token}") }
}

/// Fills `slot`, which another key can fill as well; then both must say the same.
pub(super) fn set_once<T: PartialEq>(slot: &mut Option<T>, value: Option<T>, node: &Node<'_>, problems: &mut Problems) {
    if slot.is_some() && value.is_some() && *slot != value {
        problems.push(node.problem("contradicts another key of the server").hint("keep one of them"));
    }
    *slot = value.or(slot.take());
}
