//! Names that providers refuse, and names that several tools have.

use std::collections::BTreeMap;

use pegboard_core::{Tool, naming};

use super::{
    Look, listed,
    report::Finding,
    rule::{Rule, Severity},
};

/// What clients put between a server and a tool; the shortest that is common.
const SEPARATOR: &str = "__";

pub(super) fn look(look: &Look<'_>, findings: &mut Vec<Finding>) {
    for (at, tool) in look.tools.iter().enumerate() {
        findings.extend(too_long(look, at, tool));
        findings.extend(refused(look, at, tool));
    }
    too_long_together(look, findings);
    duplicates(look, findings);
}

fn too_long(look: &Look<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let limit = look.thresholds.name_bytes;
    let length = tool.name().len();
    if length > limit {
        let message = format!("its name has {length} characters; providers accept at most {limit}");
        let suggestion = format!("shorten the name by {} characters; put the details into the title", length - limit);
        return Some(look.finding(Rule::NameTooLong, at, message, suggestion));
    }
    None
}

/// Names that become too long once a client puts the server in front: told once for a server.
fn too_long_together(look: &Look<'_>, findings: &mut Vec<Finding>) {
    let limit = look.thresholds.name_bytes;
    let server = |at: usize| look.tools[at].server_name().unwrap_or_default();
    let length = |at: usize| server(at).len() + SEPARATOR.len() + look.tools[at].name().len();
    let is_long = |at: &usize| !server(*at).is_empty() && length(*at) > limit && look.tools[*at].name().len() <= limit;
    let long: Vec<usize> = (0..look.tools.len()).filter(is_long).collect();
    for members in long.chunk_by(|one, other| server(*one) == server(*other)) {
        let longest = members.iter().map(|at| length(*at)).max().unwrap_or_default();
        let message = format!(
            "with the server name as prefix, {} up to {longest} characters; providers accept at most {limit}: {}",
            if members.len() == 1 { "its name has".to_owned() } else { format!("{} names have", members.len()) },
            listed(members.iter().map(|at| look.tools[*at].name()))
        );
        let over = longest - limit;
        let suggestion = format!(
            "clients that prefix the server name must cut these names; shorten the server name `{}` by {over} \
             characters",
            server(members[0])
        );
        let finding = look.group(Rule::NameTooLong, members, message, suggestion);
        findings.push(Finding { severity: look.mildly(Rule::NameTooLong, Severity::Note), ..finding });
    }
}

fn refused(look: &Look<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let name = tool.name();
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut bad: Vec<String> = Vec::new();
    for c in name.chars().filter(|c| !is_fine(*c)) {
        let shown = format!("`{c}`");
        if !bad.contains(&shown) {
            bad.push(shown);
        }
    }
    let mended = naming::to_provider_name(name);
    if bad.is_empty() {
        let first = name.chars().next().filter(|c| !c.is_ascii_alphabetic() && *c != '_')?;
        let message = format!("its name begins with `{first}`, which some providers reject");
        return Some(look.finding(Rule::UnsafeName, at, message, "begin it with a letter".to_owned()));
    }
    bad.truncate(5);
    let message = format!("its name has {}; providers accept only letters, digits, `_` and `-`", bad.join(", "));
    let has_letters = mended.chars().any(|c| c.is_ascii_alphanumeric());
    let suggestion = match has_letters {
        true => format!("rename it to `{mended}`; put the display name into the title"),
        false => "use a name in Latin letters; put the display name into the title".to_owned(),
    };
    Some(look.finding(Rule::UnsafeName, at, message, suggestion))
}

/// Names that are the same once case, `_` and the like are set aside.
fn duplicates(look: &Look<'_>, findings: &mut Vec<Finding>) {
    let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, tool) in look.tools.iter().enumerate() {
        owners.entry(naming::fold(tool.name())).or_default().push(at);
    }
    for (_, members) in owners.into_iter().filter(|(name, members)| members.len() > 1 && !name.is_empty()) {
        let server = |at: &usize| look.tools[*at].server_name();
        // Tools are sorted by server.
        let is_within = members.windows(2).any(|pair| server(&pair[0]) == server(&pair[1]));
        let name = look.tools[members[0]].name();
        let message = match is_within {
            true => format!(
                "{} tools have names that differ only in spelling: {}",
                members.len(),
                listed(members.iter().map(|at| look.tools[*at].id()))
            ),
            false => format!(
                "{} servers have a tool `{name}`: {}",
                members.len(),
                listed(members.iter().filter_map(|at| look.tools[*at].server_name()))
            ),
        };
        let suggestion = match is_within {
            true => "rename one of them so that the name says how it differs",
            false => {
                "include in the name what the tool acts on, or use clients that prefix the server name (Pegboard does)"
            }
        };
        let mut finding = look.group(Rule::DuplicateName, &members, message, suggestion.to_owned());
        if is_within {
            finding.severity = finding.severity.max(Severity::Warning);
        }
        findings.push(finding);
    }
}
