//! The `pegboard` section.

mod exposure;
mod keys;

use pegboard_config::{
    document::{Node, Problems},
    keys::Section,
};
use pegboard_discovery::{DialectName, Exposure, Validation};
use pegboard_gateway::Profile;
use pegboard_upstream::config::{NewServers, Pinning};

use self::keys::KEYS;
pub(super) use self::keys::{ADDRESS, is_address};
use super::{Config, middleware::MiddlewareConfig, misplaced_keys, state::ServerDefaults};

pub(super) static SECTION: Section<ConfigDraft> =
    Section { advise: misplaced_keys::advice, ..Section::new("pegboard", "Settings of Pegboard.", KEYS) };

/// The configuration while it is read, with the settings that were given explicitly.
#[derive(Debug, Default)]
pub(super) struct ConfigDraft {
    pub(super) config: Config,
    /// `pegboard.dialect`.
    profile: Option<Profile>,
    /// `pegboard.exposure`.
    exposure: Option<Exposure>,
    /// Defaults for servers that do not set a value themselves.
    servers: ServerDefaults,
    /// `pegboard.validateArguments`, and the settings of single servers.
    pub(super) validation: Validation,
    /// Whether an enabled `tool_search` selects its dialect.
    has_search: bool,
    /// Whether a disabled `tool_search` switches search off.
    is_search_off: bool,
}

impl ConfigDraft {
    /// Adds the middleware of the file.
    pub(super) fn add_middleware(&mut self, found: MiddlewareConfig) {
        let gateway = &mut self.config.gateway;
        gateway.policies.general = found.default;
        gateway.policies.by_server = found.servers;
        self.is_search_off = found.search.as_ref().is_some_and(|search| search.is_off);
        if let Some(search) = found.search.filter(|search| !search.is_off) {
            self.has_search = true;
            gateway.discovery = search.settings;
            gateway.is_search_logged = search.is_logged;
            self.config.threshold = search.has_threshold.then_some(gateway.discovery.search_threshold);
        }
    }

    /// Reports a `newServers` that would have no effect.
    pub(super) fn check_new_servers(&self, section: &Node<'_>, problems: &mut Problems) {
        let is_idle = self.servers.new_servers == Some(NewServers::Hold) && self.servers.pinning == Some(Pinning::Off);
        if let Some(node) = section.get("newServers").filter(|_| is_idle) {
            let problem = node.problem("has no effect while `pegboard.pinning` is `off`");
            problems.push(problem.hint("set `pinning` to `warn` or `hold`"));
        }
    }

    /// Returns the finished configuration. A dialect that is set applies to every session, unless
    /// `exposure` is set as well.
    pub(super) fn finish(mut self) -> Config {
        let from_search = self.has_search.then_some(Profile::Dialect(DialectName::Gateway));
        if let Some(profile) = self.profile.or(from_search) {
            self.config.gateway.profile = profile;
            self.config.gateway.exposure = Exposure::Always;
        } else if self.is_search_off {
            self.config.gateway.exposure = Exposure::Never;
        }
        if let Some(exposure) = self.exposure {
            self.config.gateway.exposure = exposure;
        }
        self.servers.apply(&mut self.config.servers);
        self.config.holding = self.servers.holding(&self.config.servers);
        // Whichever section the options of the dialects were read from.
        self.validation.is_on.get_or_insert(true);
        self.config.gateway.discovery.validation = self.validation;
        self.config
    }
}
