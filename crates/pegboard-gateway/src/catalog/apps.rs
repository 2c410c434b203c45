//! User interfaces of tools (MCP Apps, the extension `io.modelcontextprotocol/ui`).
//!
//! A tool names the resource that shows it in `_meta`. Hosts accept only URIs with the scheme `ui`
//! there, and read them like any resource.

use pegboard_mcp::json::{Fields, Raw, raw};
use serde_json::value::RawValue;

use crate::catalog::uris::{UriNames, is_ui};

/// The extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The object in `_meta`, and the URI in it.
const UI: &str = "ui";
const RESOURCE_URI: &str = "resourceUri";

/// Keys of earlier versions and of other hosts, with the URI as their value.
const OTHER_KEYS: [&str; 2] = ["ui/resourceUri", "openai/outputTemplate"];

/// Returns a tool definition or a result with the shown URI of its user interface; `None` if it
/// names none, or the URI is shown as it is.
pub(crate) fn with_shown_ui(uris: &UriNames, server: &str, value: &RawValue) -> Option<Raw> {
    // Few have one; looking is cheaper than taking all of them apart.
    let text = value.get();
    if !uris.is_prefixed() || !(text.contains("resourceUri\"") || text.contains("outputTemplate\"")) {
        return None;
    }
    let mut fields = Fields::of(value)?;
    let mut meta = fields.object("_meta")?;
    let shown = |uri: Option<String>| uri.filter(|uri| is_ui(uri)).map(|uri| raw(&uris.shown_uri(server, &uri)));
    let mut is_changed = false;
    for key in OTHER_KEYS {
        if let Some(uri) = shown(meta.text(key)) {
            meta.set(key, uri);
            is_changed = true;
        }
    }
    if let Some(mut ui) = meta.object(UI)
        && let Some(uri) = shown(ui.text(RESOURCE_URI))
    {
        ui.set(RESOURCE_URI, uri);
        meta.set(UI, ui.to_raw());
        is_changed = true;
    }
    if !is_changed {
        return None;
    }
    fields.set("_meta", meta.to_raw());
    Some(fields.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_uri_of_the_interface_changes() {
        let names = |is_prefixed| UriNames::new(["one", "two"].into_iter(), is_prefixed);
        let check = |given: &str, expected: Option<&str>| {
            let given: Raw = serde_json::from_str(given).expect("JSON");
            let found = with_shown_ui(&names(true), "one", &given);
            assert_eq!(found.as_deref().map(RawValue::get), expected, "{given}");
            assert!(with_shown_ui(&names(false), "one", &given).is_none());
        };
        check(
            r#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://app/main","visibility":["app"]},"n":1.0},"z":1e2}"#,
            Some(
                r#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://one+app/main","visibility":["app"]},"n":1.0},"z":1e2}"#,
            ),
        );
        check(
            r#"{"_meta":{"ui/resourceUri":"ui://app/main","openai/outputTemplate":"ui://app/main"}}"#,
            Some(r#"{"_meta":{"ui/resourceUri":"ui://one+app/main","openai/outputTemplate":"ui://one+app/main"}}"#),
        );
        check(r#"{"_meta":{"ui":{"resourceUri":"https://example.com"}}}"#, None);
        check(r#"{"_meta":{"ui":{"resourceUri":7}}}"#, None);
        check(r#"{"structuredContent":{"resourceUri":"ui://app/main"}}"#, None);
        check(r#"{"name":"a","description":"\"resourceUri\""}"#, None);
    }
}
