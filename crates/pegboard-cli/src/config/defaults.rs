//! The settings that are in effect without a file.

use pegboard_config::keys::{Kind, Shape};
use serde_json::Value;

use super::root_shape;

/// Returns the path and the value of every setting that has a default, in the order of the reference.
/// Entries of lists and maps, such as servers, are not among them.
pub(crate) fn defaults() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect("", &root_shape(), &mut found);
    found
}

fn collect(above: &str, shape: &Shape, found: &mut Vec<(String, Value)>) {
    for key in &shape.keys {
        let path = if above.is_empty() { key.name.to_owned() } else { format!("{above}.{}", key.name) };
        match (key.default, key.kind) {
            // Tables are tested to hold JSON.
            (Some(default), _) => found.extend(serde_json::from_str(default).ok().map(|default| (path, default))),
            (None, Kind::Object(shape)) => collect(&path, &shape(), found),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_have_the_paths_of_the_file() {
        let found = defaults();
        let value = |path: &str| found.iter().find(|(found, _)| found == path).map(|(_, value)| value.to_string());
        assert_eq!(value("pegboard.catalogs").as_deref(), Some("[]"));
        assert_eq!(value("pegboard.console.activity.entries").as_deref(), Some("10000"));
        assert_eq!(value("pegboard.ranker"), None, "it depends on the dialect");
    }
}
