//! Restrictions in server entries of other clients, and selections that name unknown servers. A
//! restriction that is not understood would open what was meant to be closed.

use std::collections::HashSet;

use pegboard_config::{
    document::{Node, Problem, Problems},
    keys::did_you_mean,
};
use pegboard_core::naming::fold;
use pegboard_discovery::policy::{Middleware, NamePattern};
use pegboard_gateway::GatewaySettings;
use pegboard_upstream::config::servers;

/// Applies the tool restrictions in server entries.
pub(super) fn apply(root: &Node<'_>, settings: &mut GatewaySettings, problems: &mut Problems) {
    // The entries themselves were read before; what is wrong with them was said.
    for entry in servers::entries(root, &mut Problems::new()) {
        let include = names(&entry, "includeTools", problems);
        let allowed = [include, listed_tools(&entry)];
        let denied = ["excludeTools", "disabledTools"].map(|key| names(&entry, key, problems));
        let filter = |allow: Vec<NamePattern>, deny: Vec<NamePattern>| Middleware::ToolFilter { allow, deny };
        let mut steps: Vec<Middleware> = Vec::new();
        for names in allowed.into_iter().flatten() {
            // An empty list allows nothing.
            let nothing = if names.is_empty() { NamePattern::new("").ok() } else { None };
            steps.push(filter(patterns(&names), nothing.into_iter().collect()));
        }
        let denied: Vec<String> = denied.into_iter().flatten().flatten().collect();
        if !denied.is_empty() {
            steps.push(filter(Vec::new(), patterns(&denied)));
        }
        if steps.is_empty() {
            continue;
        }
        let name = entry.key();
        let at = settings.policies.by_server.iter().position(|(server, _)| server == name).unwrap_or_else(|| {
            settings.policies.by_server.push((name.to_owned(), settings.policies.general.clone()));
            settings.policies.by_server.len() - 1
        });
        settings.policies.by_server[at].1.extend(steps);
    }
}

/// Returns the names in a list of an entry; `None` if there is no list.
fn names(entry: &Node<'_>, key: &str, problems: &mut Problems) -> Option<Vec<String>> {
    let node = entry.get(key).filter(|node| !node.is_null())?;
    Some(node.as_texts(problems)?.into_iter().map(str::to_owned).collect())
}

/// Returns the names in `tools`, which Copilot treats as an allow list unless it contains `*`.
/// Other clients keep other things there.
fn listed_tools(entry: &Node<'_>) -> Option<Vec<String>> {
    names(entry, "tools", &mut Problems::new()).filter(|names| !names.iter().any(|name| name == "*"))
}

/// Returns patterns that match these names exactly.
fn patterns(names: &[String]) -> Vec<NamePattern> {
    // Some clients allow a note about arguments behind the name.
    let name = |text: &str| text.split('(').next().unwrap_or_default().trim().to_owned();
    names.iter().filter_map(|text| NamePattern::new(&format!("^{}$", regex::escape(&name(text)))).ok()).collect()
}

/// Returns security settings of other clients that Pegboard does not apply.
pub(super) fn unused_settings(root: &Node<'_>) -> Vec<Problem> {
    let mut notices = Vec::new();
    for entry in servers::entries(root, &mut Problems::new()) {
        let is_off = |key: &str, off: bool| entry.get(key).is_some_and(|node| node.to_json() == off);
        if is_off("disabled", true) || is_off("enabled", false) {
            continue;
        }
        for (key, message, hint) in UNUSED {
            let is_set = |node: &Node<'_>| !node.is_null() && node.to_json() != false;
            if let Some(node) = entry.get(key).filter(is_set) {
                let mut notice = node.problem(message).hint(hint);
                notice.server = Some(entry.key().to_owned());
                notices.push(notice);
            }
        }
    }
    notices
}

/// Keys of server entries, why they are not applied, and what to do instead.
const UNUSED: [(&str, &str, &str); 3] = [
    (
        "auth",
        "is not applied: requests to the server carry no credentials from it",
        "write `oauth`, `authorizationToken` or `headers` instead",
    ),
    (
        "sandbox",
        "is not applied: Pegboard starts the server without a sandbox",
        "start the sandbox with `command`, such as `bwrap` or `docker run -i`",
    ),
    (
        "sandboxEnabled",
        "is not applied: Pegboard starts the server without a sandbox",
        "start the sandbox with `command`, such as `bwrap` or `docker run -i`",
    ),
];

/// Reports servers in selections that are not configured.
pub(super) fn check_selections(section: &Node<'_>, servers: &[&str], problems: &mut Problems) {
    if servers.is_empty() {
        return;
    }
    let known: HashSet<String> = servers.iter().map(|server| fold(server)).collect();
    let tokens = section.get("tokens").and_then(|tokens| tokens.as_list(&mut Problems::new())).unwrap_or_default();
    let of_tokens = tokens.iter().filter_map(|token| token.get("selection"));
    for selection in section.get("selection").into_iter().chain(of_tokens) {
        for key in ["servers", "tools", "deny"] {
            let items = selection.get(key).and_then(|list| list.as_list(&mut Problems::new())).unwrap_or_default();
            for item in items {
                let text = item.as_text(&mut Problems::new()).unwrap_or_default();
                // A bare name may be a tool's, except where only servers can be meant.
                let server = text.split_once(':').map(|(server, _)| server).or((key == "servers").then_some(text));
                let is_known = |server: &str| known.contains(&fold(server));
                if let Some(server) = server.filter(|server| !server.is_empty() && !is_known(server)) {
                    let problem = item.problem("names a server that is not configured");
                    // Finding similar names is slow, and a hundredth suggestion is useless.
                    let near = if problems.is_full() { None } else { did_you_mean(server, servers.iter().copied()) };
                    problems.push(match near {
                        Some(hint) => problem.hint(hint),
                        None => problem,
                    });
                }
            }
        }
    }
}
