//! Resources, their one template, and who follows them in the legacy era.

use serde_json::{Value, json};

use crate::{
    call::{Call, Era, Outcome, Stop},
    pages::{cacheable, page},
    tools::PNG,
    wire::{RpcError, lock},
};

/// A resource that changes: `update_resource` says so, and subscribers hear of it.
pub(crate) const WATCHED: &str = "test://watched-resource";

/// `resources/list`.
pub(crate) fn list(call: &Call) -> Outcome {
    let resource = |uri: &str, name: &str, description: &str, mime_type: &str| json!({"uri": uri, "name": name, "description": description, "mimeType": mime_type});
    let items = [
        resource("test://static-text", "static-text", "A text that stays the same", "text/plain"),
        resource("test://static-binary", "static-binary", "A picture that stays the same", "image/png"),
        resource(WATCHED, "watched-resource", "A text that may be followed", "text/plain"),
    ];
    page(call, "resources", &items)
}

/// `resources/templates/list`.
pub(crate) fn list_templates(call: &Call) -> Outcome {
    let template = json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data for any id",
        "mimeType": "application/json",
    });
    page(call, "resourceTemplates", &[template])
}

/// `resources/read`.
pub(crate) fn read(call: &Call) -> Outcome {
    let uri = call.param("uri")?;
    let content = content(uri).ok_or_else(|| not_found(call, uri))?;
    Ok(cacheable(call, json!({"contents": [content]}), 0, "private"))
}

/// `resources/subscribe`.
pub(crate) fn subscribe(call: &Call) -> Outcome {
    let uri = call.param("uri")?;
    if content(uri).is_none() {
        return Err(not_found(call, uri));
    }
    if let Some(session) = lock(&call.server.session).as_mut() {
        session.subscribed.insert(uri.to_owned());
    }
    Ok(json!({}))
}

/// `resources/unsubscribe`; of what is not subscribed to, too.
pub(crate) fn unsubscribe(call: &Call) -> Outcome {
    let uri = call.param("uri")?;
    if let Some(session) = lock(&call.server.session).as_mut() {
        session.subscribed.remove(uri);
    }
    Ok(json!({}))
}

fn content(uri: &str) -> Option<Value> {
    let text = |mime_type: &str, text: &str| Some(json!({"uri": uri, "mimeType": mime_type, "text": text}));
    match uri {
        "test://static-text" => text("text/plain", "This is the content of the static text resource."),
        "test://static-binary" => Some(json!({"uri": uri, "mimeType": "image/png", "blob": PNG})),
        WATCHED => text("text/plain", "Watched resource content."),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            (!id.is_empty() && !id.contains('/')).then(|| text("application/json", &data.to_string()))?
        }
    }
}

fn not_found(call: &Call, uri: &str) -> Stop {
    let code = match call.client.era {
        Era::Legacy => RpcError::RESOURCE_NOT_FOUND,
        Era::Modern => RpcError::INVALID_PARAMS,
    };
    RpcError::new(code, format!("resource not found: `{uri}`")).with_data(json!({"uri": uri})).into()
}
