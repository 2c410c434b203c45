//! The files of the page.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Its path below the prefix.
    pub(crate) path: &'static str,
    pub(crate) bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal)*) => {
        &[$(Asset { path: $path, bytes: include_bytes!(concat!("../assets/", $path)) }),*]
    };
}

/// All files that the browser can load. A test compares the table with the folder.
pub(crate) const ASSETS: &[Asset] = assets![
    "app.js"
    "console.css"
    "control.js"
    "dialog.js"
    "diff.js"
    "events.js"
    "format.js"
    "help.js"
    "icon.svg"
    "icons.js"
    "index.html"
    "json.js"
    "lazy.js"
    "live.js"
    "pages.css"
    "pages/activity.js"
    "pages/activity/entry.js"
    "pages/approvals.js"
    "pages/health.js"
    "pages/health/clients.js"
    "pages/health/configuration.js"
    "pages/playground.js"
    "pages/playground/cases.js"
    "pages/playground/choice.js"
    "pages/playground/hits.js"
    "pages/playground/lane.js"
    "pages/savings.js"
    "pages/savings/proxy.js"
    "pages/servers.js"
    "pages/servers/actions.js"
    "pages/servers/server.js"
    "pages/servers/tool.js"
    "pages/sessions.js"
    "plot.js"
    "route.js"
    "schema-form.js"
    "signin.js"
    "store.js"
    "table.js"
    "ui.js"
    "vendor/htm-preact.js"
    "virtual.js"
];

impl Asset {
    /// Returns the media type; that of binary data for an unknown ending.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("json") => "application/json",
            Some("woff2") => "font/woff2",
            _ => "application/octet-stream",
        }
    }

    /// Returns the tag of this content, in quotes.
    pub(crate) fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// The description of the control API that the page uses.
const DESCRIPTION: &[Asset] = &[Asset { path: "openapi.json", bytes: include_bytes!("../openapi.json") }];

/// Returns the file with this path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().chain(DESCRIPTION).find(|asset| asset.path == path)
}
