//! The sections of a configuration file that contain servers.

use pegboard_upstream::config::servers::SECTIONS;
use serde_json::{Map, Value};

/// The keys of a section, from the top of the file.
pub(crate) type Section = &'static [&'static str];

/// Returns the sections of a file that have servers, in the order in which they are read.
pub(crate) fn sections(root: &Value) -> impl Iterator<Item = (Section, &Map<String, Value>)> {
    let servers = move |section: Section| section.iter().try_fold(root, |value, key| value.get(key))?.as_object();
    SECTIONS.into_iter().filter_map(move |section| Some((section, servers(section)?)))
}

/// Returns the section of a server and its entry; none if the file has no such server.
pub(crate) fn find_server<'a>(root: &'a Value, name: &str) -> Option<(Section, &'a Value)> {
    sections(root).find_map(|(section, servers)| Some((section, servers.get(name)?)))
}

/// Returns the names of all servers of a file.
pub(crate) fn server_names(root: &Value) -> Vec<String> {
    sections(root).flat_map(|(_, servers)| servers.keys().cloned()).collect()
}

/// Returns the section that a new server is added to: the first that the file has, else
/// `mcpServers`.
pub(crate) fn section_for_new(root: &Value) -> Section {
    sections(root).next().map_or(SECTIONS[0], |(section, _)| section)
}

/// Returns whether a file is a configuration with servers, or with settings of Pegboard.
pub(crate) fn is_configuration(root: &Value) -> bool {
    root.get("pegboard").is_some_and(Value::is_object) || sections(root).next().is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_found_in_every_section() {
        let check = |root: Value, names: &[&str], new: &str, of_b: Option<&str>| {
            assert_eq!(server_names(&root), names, "{root}");
            assert_eq!(section_for_new(&root).join("."), new, "{root}");
            let found = find_server(&root, "b").map(|(section, _)| section.join("."));
            assert_eq!(found.as_deref(), of_b, "{root}");
        };
        check(json!({}), &[], "mcpServers", None);
        check(Value::Null, &[], "mcpServers", None);
        check(json!({"mcpServers": {"a": {}, "b": {}}}), &["a", "b"], "mcpServers", Some("mcpServers"));
        check(json!({"servers": {"b": {}}}), &["b"], "servers", Some("servers"));
        check(json!({"mcp": {"servers": {"b": {}}}}), &["b"], "mcp.servers", Some("mcp.servers"));
        let several = json!({"mcpServers": {"a": {}}, "servers": {"c": {}}, "mcp": {"servers": {"b": {}}}});
        check(several, &["a", "c", "b"], "mcpServers", Some("mcp.servers"));
    }
}
