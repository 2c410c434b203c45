//! The environment of servers that are child processes: which variables of this process they
//! inherit.
//!
//! A server inherits a short list of default variables (`names.rs`), the settings of the package
//! runner that starts it, and the variables that `inheritEnv` names. Variables that supply
//! front-door tokens are never inherited: a server that had one could call the gateway as any of
//! its clients.

mod names;
mod suspects;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fmt,
    sync::Arc,
};

use pegboard_process::System;

use self::names::{DefaultVariables, matches_pattern};
pub(crate) use self::suspects::find_suspects;
use crate::config::{ServerConfig, TransportConfig};

/// The variable from which `pegboard status` and other commands read a front-door token.
const CLIENT_TOKEN: &str = "PEGBOARD_TOKEN";

/// The variable with the nesting depth of gateways that start gateways.
const DEPTH: &str = "PEGBOARD_DEPTH";

/// Returns the nesting depth of this process: the number of gateways above it that started it.
pub fn gateway_depth() -> u32 {
    std::env::var_os(DEPTH).map_or(0, |text| parse_depth(&text))
}

/// Parses a nesting depth. A value that is not a number was not set by a gateway and counts as 0.
fn parse_depth(text: &OsStr) -> u32 {
    text.to_str().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Variables that a server inherits in addition to the default ones: the setting `inheritEnv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritEnv {
    /// Variables whose name matches one of these; `*` matches any text.
    Matching(Vec<String>),
    /// All variables.
    All,
}

impl InheritEnv {
    /// Merges the setting of one server with the general one. An empty list of the server means that
    /// no variables are added.
    pub fn merge(general: Option<&Self>, own: Option<Self>) -> Option<Self> {
        match (general, own) {
            (general, None) => general.cloned(),
            (_, Some(Self::Matching(own))) if own.is_empty() => Some(Self::Matching(own)),
            (None, own) => own,
            (Some(Self::All), _) | (_, Some(Self::All)) => Some(Self::All),
            (Some(Self::Matching(general)), Some(Self::Matching(own))) => {
                Some(Self::Matching([general.as_slice(), &own].concat()))
            }
        }
    }

    fn matches(&self, name: Option<&str>) -> bool {
        match self {
            Self::Matching(patterns) => {
                name.is_some_and(|name| patterns.iter().any(|pattern| matches_pattern(pattern, name)))
            }
            Self::All => true,
        }
    }
}

/// Names of variables that no server inherits, regardless of `inheritEnv`: those that supply
/// front-door tokens.
#[derive(Clone, Debug, Default)]
pub struct ReservedVariables(Arc<BTreeSet<String>>);

impl PartialEq for ReservedVariables {
    /// Always true. Servers carry these names along, but other tokens are not a reason to
    /// restart a server; a fleet applies the latest names to every server that it starts.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl ReservedVariables {
    /// Reserves these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(names.into_iter().collect()))
    }

    /// Returns the union of the reserved names of these servers.
    pub(crate) fn of_all<'a>(servers: impl IntoIterator<Item = &'a ServerConfig>) -> Self {
        Self::new(servers.into_iter().flat_map(|server| server.reserved.0.iter().cloned()))
    }

    /// Returns whether a variable is reserved.
    pub fn contains(&self, name: &str) -> bool {
        is_same_name(name, CLIENT_TOKEN) || self.0.iter().any(|reserved| is_same_name(reserved, name))
    }
}

/// The environment of one server.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: Vec<(OsString, OsString)>,
    withheld: Vec<String>,
}

impl fmt::Debug for Environment {
    /// Writes names only: values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables().map(|(name, _)| name)).finish()
    }
}

impl Environment {
    /// Builds the environment of a server from that of this process.
    pub(crate) fn of(server: &ServerConfig, reserved: &ReservedVariables) -> Self {
        Self::build(std::env::vars_os(), server, reserved)
    }

    fn build(
        parent: impl IntoIterator<Item = (OsString, OsString)>,
        server: &ServerConfig,
        reserved: &ReservedVariables,
    ) -> Self {
        let TransportConfig::Stdio { command, args, env: own, .. } = &server.transport else { return Self::default() };
        let short_list = DefaultVariables::of(command, args);
        let mut environment = Self::default();
        let mut depth = 0;
        for (name, value) in parent {
            let text = name.to_str();
            if text.is_some_and(|name| is_same_name(name, DEPTH)) {
                depth = parse_depth(&value);
                continue;
            }
            let is_own = |name: &str| own.iter().any(|(other, _)| is_same_name(other, name));
            if text.is_some_and(|name| is_own(name) || reserved.contains(name)) {
                continue;
            }
            let is_wanted = server.inherit_env.as_ref().is_some_and(|inherited| inherited.matches(text));
            if is_wanted || text.is_some_and(|name| short_list.contains(name)) {
                environment.variables.push((name, value));
            } else if !value.is_empty() {
                environment.withheld.extend(text.map(str::to_owned));
            }
        }
        // Regardless of the configuration: it stops a configuration that starts itself.
        let own = own.iter().filter(|(name, _)| !is_same_name(name, DEPTH));
        environment.variables.extend(own.map(|(name, value)| (name.into(), value.expose().into())));
        environment.variables.push((DEPTH.into(), depth.saturating_add(1).to_string().into()));
        environment.withheld.sort_unstable();
        environment
    }

    /// Returns all variables of the server.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the `PATH` for finding the server's program.
    pub(crate) fn path(&self) -> Option<&OsStr> {
        let is_path = |name: &OsStr| name.to_str().is_some_and(|name| is_same_name(name, "PATH"));
        self.variables().find(|(name, _)| is_path(name)).map(|(_, value)| value)
    }

    /// Returns the sorted names of the variables of this process that the server does not inherit,
    /// without reserved ones.
    pub(crate) fn withheld(&self) -> &[String] {
        &self.withheld
    }
}

/// Returns the `PATH` for finding the program of `server`.
pub fn search_path(server: &ServerConfig) -> Option<OsString> {
    Environment::of(server, &server.reserved).path().map(OsStr::to_owned)
}

/// Returns whether the system treats two names as the same variable.
fn is_same_name(one: &str, other: &str) -> bool {
    match System::current().ignores_case_of_variables() {
        true => one.eq_ignore_ascii_case(other),
        false => one == other,
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::Secret;

    use super::*;

    const PARENT: &[(&str, &str)] = &[
        ("PATH", "/bin"),
        ("HOME", "/home/ada"),
        ("LC_TIME", "C"),
        ("XDG_DATA_HOME", "/data"),
        ("XDG_RUNTIME_DIR", "/run/user/7"),
        ("HTTPS_PROXY", "http://proxy"),
        ("no_proxy", "*"),
        ("SSL_CERT_FILE", "/certs"),
        ("npm_config_registry", "https://registry"),
        ("UV_INDEX_URL", "https://index"),
        ("ADMIN_TOKEN", "front"),
        ("PEGBOARD_TOKEN", "front"),
        ("GITHUB_TOKEN", "secret"),
        ("GITHUB_HOST", "host"),
        ("OPENAI_API_KEY", "secret"),
        ("EMPTY", ""),
    ];

    fn server(command: &str, env: &[(&str, &str)], inherit_env: Option<InheritEnv>) -> ServerConfig {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
        let transport = TransportConfig::Stdio { command: command.to_owned(), args: Vec::new(), env, cwd: None };
        ServerConfig { inherit_env, ..ServerConfig::new("s", transport) }
    }

    fn environment(server: &ServerConfig) -> Environment {
        let parent = PARENT.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::build(parent, server, &ReservedVariables::new(["ADMIN_TOKEN".to_owned()]))
    }

    fn matching(patterns: &[&str]) -> Option<InheritEnv> {
        Some(InheritEnv::Matching(patterns.iter().map(|&pattern| pattern.to_owned()).collect()))
    }

    const SHORT: &str = "PATH HOME LC_TIME XDG_DATA_HOME HTTPS_PROXY no_proxy SSL_CERT_FILE";

    #[test]
    fn what_a_server_inherits() {
        let check = |server: ServerConfig, more: &str| {
            let found = environment(&server);
            let names: Vec<&str> = found.variables().filter_map(|(name, _)| name.to_str()).collect();
            assert_eq!(names.join(" "), format!("{SHORT}{more} {DEPTH}"), "{server:?}");
        };
        check(server("node", &[], None), "");
        check(server("npx", &[], None), " npm_config_registry");
        check(server("/usr/bin/uvx", &[], None), " UV_INDEX_URL");
        check(server("node", &[], matching(&[])), "");
        check(server("node", &[], matching(&["GITHUB_TOKEN", "NONE"])), " GITHUB_TOKEN");
        check(server("node", &[], matching(&["GITHUB_*"])), " GITHUB_TOKEN GITHUB_HOST");
        // Neither by its name, nor by a pattern, nor with everything.
        check(server("node", &[], matching(&["ADMIN_TOKEN", "PEGBOARD_TOKEN"])), "");
        check(server("node", &[], matching(&["*_TOKEN"])), " GITHUB_TOKEN");
        let all = environment(&server("node", &[], Some(InheritEnv::All)));
        assert_eq!((all.variables().count(), all.withheld()), (PARENT.len() - 1, &[][..]));
        // A variable of its own takes precedence, also one with a reserved name.
        let own = environment(&server("node", &[("HOME", "/srv"), ("ADMIN_TOKEN", "own")], None));
        let value = |name: &str| own.variables().find(|(other, _)| *other == name).map(|(_, value)| value.to_owned());
        assert_eq!((value("HOME"), value("ADMIN_TOKEN")), (Some("/srv".into()), Some("own".into())));
    }

    #[test]
    fn nested_gateways_are_counted() {
        let check = |parent: &[(&str, &str)], own: &[(&str, &str)], expected: &str| {
            let parent = parent.iter().map(|(name, value)| (name.into(), value.into()));
            let found = Environment::build(parent, &server("pegboard", own, None), &ReservedVariables::default());
            let values: Vec<&OsStr> = found.variables().filter(|(name, _)| *name == DEPTH).map(|(_, it)| it).collect();
            assert_eq!(values, [expected], "{own:?}");
        };
        check(&[], &[], "1");
        check(&[(DEPTH, "2")], &[], "3");
        check(&[(DEPTH, "2")], &[(DEPTH, "0")], "3");
        check(&[(DEPTH, "many")], &[], "1");
        check(&[(DEPTH, "4294967295")], &[], "4294967295");
    }

    #[test]
    fn what_is_withheld() {
        let found = environment(&server("node", &[("GITHUB_TOKEN", "own"), ("PATH", "/own")], None));
        let expected = ["GITHUB_HOST", "OPENAI_API_KEY", "UV_INDEX_URL", "XDG_RUNTIME_DIR", "npm_config_registry"];
        assert_eq!(found.withheld(), expected);
        assert_eq!(found.path(), Some(OsStr::new("/own")));
    }

    #[test]
    fn the_setting_of_a_server_adds_to_the_general_one() {
        let check = |general: Option<InheritEnv>, own: Option<InheritEnv>, expected: Option<InheritEnv>| {
            assert_eq!(InheritEnv::merge(general.as_ref(), own), expected);
        };
        check(None, None, None);
        check(matching(&["A"]), None, matching(&["A"]));
        check(None, matching(&["B"]), matching(&["B"]));
        check(matching(&["A"]), matching(&["B"]), matching(&["A", "B"]));
        check(matching(&["A"]), Some(InheritEnv::All), Some(InheritEnv::All));
        check(Some(InheritEnv::All), matching(&["B"]), Some(InheritEnv::All));
        check(Some(InheritEnv::All), matching(&[]), matching(&[]));
        check(matching(&["A"]), matching(&[]), matching(&[]));
    }
}
