//! Differences between a server's own result and the one through the gateway, with their reasons.

use std::fmt;

/// One run of the suite through the gateway.
pub(super) struct Run {
    pub(super) server: &'static str,
    pub(super) revision: &'static str,
    pub(super) search: bool,
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let search = if self.search { "on" } else { "off" };
        write!(formatter, "{} {} search {search}", self.server, self.revision)
    }
}

/// Scenarios that turn out differently, all for one reason.
struct Known {
    /// Empty: all servers.
    servers: &'static [&'static str],
    revision: &'static str,
    /// Nothing: with search on and with search off.
    search: Option<bool>,
    scenarios: &'static [&'static str],
    reason: &'static str,
}

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
const PACKAGES: &[&str] = &["python", "fastmcp", "typescript"];
const FASTMCP: &[&str] = &["fastmcp"];
const FIXTURE_LEGACY: &[&str] = &["fixture-legacy"];

const HIDDEN: &str = "search hides the tool that the scenario looks for in the list";
const HOST: &str = "FastMCP does not check the Host header by default, the gateway does";

const KNOWN: &[Known] = &[
    Known {
        servers: FIXTURE_LEGACY,
        revision: MODERN,
        search: None,
        scenarios: &["server-stateless"],
        reason: "a legacy server has no error code for a capability that the client lacks",
    },
    Known {
        servers: FIXTURE_LEGACY,
        revision: MODERN,
        search: None,
        scenarios: &["input-required-result-basic-elicitation"],
        reason: "a question of a legacy server has no key that the gateway could pass on",
    },
    Known {
        servers: FIXTURE_LEGACY,
        revision: MODERN,
        search: None,
        scenarios: &["input-required-result-multiple-input-requests"],
        reason: "a legacy server asks one question after the other",
    },
    Known {
        servers: PACKAGES,
        revision: LEGACY,
        search: None,
        scenarios: &["server-sse-multiple-streams", "server-sse-polling"],
        reason: "the gateway answers with JSON, not with a stream, where nothing precedes the result",
    },
    Known {
        servers: PACKAGES,
        revision: LEGACY,
        search: Some(true),
        scenarios: &["json-schema-2020-12"],
        reason: HIDDEN,
    },
    Known {
        servers: PACKAGES,
        revision: MODERN,
        search: Some(true),
        scenarios: &["json-schema-2020-12", "http-custom-header-server-validation"],
        reason: HIDDEN,
    },
    Known {
        servers: &["python", "typescript"],
        revision: MODERN,
        search: None,
        scenarios: &["tasks-capability-negotiation", "tasks-dispatch-and-envelope", "tasks-lifecycle"],
        reason: "for an unknown tool, the server answers with a JSON-RPC error and the gateway with a failed result",
    },
    Known { servers: FASTMCP, revision: LEGACY, search: None, scenarios: &["dns-rebinding-protection"], reason: HOST },
    Known { servers: FASTMCP, revision: MODERN, search: None, scenarios: &["dns-rebinding-protection"], reason: HOST },
    Known {
        servers: FASTMCP,
        revision: MODERN,
        search: None,
        scenarios: &["server-stateless"],
        reason: "FastMCP refuses subscriptions, the gateway accepts them",
    },
    Known {
        servers: FASTMCP,
        revision: MODERN,
        search: None,
        scenarios: &["tasks-capability-negotiation", "tasks-dispatch-and-envelope"],
        reason: "FastMCP without tasks has another error code for their methods than the extension, the gateway has that of the extension",
    },
    Known {
        servers: &["typescript"],
        revision: MODERN,
        search: Some(false),
        scenarios: &["http-custom-header-server-validation"],
        reason: "the low-level server does not check the headers of parameters, the gateway does",
    },
];

/// The reason why a scenario differs in a run.
pub(super) fn reason(run: &Run, scenario: &str) -> Option<&'static str> {
    matching(run).find(|known| known.scenarios.contains(&scenario)).map(|known| known.reason)
}

/// All scenarios that differ in a run.
pub(super) fn scenarios(run: &Run) -> impl Iterator<Item = &'static str> {
    matching(run).flat_map(|known| known.scenarios.iter().copied())
}

fn matching(run: &Run) -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().filter(move |known| {
        (known.servers.is_empty() || known.servers.contains(&run.server))
            && known.revision == run.revision
            && known.search.is_none_or(|search| search == run.search)
    })
}
