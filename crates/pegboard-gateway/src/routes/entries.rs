//! Prompts, resources and completions.

use std::sync::Arc;

use pegboard_core::naming;
use pegboard_mcp::{
    json::{Fields, SharedRaw, raw},
    rpc::RpcError,
};
use pegboard_upstream::ListKind;
use serde_json::value::RawValue;

use crate::{
    catalog::{CatalogView, apps, entries::VisibleEntries, uris::UriNames},
    exchange::Exchange,
    forward::calls::{Forward, Forwarder},
    request::{Failure, Forwarded, Outcome, Reference, Reply},
    text::shorten,
};

/// Handlers of prompts, resources and completions.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) catalog: Arc<CatalogView>,
    pub(crate) forwarder: Arc<Forwarder>,
}

impl Entries {
    /// Returns a list, as far as the caller may see it.
    pub(crate) fn list(&self, exchange: &Exchange, kind: ListKind) -> Vec<SharedRaw> {
        self.visible_entries(exchange).of(kind).iter().map(|entry| Arc::clone(&entry.raw)).collect()
    }

    /// Returns a prompt by its shown name.
    pub(crate) async fn get_prompt(&self, exchange: &Exchange, name: &str, mut params: Fields) -> Outcome {
        let entries = self.visible_entries(exchange);
        let Some(entry) = entries.prompt(name) else {
            let names = entries.of(ListKind::Prompts).iter().map(|entry| entry.shown.as_str());
            let nearest = naming::nearest(name, names, 3);
            return Err(unknown_error("prompt", name, &nearest).into());
        };
        params.set("name", raw(&entry.key));
        let (server, name, method) = (Arc::clone(&entry.server), Some(entry.key.clone()), "prompts/get");
        let forward = Forward { server: Arc::clone(&server), method, params, name, mirrored: Vec::new() };
        match self.forwarder.forward(exchange, forward).await {
            Ok(forwarded) => Ok(Reply::Forwarded(self.with_shown_messages(&server, forwarded))),
            Err(error) => Err(error.into_rpc(&server).into()),
        }
    }

    /// Returns a resource by its shown URI.
    pub(crate) async fn read_resource(&self, exchange: &Exchange, uri: String, mut params: Fields) -> Outcome {
        let (server, own) = self.resource(exchange, &uri)?;
        params.set("uri", raw(&own));
        let (name, method) = (Some(own.clone()), "resources/read");
        let forward = Forward { server: Arc::clone(&server), method, params, name, mirrored: Vec::new() };
        match self.forwarder.forward(exchange, forward).await {
            Ok(forwarded) if own == uri => Ok(Reply::Forwarded(forwarded)),
            Ok(forwarded) => Ok(Reply::Forwarded(self.with_shown_uris(&server, forwarded))),
            Err(error) => Err(Failure::Resource { error: error.into_rpc(&server), uri }),
        }
    }

    /// Returns the server and its own URI behind a shown URI.
    ///
    /// # Errors
    /// When there is no such resource that the caller may see.
    pub(crate) fn resource(&self, exchange: &Exchange, uri: &str) -> Result<(Arc<str>, String), Failure> {
        self.visible_entries(exchange).resource(uri).ok_or_else(|| {
            let message = format!("no resource `{}`", shorten(uri));
            Failure::Resource { error: RpcError::new(RpcError::RESOURCE_NOT_FOUND, message), uri: uri.to_owned() }
        })
    }

    /// Completes an argument of a prompt or of a template.
    pub(crate) async fn complete(&self, exchange: &Exchange, reference: Reference, mut params: Fields) -> Outcome {
        let entries = self.visible_entries(exchange);
        let (server, key, own) = match &reference {
            Reference::Prompt(name) => {
                let entry = entries.prompt(name).ok_or_else(|| unknown_error("prompt", name, &[]))?;
                (Arc::clone(&entry.server), "name", entry.key.clone())
            }
            Reference::Resource(uri) => {
                let mut templates = entries.of(ListKind::Templates).iter();
                let template = templates.find(|entry| entry.shown == *uri || entry.key == *uri);
                let found = template.map(|entry| (Arc::clone(&entry.server), entry.key.clone()));
                let found = found.or_else(|| entries.resource(uri));
                let (server, own) = found.ok_or_else(|| unknown_error("resource", uri, &[]))?;
                (server, "uri", own)
            }
        };
        let mut reference = params.object("ref").unwrap_or_default();
        reference.set(key, raw(&own));
        params.set("ref", reference.to_raw());
        let method = "completion/complete";
        self.forward(exchange, Forward { server, method, params, name: None, mirrored: Vec::new() }).await
    }

    /// Returns the entries that the caller may see.
    fn visible_entries(&self, exchange: &Exchange) -> Arc<VisibleEntries> {
        self.catalog.directory().entries(&exchange.viewer.selection)
    }

    async fn forward(&self, exchange: &Exchange, forward: Forward) -> Outcome {
        let server = Arc::clone(&forward.server);
        let forwarded = self.forwarder.forward(exchange, forward).await;
        forwarded.map(Reply::Forwarded).map_err(|error| error.into_rpc(&server).into())
    }

    /// Returns a result with shown URIs in its contents.
    fn with_shown_uris(&self, server: &str, forwarded: Forwarded) -> Forwarded {
        self.rewritten(forwarded, "contents", |mut content| {
            if let Some(uri) = content.text("uri") {
                content.set("uri", raw(&self.catalog.directory().uris.shown_uri(server, &uri)));
            }
            content
        })
    }

    /// Returns a result of a tool with shown URIs: of its user interface, and of the resources in its content.
    pub(crate) fn with_shown_links(&self, server: &str, mut forwarded: Forwarded) -> Forwarded {
        let uris = Arc::clone(&self.catalog.directory().uris);
        if let Some(changed) = apps::with_shown_ui(&uris, server, &forwarded.result) {
            forwarded.result = changed;
        }
        if !uris.is_prefixed() || !may_have_resources(&forwarded.result) {
            return forwarded;
        }
        self.rewritten(forwarded, "content", |content| with_shown_resource(&uris, server, content))
    }

    /// Returns a prompt with shown URIs of the resources in its messages.
    fn with_shown_messages(&self, server: &str, forwarded: Forwarded) -> Forwarded {
        let uris = Arc::clone(&self.catalog.directory().uris);
        if !uris.is_prefixed() || !may_have_resources(&forwarded.result) {
            return forwarded;
        }
        self.rewritten(forwarded, "messages", |mut message| {
            if let Some(content) = message.object("content") {
                message.set("content", with_shown_resource(&uris, server, content).to_raw());
            }
            message
        })
    }

    /// Returns a result with every entry of a list in it changed.
    fn rewritten(&self, forwarded: Forwarded, key: &str, change: impl Fn(Fields) -> Fields) -> Forwarded {
        let Some(mut fields) = Fields::of(&forwarded.result) else { return forwarded };
        let Some(contents) = fields.read::<Vec<Fields>>(key) else { return forwarded };
        let contents: Vec<Fields> = contents.into_iter().map(change).collect();
        fields.set(key, raw(&contents));
        Forwarded { result: fields.to_raw(), ..forwarded }
    }
}

/// Returns whether a result may have links to resources or embedded resources. Few have any; a text
/// search is cheaper than parsing all of them.
fn may_have_resources(result: &RawValue) -> bool {
    result.get().contains("\"resource_link\"") || result.get().contains("\"resource\"")
}

/// Returns content with the shown URI of the resource that it links to or embeds.
fn with_shown_resource(uris: &UriNames, server: &str, mut content: Fields) -> Fields {
    let shown = |fields: &Fields| fields.text("uri").map(|uri| raw(&uris.shown_uri(server, &uri)));
    match content.text("type").as_deref() {
        Some("resource_link") => {
            if let Some(uri) = shown(&content) {
                content.set("uri", uri);
            }
        }
        Some("resource") => {
            if let Some(mut resource) = content.object("resource")
                && let Some(uri) = shown(&resource)
            {
                resource.set("uri", uri);
                content.set("resource", resource.to_raw());
            }
        }
        _ => {}
    }
    content
}

fn unknown_error(what: &str, name: &str, nearest: &[&str]) -> RpcError {
    let message = match nearest {
        [] => format!("no {what} `{}`", shorten(name)),
        nearest => format!("no {what} `{}`; nearest names: {}", shorten(name), nearest.join(", ")),
    };
    RpcError::new(RpcError::INVALID_PARAMS, message)
}
