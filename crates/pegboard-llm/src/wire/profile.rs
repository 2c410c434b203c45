//! What is known about a provider and its models.

use super::Wire;
use crate::schemas::SchemaRule;

/// The limit on tools where a provider names none: as many as any provider takes.
pub(crate) const MAX_TOOLS: usize = 10_000;

/// Facts about a provider: one constant in its file, one line in
/// [`providers`](super::providers).
pub(crate) struct Profile {
    /// The name in `PROVIDER/MODEL`.
    pub(crate) name: &'static str,
    /// The name of the company, the same for all of its APIs.
    pub(crate) vendor: &'static str,
    /// How it writes conversations.
    pub(crate) wire: Wire,
    /// The base URL that is used unless another one is set.
    pub(crate) base_url: &'static str,
    /// The environment variables that hold its key and another base URL.
    pub(crate) variables: Variables,
    /// Changes the base URL that the named variable holds, for variables that other programs
    /// read differently.
    pub(crate) adapt_base_url: fn(variable: &str, url: String) -> String,
    /// Whether an endpoint at another base URL may do without a key.
    pub(crate) is_key_optional: bool,
    /// Tools that one request may define.
    pub(crate) max_tools: usize,
    /// The rules for input schemas of tools.
    pub(crate) schema_rules: &'static [SchemaRule],
    /// Returns what a model can do; the name is in lower case.
    pub(crate) capabilities: fn(name: &str) -> Capabilities,
}

impl Profile {
    /// Leaves a base URL as it is.
    pub(crate) fn same_base_url(_: &str, url: String) -> String {
        url
    }

    /// Nothing is known about any model.
    pub(crate) fn no_capabilities(_: &str) -> Capabilities {
        Capabilities::default()
    }
}

/// The environment variables of a provider. Of several, the first one that is set counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variables {
    /// Those that hold the key.
    pub keys: &'static [&'static str],
    /// Those that hold another base URL.
    pub base_urls: &'static [&'static str],
}

/// The capabilities and requirements of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Whether it understands `defer_loading` and references to tools.
    pub(crate) references: Support,
    /// Whether it can be given a search that the client executes.
    pub(crate) client_search: Support,
    /// Whether it rejects a forced tool choice.
    pub(crate) refuses_forced_choice: bool,
    /// Whether it accepts its thinking only behind an unchanged prefix.
    pub(crate) binds_thinking: bool,
    /// Whether it rejects calls in a history that carry no signature.
    pub(crate) signs_calls: bool,
}

/// Whether a model understands something, as far as that can be known without asking it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Support {
    /// Its documentation says so.
    Documented,
    /// It is newer than models of its family that do.
    Likely,
    /// Nothing says so.
    #[default]
    Unknown,
}
