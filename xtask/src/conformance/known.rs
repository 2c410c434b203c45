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

const HIDDEN: &str = "search hides the tool that the scenario looks for in the list";
const HOST: &str = "FastMCP does not check the Host header by default, the gateway does";

const KNOWN: &[Known] = &[
    Known {
        servers: PACKAGES,
        revision: LEGACY,
        search: None,
        scenarios: &[
            "tools-call-sampling",
            "tools-call-elicitation",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
        ],
        reason: "the gateway speaks 2026-07-28 to a server that knows both revisions, where it cannot ask",
    },
    // The suite leaves a question open, and the gateway refuses a question on a connection where it
    // could be another client's: so none of the later ones are asked.
    Known {
        servers: &["fixture-legacy"],
        revision: MODERN,
        search: None,
        scenarios: &[
            "input-required-result-basic-elicitation",
            "input-required-result-basic-sampling",
            "input-required-result-basic-list-roots",
            "input-required-result-request-state",
            "input-required-result-multiple-input-requests",
            "input-required-result-multi-round",
            "input-required-result-non-tool-request",
            "input-required-result-result-type",
            "input-required-result-tampered-state",
            "input-required-result-capability-check",
        ],
        reason: "another client's question is open on the shared connection",
    },
    Known {
        servers: &["fixture-legacy"],
        revision: MODERN,
        search: None,
        scenarios: &["server-stateless"],
        reason: "a legacy server is told the gateway's capabilities once, not those of each request",
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
        revision: LEGACY,
        search: None,
        scenarios: &["resources-subscribe", "resources-unsubscribe"],
        reason: "FastMCP refuses subscriptions, the gateway accepts them",
    },
    Known {
        servers: FASTMCP,
        revision: MODERN,
        search: None,
        scenarios: &["server-stateless"],
        reason: "FastMCP refuses subscriptions, the gateway accepts them",
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
