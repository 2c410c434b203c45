//! Rules on names: names that providers reject, and duplicate names.

use std::collections::BTreeMap;

use pegboard_core::{Tool, naming};

use super::{
    LintPass, list_names,
    report::Finding,
    rule::{Rule, Severity},
};

/// The separator that clients put between a server and a tool; the shortest common one.
const SEPARATOR: &str = "__";

pub(super) fn check(pass: &LintPass<'_>, findings: &mut Vec<Finding>) {
    for (at, tool) in pass.tools.iter().enumerate() {
        findings.extend(too_long(pass, at, tool));
        findings.extend(refused(pass, at, tool));
    }
    check_prefixed_lengths(pass, findings);
    check_duplicates(pass, findings);
}

fn too_long(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let limit = pass.thresholds.name_bytes;
    let length = tool.name().len();
    if length > limit {
        let message = format!("its name has {length} characters; providers accept at most {limit}");
        let suggestion = format!("shorten the name by {} characters; put the details into the title", length - limit);
        return Some(pass.finding(Rule::NameTooLong, at, message, suggestion));
    }
    None
}

/// Finds names that become too long with the server's name in front; one finding for each server.
fn check_prefixed_lengths(pass: &LintPass<'_>, findings: &mut Vec<Finding>) {
    let limit = pass.thresholds.name_bytes;
    let server = |at: usize| pass.tools[at].server_name().unwrap_or_default();
    let length = |at: usize| server(at).len() + SEPARATOR.len() + pass.tools[at].name().len();
    let is_long = |at: &usize| !server(*at).is_empty() && length(*at) > limit && pass.tools[*at].name().len() <= limit;
    let long: Vec<usize> = (0..pass.tools.len()).filter(is_long).collect();
    for members in long.chunk_by(|one, other| server(*one) == server(*other)) {
        let longest = members.iter().map(|at| length(*at)).max().unwrap_or_default();
        let message = format!(
            "with the server name as prefix, {} up to {longest} characters; providers accept at most {limit}: {}",
            if members.len() == 1 { "its name has".to_owned() } else { format!("{} names have", members.len()) },
            list_names(members.iter().map(|at| pass.tools[*at].name()))
        );
        let over = longest - limit;
        let suggestion = format!(
            "clients that prefix the server name must cut these names; shorten the server name `{}` by {over} \
             characters",
            server(members[0])
        );
        let finding = pass.group(Rule::NameTooLong, members, message, suggestion);
        findings.push(Finding { severity: pass.milder_severity(Rule::NameTooLong, Severity::Note), ..finding });
    }
}

fn refused(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let name = tool.name();
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut bad: Vec<String> = Vec::new();
    for c in name.chars().filter(|c| !is_fine(*c)) {
        let shown = format!("`{c}`");
        if !bad.contains(&shown) {
            bad.push(shown);
        }
    }
    let valid = naming::to_provider_name(name);
    if bad.is_empty() {
        let first = name.chars().next().filter(|c| !c.is_ascii_alphabetic() && *c != '_')?;
        let message = format!("its name begins with `{first}`, which some providers reject");
        return Some(pass.finding(Rule::UnsafeName, at, message, "begin it with a letter".to_owned()));
    }
    bad.truncate(5);
    let message = format!("its name has {}; providers accept only letters, digits, `_` and `-`", bad.join(", "));
    let has_letters = valid.chars().any(|c| c.is_ascii_alphanumeric());
    let suggestion = match has_letters {
        true => format!("rename it to `{valid}`; put the display name into the title"),
        false => "use a name in Latin letters; put the display name into the title".to_owned(),
    };
    Some(pass.finding(Rule::UnsafeName, at, message, suggestion))
}

/// Finds names that are equal except for case and separators.
fn check_duplicates(pass: &LintPass<'_>, findings: &mut Vec<Finding>) {
    let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, tool) in pass.tools.iter().enumerate() {
        owners.entry(naming::fold(tool.name())).or_default().push(at);
    }
    for (_, members) in owners.into_iter().filter(|(name, members)| members.len() > 1 && !name.is_empty()) {
        let server = |at: &usize| pass.tools[*at].server_name();
        // Tools are sorted by server.
        let is_within = members.windows(2).any(|pair| server(&pair[0]) == server(&pair[1]));
        let name = pass.tools[members[0]].name();
        let message = match is_within {
            true => format!(
                "{} tools have names that differ only in spelling: {}",
                members.len(),
                list_names(members.iter().map(|at| pass.tools[*at].id()))
            ),
            false => format!(
                "{} servers have a tool `{name}`: {}",
                members.len(),
                list_names(members.iter().filter_map(|at| pass.tools[*at].server_name()))
            ),
        };
        let suggestion = match is_within {
            true => "rename one of them so that the name says how it differs",
            false => {
                "include in the name what the tool acts on, or use clients that prefix the server name (Pegboard does)"
            }
        };
        let mut finding = pass.group(Rule::DuplicateName, &members, message, suggestion.to_owned());
        if is_within {
            finding.severity = finding.severity.max(Severity::Warning);
        }
        findings.push(finding);
    }
}
