//! Checks across servers: duplicates, name conflicts and tool limits.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use pegboard_core::naming::{ShownNames, Style};
use pegboard_discovery::{DialectName, Exposure};
use pegboard_gateway::Profile;
use pegboard_llm::Provider;
use pegboard_upstream::Item;

use super::{
    CheckedConfig,
    finding::{Check, Finding, count, join_names},
    start::CheckedServer,
};
use crate::clients::server::Server;

/// Finds entries that mean the same server.
pub(super) fn find_duplicate_entries(servers: &[(String, Server)]) -> Vec<Finding> {
    let enabled: Vec<&(String, Server)> = servers.iter().filter(|(_, server)| !server.is_disabled).collect();
    let mut findings = Vec::new();
    for (at, (name, server)) in enabled.iter().enumerate() {
        let same = enabled[..at].iter().find(|(_, other)| server.is_same(other));
        let message = |other: &str| format!("duplicate of the server `{other}`: same program or address");
        let hint = "remove one of them, or disable it with `\"disabled\": true`";
        findings.extend(same.map(|(other, _)| Finding::warning(Check::DuplicateServer, message(other), hint).of(name)));
    }
    findings
}

/// Finds conflicts between the tools of servers.
pub(super) fn find_tool_conflicts(
    checked_servers: &[CheckedServer],
    checked_config: &CheckedConfig,
    known: &[Finding],
) -> Vec<Finding> {
    let mut findings = find_duplicate_tools(checked_servers, known);
    let enabled = checked_config.config.servers.iter().filter(|server| server.is_enabled).count();
    let is_prefixed = checked_config.config.gateway.prefixes.applies_to(enabled);
    if !is_prefixed {
        findings.extend(find_name_clashes(checked_servers));
    }
    let style = Style { is_prefixed, ..checked_config.config.gateway.names.clone() };
    findings.extend(find_renamed_tools(checked_servers, &style));
    findings.extend(check_tool_count(checked_servers, checked_config));
    findings.extend(check_tool_limit(checked_servers, checked_config));
    findings
}

/// Finds servers whose tools are all offered by another one.
fn find_duplicate_tools(checked_servers: &[CheckedServer], known: &[Finding]) -> Vec<Finding> {
    // Many a server has one tool that is called `search`; then all of it must be the same.
    let names = |checked_server: &CheckedServer| {
        let is_one = checked_server.tools.len() == 1;
        let key = |tool: &Item| if is_one { tool.raw.get().to_owned() } else { tool.key.clone() };
        checked_server.tools.iter().map(key).collect::<BTreeSet<_>>()
    };
    let is_known = |checked_server: &CheckedServer| {
        let is_it = |finding: &Finding| finding.check == Check::DuplicateServer;
        known.iter().any(|finding| is_it(finding) && finding.server.as_ref() == Some(&checked_server.name))
    };
    let mut seen: BTreeMap<BTreeSet<String>, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for checked_server in
        checked_servers.iter().filter(|checked_server| !checked_server.tools.is_empty() && !is_known(checked_server))
    {
        match seen.get(&names(checked_server)) {
            Some(other) => {
                let message =
                    format!("the server offers the same {} as `{other}`", count(checked_server.tools.len(), "tool"));
                let hint = "remove one of them; if you need both, for example for two accounts, give each a distinct \
                            `description`";
                findings.push(Finding::warning(Check::DuplicateTools, message, hint).of(&checked_server.name));
            }
            None => _ = seen.insert(names(checked_server), &checked_server.name),
        }
    }
    findings
}

/// Finds names that several servers use, without a prefix that distinguishes them.
fn find_name_clashes(checked_servers: &[CheckedServer]) -> Option<Finding> {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for checked_server in checked_servers {
        checked_server.tools.iter().for_each(|tool| owners.entry(&tool.key).or_default().push(&checked_server.name));
    }
    owners.retain(|_, servers| servers.len() > 1);
    let message = format!("{} of several servers: {}", count(owners.len(), "name").replace("name", "tool name"), {
        join_names(owners.keys().copied())
    });
    let details: Vec<String> =
        owners.iter().take(5).map(|(name, servers)| format!("{name}: {}", servers.join(", "))).collect();
    let hint = "`\"prefix\": \"auto\"` prefixes all names with the server; otherwise only these names get a prefix";
    (!owners.is_empty()).then(|| Finding::warning(Check::NameClash, message, hint).details(details))
}

/// Finds names that providers reject, which clients see in another form.
fn find_renamed_tools(checked_servers: &[CheckedServer], style: &Style) -> Vec<Finding> {
    let is_fine = |name: &str| {
        name.len() <= style.limit && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let mut by_server: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for CheckedServer { name: server, tools, .. } in checked_servers {
        let names = ShownNames::new(style, tools.iter().map(|tool| (server.as_str(), tool.key.as_str())));
        for (name, shown) in tools.iter().map(|tool| tool.key.as_str()).zip(names.iter()) {
            let is_too_long = style.is_prefixed && server.len() + style.separator.len() + name.len() > style.limit;
            if !is_fine(name) || is_too_long {
                by_server.entry(server).or_default().push(format!("{name} is shown as {shown}"));
            }
        }
    }
    let finding = |(server, mut names): (&str, Vec<String>)| {
        let message = format!("{} a name that providers reject; Pegboard renames it", {
            let number = names.len();
            format!("{} {}", count(number, "tool"), if number == 1 { "has" } else { "have" })
        });
        names.truncate(5);
        let hint = "no action needed; if names are too long, use a shorter server name";
        Finding::note(Check::RefusedName, message, hint).details(names).of(server)
    };
    by_server.into_iter().map(finding).collect()
}

/// Finds tool limits that do not suit the number of tools.
fn check_tool_limit(checked_servers: &[CheckedServer], checked_config: &CheckedConfig) -> Option<Finding> {
    let gateway = &checked_config.config.gateway;
    if gateway.profile != Profile::Dialect(DialectName::Gateway) || !gateway.discovery.enabled {
        return None;
    }
    let tools: usize = checked_servers.iter().map(|checked_server| checked_server.tools.len()).sum();
    let limit = gateway.discovery.max_tools_limit;
    let (fits, advice) = recommended_limits(tools);
    let message = format!("{}, but `maxToolsLimit` is {limit}", count(tools, "tool"));
    let hint = format!("the recommended value is {advice}");
    (tools > 0 && !fits.contains(&limit)).then(|| Finding::note(Check::ToolLimit, message, hint))
}

/// Returns the limits that the `gateway` reference document recommends for so many tools.
fn recommended_limits(tools: usize) -> (RangeInclusive<usize>, &'static str) {
    match tools {
        ..50 => (0..=0, "0, which lists all tools without a search"),
        50..100 => (50..=75, "50 to 75"),
        100..500 => (50..=100, "50 to 100"),
        500.. => (50..=50, "50"),
    }
}

fn check_tool_count(checked_servers: &[CheckedServer], checked_config: &CheckedConfig) -> Option<Finding> {
    let gateway = &checked_config.config.gateway;
    let are_all_shown = gateway.profile == Profile::Passthrough || matches!(gateway.exposure, Exposure::Never);
    let tools: usize = checked_servers.iter().map(|checked_server| checked_server.tools.len()).sum();
    let most = |provider: &Provider| tools > provider.max_tools();
    let refusing: Vec<String> = Provider::ALL
        .iter()
        .filter(|provider| most(provider))
        .map(|one| format!("{} accepts {}", one.as_str(), one.max_tools()))
        .collect();
    let message = format!("{tools} tools are shown at once, but {}", refusing.join(", "));
    let hint = "use tool search: set `\"dialect\": \"bridge\"`, or remove `exposure` and `dialect`";
    (are_all_shown && !refusing.is_empty()).then(|| Finding::warning(Check::TooManyTools, message, hint))
}
