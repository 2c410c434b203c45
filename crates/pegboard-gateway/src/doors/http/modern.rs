//! Requests of version 2026-07-28: each is independent of the others, and its headers must match
//! its body.

use axum::{
    body::Body,
    http::{HeaderMap, Response},
};
use pegboard_mcp::{era::Era, headers, rpc::RpcError};
use pegboard_upstream::queue;

use super::{
    OUTLET, RequestClaims, VERSION,
    arrival::Arrival,
    body::{self, Disconnect, HttpAnswer},
};
use crate::{
    doors::{
        DoorContext,
        incoming::{Incoming, ModernClient, off_thread},
    },
    exchange::Outlet,
    request::{Client, Methods, Operation, Request, SessionRef},
    steps::arguments::header_mismatch,
};

pub(super) async fn post(
    entrance: &DoorContext,
    arrival: Arrival,
    incoming: Incoming,
    kept: RequestClaims,
) -> Response<Body> {
    let (outlet, messages) = queue::channel(OUTLET);
    let (id, party) = (incoming.id.clone(), arrival.party());
    let request = off_thread(incoming.is_large, move || read(arrival, incoming, outlet)).await;
    let pipeline = std::sync::Arc::clone(&entrance.pipeline);
    let work = body::boxed(async move {
        let _kept = kept;
        let answer = HttpAnswer::new(Era::Modern, &id, pipeline.answer(request).await);
        answer.counted(&pipeline, party, &id)
    });
    // A client that closes its stream has cancelled.
    body::respond(Some(messages), work, Disconnect::Cancels).await
}

fn read(arrival: Arrival, incoming: Incoming, outlet: Outlet) -> Result<Request, RpcError> {
    let client = incoming.modern_client()?;
    check_headers(&arrival.headers, &incoming, &client)?;
    client.check_version()?;
    let (progress, trace) = (incoming.progress(), incoming.opening.trace.clone());
    let (id, mut operation) = incoming.into_operation(Methods::OfRequests)?;
    if let Operation::CallTool(call) = &mut operation {
        call.headers = Some(arrival.headers);
    }
    let client = Client {
        name: client.name,
        console: None,
        address: arrival.address,
        pipe: None,
        capabilities: Some(client.capabilities),
        log_level: client.log_level,
        progress,
        outlet,
        trace,
    };
    Ok(Request { id, caller: arrival.caller, session: SessionRef::Stateless, operation, client })
}

fn check_headers(headers: &HeaderMap, incoming: &Incoming, client: &ModernClient) -> Result<(), RpcError> {
    must_agree(headers, VERSION, &client.version, false)?;
    must_agree(headers, "mcp-method", &incoming.method, false)?;
    let key = match incoming.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        // Common clients do not repeat the id of a task, although they should.
        "tasks/get" | "tasks/update" | "tasks/cancel" if headers.contains_key("mcp-name") => "taskId",
        _ => return Ok(()),
    };
    match incoming.params.text(key) {
        Some(name) => must_agree(headers, "mcp-name", &name, true),
        // The method itself says what is missing.
        None => Ok(()),
    }
}

fn must_agree(headers: &HeaderMap, name: &str, expected: &str, may_be_encoded: bool) -> Result<(), RpcError> {
    let value = headers.get(name).ok_or_else(|| header_mismatch(format!("the header `{name}` is missing")))?;
    let value = value.to_str().map(|value| value.trim_matches([' ', '\t'])).ok();
    let value = match may_be_encoded {
        true => value.and_then(headers::decode),
        false => value.map(str::to_owned),
    };
    let value = value.ok_or_else(|| header_mismatch(format!("the header `{name}` is malformed")))?;
    if value == expected {
        return Ok(());
    }
    Err(header_mismatch(format!("the header `{name}` does not match the body")))
}
