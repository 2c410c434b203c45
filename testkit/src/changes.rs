//! Changes of lists and resources while the server runs, and their notifications.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};

use crate::{server::Server, wire::lock};

/// A change that clients are notified of.
pub(crate) enum Change {
    Tools,
    Prompts,
    Resource(String),
}

impl Change {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Change::Tools => "notifications/tools/list_changed",
            Change::Prompts => "notifications/prompts/list_changed",
            Change::Resource(_) => "notifications/resources/updated",
        }
    }

    pub(crate) fn params(&self) -> Value {
        match self {
            Change::Tools | Change::Prompts => json!({}),
            Change::Resource(uri) => json!({"uri": uri}),
        }
    }
}

/// The parts of the lists that are not fixed.
///
/// The conformance suite wants lists that change and, in the same run, lists whose names
/// and order stay. So its triggers replace one definition, which is always there, by its
/// next revision; only `change_tools` adds names.
#[derive(Default)]
pub(crate) struct Changes {
    tool_revision: AtomicU64,
    prompt_revision: AtomicU64,
    added_tools: Mutex<Vec<String>>,
}

impl Changes {
    pub(crate) fn tool_revision(&self) -> u64 {
        self.tool_revision.load(Ordering::Relaxed)
    }

    pub(crate) fn prompt_revision(&self) -> u64 {
        self.prompt_revision.load(Ordering::Relaxed)
    }

    /// Returns the names that `change_tools` added, in that order.
    pub(crate) fn added_tools(&self) -> Vec<String> {
        lock(&self.added_tools).clone()
    }
}

/// Replaces the changing tool by its next revision.
pub(crate) fn revise_tools(server: &Server) {
    server.changes.tool_revision.fetch_add(1, Ordering::Relaxed);
    announce(server, &Change::Tools);
}

/// Replaces the changing prompt by its next revision.
pub(crate) fn revise_prompts(server: &Server) {
    server.changes.prompt_revision.fetch_add(1, Ordering::Relaxed);
    announce(server, &Change::Prompts);
}

/// Adds a tool to the list.
pub(crate) fn add_tool(server: &Server, name: &str) {
    let mut added = lock(&server.changes.added_tools);
    if !added.iter().any(|known| known == name) {
        added.push(name.to_owned());
    }
    drop(added);
    announce(server, &Change::Tools);
}

/// Notifies the legacy session, if there is one, and every subscription.
pub(crate) fn announce(server: &Server, change: &Change) {
    let tell_session = lock(&server.session).as_ref().is_some_and(|session| {
        session.initialized
            && match change {
                Change::Tools | Change::Prompts => true,
                Change::Resource(uri) => session.subscribed.contains(uri),
            }
    });
    if tell_session {
        server.output.notification(change.method(), &change.params());
    }
    server.subscriptions.notify(&server.output, change);
}
