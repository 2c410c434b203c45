//! Passes lines of input to their handlers.

use std::{sync::Arc, thread};

use serde_json::Value;

use crate::{
    call::{Call, Client, Era, Outcome},
    completion, handshake, prompts, resources,
    server::Server,
    subscriptions, tools,
    wire::{Request, RpcError, lock, log},
};

/// Handles one line: a request, a notification, or the answer to a question of ours.
pub(crate) fn take(server: &Arc<Server>, line: &str) {
    let Ok(mut message) = serde_json::from_str::<Value>(line) else {
        server.output.error(&Value::Null, &RpcError::new(RpcError::PARSE, "not JSON"));
        return;
    };
    let Some(method) = message["method"].as_str().map(String::from) else {
        if message.get("result").is_some() || message.get("error").is_some() {
            server.questions.answer(&message);
        } else {
            server.output.error(&Value::Null, &RpcError::new(RpcError::INVALID_REQUEST, "no message"));
        }
        return;
    };
    let params = message["params"].take();
    match message["id"].take() {
        Value::Null => notified(server, &method, &params),
        id => serve(server, Request { id, method, params, line: line.to_owned() }),
    }
}

fn notified(server: &Server, method: &str, params: &Value) {
    match method {
        "notifications/initialized" => {
            if let Some(session) = lock(&server.session).as_mut() {
                session.initialized = true;
            }
        }
        "notifications/cancelled" => cancel(server, &params["requestId"]),
        // Whatever else there is asks for no answer.
        _ => {}
    }
}

fn cancel(server: &Server, id: &Value) {
    log(&format!("{id} cancelled"));
    server.calls.cancel(id);
    server.subscriptions.remove(id);
    for question in server.questions.close(id) {
        server.output.notification("notifications/cancelled", &serde_json::json!({"requestId": question}));
    }
}

fn serve(server: &Arc<Server>, request: Request) {
    log(&format!("{} {}", request.id, request.method));
    match handshake::identify(server, &request) {
        Err(error) => server.output.error(&request.id, &error),
        Ok(client) => begin(server, request, client),
    }
}

fn begin(server: &Arc<Server>, request: Request, client: Client) {
    let cancel = server.calls.begin(&request.id);
    // These two may take their time, or wait for an answer that only the reading thread
    // can bring them.
    let takes_time = matches!(request.method.as_str(), "tools/call" | "prompts/get");
    let call = Call { server: Arc::clone(server), request, client, cancel };
    let work = move || {
        call.finish(answer(&call));
        call.server.calls.end(&call.request.id);
    };
    if takes_time {
        thread::spawn(work);
    } else {
        work();
    }
}

fn answer(call: &Call) -> Outcome {
    let method = call.request.method.as_str();
    match (method, call.client.era) {
        ("tools/list", _) => tools::list(call),
        ("tools/call", _) => tools::call(call),
        ("prompts/list", _) => prompts::list(call),
        ("prompts/get", _) => prompts::get(call),
        ("resources/list", _) => resources::list(call),
        ("resources/templates/list", _) => resources::list_templates(call),
        ("resources/read", _) => resources::read(call),
        ("completion/complete", _) => completion::complete(call),
        ("initialize", Era::Legacy) => handshake::initialize(call),
        ("ping", Era::Legacy) => Ok(Value::Object(serde_json::Map::new())),
        ("logging/setLevel", Era::Legacy) => handshake::set_level(call),
        ("resources/subscribe", Era::Legacy) => resources::subscribe(call),
        ("resources/unsubscribe", Era::Legacy) => resources::unsubscribe(call),
        ("server/discover", Era::Modern) => handshake::discover(call),
        ("subscriptions/listen", Era::Modern) => subscriptions::listen(call),
        _ => Err(RpcError::method_not_found(method).into()),
    }
}
