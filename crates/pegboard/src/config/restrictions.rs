//! What other clients say about which tools of a server may be used, and whether the servers
//! that a selection names exist. A restriction that is not understood would open what was
//! meant to be shut.

use std::collections::HashSet;

use pegboard_core::naming::fold;
use pegboard_gateway::{
    GatewaySettings,
    middleware::{Middleware, NamePattern},
};
use pegboard_upstream::config::{
    document::{Node, Problems},
    keys::did_you_mean,
    servers,
};

/// Puts what servers' entries say about single tools into effect.
pub(super) fn apply(root: &Node<'_>, settings: &mut GatewaySettings, problems: &mut Problems) {
    // The entries themselves were read before; what is wrong with them was said.
    for entry in servers::entries(root, &mut Problems::new()) {
        let allow = patterns(&entry, &["includeTools"], problems);
        let deny = patterns(&entry, &["excludeTools", "disabledTools"], problems);
        if allow.is_empty() && deny.is_empty() {
            continue;
        }
        let name = entry.key();
        let at = settings.server_middleware.iter().position(|(server, _)| server == name).unwrap_or_else(|| {
            settings.server_middleware.push((name.to_owned(), settings.middleware.clone()));
            settings.server_middleware.len() - 1
        });
        settings.server_middleware[at].1.push(Middleware::ToolFilter { allow, deny });
    }
}

/// The tools that these keys of an entry name, exactly.
fn patterns(entry: &Node<'_>, keys: &[&str], problems: &mut Problems) -> Vec<NamePattern> {
    let lists = keys.iter().filter_map(|key| entry.get(key)).filter(|node| !node.is_null());
    let names = lists.flat_map(|node| node.as_texts(problems).unwrap_or_default());
    // Some clients allow a note about arguments behind the name.
    let name = |text: &str| text.split('(').next().unwrap_or_default().trim().to_owned();
    names.filter_map(|text| NamePattern::new(&format!("^{}$", regex::escape(&name(text)))).ok()).collect()
}

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
                    // Looking for near names takes its time, and nobody reads the hundredth.
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
