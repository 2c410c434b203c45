//! Who is asking, and what this server says of itself: `initialize` in one era,
//! `server/discover` and per-request metadata in the other.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    args::{Eras, Fault},
    call::{Call, Client, Era, Level, Outcome, server_info},
    pages::cacheable,
    server::{Server, Session},
    tools::hostile_text,
    wire::{LEGACY_VERSIONS, META, MODERN_VERSION, Request, RpcError, lock},
};

const INSTRUCTIONS: &str = "A server for tests; nothing it does matters.";

/// How long a client may keep the answer to `server/discover`.
const DISCOVER_TTL_MS: u64 = 3_600_000;

/// Decides by which rules to serve a request, and reads what they say of its client.
pub(crate) fn identify(server: &Server, request: &Request) -> Result<Client, RpcError> {
    match server.args.eras {
        Eras::Legacy => legacy(server, request),
        Eras::Modern => modern(request),
        Eras::Both if opens_modern(request) => modern(request),
        Eras::Both => legacy(server, request),
    }
}

/// Whether a request is of the modern era. One that is but half described is refused for
/// that, rather than taken for a legacy one.
fn opens_modern(request: &Request) -> bool {
    let meta = &request.params["_meta"];
    matches!(request.method.as_str(), "server/discover" | "subscriptions/listen")
        || !meta[format!("{META}protocolVersion")].is_null()
        || !meta[format!("{META}clientCapabilities")].is_null()
}

fn modern(request: &Request) -> Result<Client, RpcError> {
    let meta = &request.params["_meta"];
    let version = &meta[format!("{META}protocolVersion")];
    let capabilities = &meta[format!("{META}clientCapabilities")];
    if request.method == "initialize" && version.is_null() {
        // Legacy clients can do no more than show this to people, so it names versions.
        return Err(RpcError::unsupported_version(&request.params["protocolVersion"]));
    }
    for (key, valid) in [("protocolVersion", version.is_string()), ("clientCapabilities", capabilities.is_object())] {
        if !valid {
            return Err(RpcError::invalid_params(format!("`_meta` lacks a valid `{META}{key}`")));
        }
    }
    if version != MODERN_VERSION {
        return Err(RpcError::unsupported_version(version));
    }
    let level = match &meta[format!("{META}logLevel")] {
        Value::Null => None,
        name => Some(level(name)?),
    };
    Ok(Client { era: Era::Modern, capabilities: capabilities.clone(), level })
}

fn legacy(server: &Server, request: &Request) -> Result<Client, RpcError> {
    if let Some(session) = lock(&server.session).as_ref() {
        return Ok(Client { era: Era::Legacy, capabilities: session.capabilities.clone(), level: Some(session.level) });
    }
    match request.method.as_str() {
        "initialize" | "ping" => {}
        "server/discover" => return Err(RpcError::method_not_found(&request.method)),
        _ => return Err(RpcError::invalid_params("neither `initialize` nor the `_meta` of 2026-07-28 came first")),
    }
    Ok(Client { era: Era::Legacy, capabilities: json!({}), level: None })
}

/// `initialize`: begins the legacy session of this process.
pub(crate) fn initialize(call: &Call) -> Outcome {
    let requested = call.param("protocolVersion")?;
    let capabilities = &call.request.params["capabilities"];
    if !capabilities.is_object() || !call.request.params["clientInfo"].is_object() {
        return Err(RpcError::invalid_params("`capabilities` and `clientInfo` must be objects").into());
    }
    let version = LEGACY_VERSIONS.into_iter().find(|known| *known == requested).unwrap_or(LEGACY_VERSIONS[0]);
    *lock(&call.server.session) = Some(Session {
        capabilities: capabilities.clone(),
        level: Level::INFO,
        initialized: false,
        subscribed: BTreeSet::new(),
    });
    Ok(json!({
        "protocolVersion": version,
        "capabilities": capabilities_offered(),
        "serverInfo": server_info(),
        "instructions": instructions(call),
    }))
}

/// `logging/setLevel`: for the rest of the session.
pub(crate) fn set_level(call: &Call) -> Outcome {
    let level = level(&call.request.params["level"])?;
    if let Some(session) = lock(&call.server.session).as_mut() {
        session.level = level;
    }
    Ok(json!({}))
}

/// `server/discover`: what `initialize` says, without a session.
pub(crate) fn discover(call: &Call) -> Outcome {
    let result = json!({
        "supportedVersions": [MODERN_VERSION],
        "capabilities": capabilities_offered(),
        "instructions": instructions(call),
    });
    Ok(cacheable(call, result, DISCOVER_TTL_MS, "public"))
}

fn instructions(call: &Call) -> String {
    if call.server.args.has(Fault::Hostile) { hostile_text(INSTRUCTIONS) } else { INSTRUCTIONS.to_owned() }
}

fn capabilities_offered() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true},
        "completions": {},
        "logging": {},
    })
}

fn level(name: &Value) -> Result<Level, RpcError> {
    Level::parse(name).ok_or_else(|| RpcError::invalid_params(format!("{name} is no log level")))
}
