//! The pipeline alone, without a door.

use pegboard_core::{Secret, Selection};
use pegboard_discovery::Exposure;
use pegboard_http::Principal;
use pegboard_mcp::{json::Fields, trace::TraceContext};
use pegboard_upstream::queue;

use super::*;
use crate::{
    GatewaySettings, Token,
    request::{Methods, SessionRef},
    testing::{Server, TestParts},
};

const ANN: Caller = Caller::Token(Principal(0));

fn pipeline(parts: &TestParts) -> Pipeline {
    let (subscriptions, forwarder) = (parts.subscriptions(), parts.forwarder());
    let savings = Arc::new(SavingsLedger::new(None));
    Pipeline {
        setups: Arc::clone(&parts.setups),
        startup: Arc::clone(&parts.startup),
        limits: Arc::clone(&parts.limits),
        sessions: parts.sessions(&subscriptions),
        subscriptions,
        greetings: parts.greetings(),
        entries: Entries { catalog: Arc::clone(&parts.catalog), forwarder: Arc::clone(&forwarder) },
        forwarder,
        results: Arc::default(),
        tasks: TaskIds::open(None),
        metrics: Arc::clone(&parts.metrics),
        record: Arc::default(),
        activity: Arc::new(Activity::new(&parts.fleet, Arc::clone(&parts.catalog), Arc::clone(&savings), None)),
        savings,
        progress: Arc::default(),
    }
}

/// A request of a method with parameters.
fn request(caller: Caller, session: SessionRef, method: &str, params: &Value) -> Result<Request, RpcError> {
    let methods = if matches!(session, SessionRef::Stateless) { Methods::OfRequests } else { Methods::OfSessions };
    let operation = Operation::parse(methods, method, Fields::of(&raw(params)).expect("an object"))?;
    let outlet = queue::channel(8).0;
    let trace = TraceContext::default();
    let client = Client {
        name: String::new(),
        console: None,
        address: None,
        pipe: None,
        capabilities: None,
        log_level: None,
        progress: None,
        outlet,
        trace,
    };
    Ok(Request { id: Id::from(1), caller, session, operation, client })
}

fn plain() -> GatewaySettings {
    GatewaySettings { exposure: Exposure::Never, ..GatewaySettings::default() }
}

fn with_token() -> GatewaySettings {
    let (name, secret) = ("ann".to_owned(), Secret::new("secret-token-of-ann"));
    let token = Token { name, secret, selection: Selection::everything(), limits: None };
    GatewaySettings { tokens: vec![token], ..plain() }
}

#[tokio::test]
async fn requests_go_to_their_steps() {
    let server = Server::new(&["echo"]);
    let parts = TestParts::new(vec![server.config("one")], plain()).await;
    let pipeline = pipeline(&parts);
    let answer = async |method: &str, params: Value| {
        let request = request(Caller::Pipe, SessionRef::Stateless, method, &params);
        pipeline.answer(request).await
    };
    let Ok(Reply::Page(page)) = answer("tools/list", json!({})).await else { panic!("no page") };
    assert_eq!((page.items.len(), page.next), (1, None));
    assert_eq!(page.caching, Caching { ttl_ms: LIST_TTL, is_private: false });
    let Ok(Reply::Forwarded(done)) = answer("tools/call", json!({"name": "echo"})).await else { panic!("no result") };
    assert!(done.result.get().contains("done"));
    let Ok(Reply::Text(text)) = answer("tools/call", json!({"name": "none"})).await else { panic!("no text") };
    assert!(text.is_error && text.text.starts_with("no tool `none`"), "{text:?}");
    let Err(Failure::Rpc(error)) = answer("nothing", json!({})).await else { panic!("no refusal") };
    assert_eq!(error.code, RpcError::METHOD_NOT_FOUND);
    let Err(Failure::Resource { uri, .. }) = answer("resources/read", json!({"uri": "toy://none"})).await else {
        panic!("no refusal")
    };
    assert_eq!(uri, "toy://none");
    assert_eq!(server.called(), ["echo"]);
}

#[tokio::test]
async fn a_session_begins_and_is_found_again() {
    let parts = TestParts::new(vec![Server::new(&["echo"]).config("one")], plain()).await;
    let pipeline = pipeline(&parts);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test"}});
    let asked = request(Caller::Anybody, SessionRef::Once, "initialize", &hello);
    let Ok(Reply::Begun(session, _)) = pipeline.answer(asked).await else { panic!("no session") };
    let named = |id: &str| request(Caller::Anybody, SessionRef::Named(id.to_owned()), "tools/list", &json!({}));
    assert!(matches!(pipeline.answer(named(&session.id)).await, Ok(Reply::Page(_))));
    assert!(matches!(pipeline.answer(named("another")).await, Err(Failure::NoSession)));
}

#[tokio::test]
async fn a_withdrawn_token_is_refused_before_and_after_the_body() {
    let parts = TestParts::new(Vec::new(), with_token()).await;
    let pipeline = pipeline(&parts);
    let list = || request(ANN, SessionRef::Stateless, "tools/list", &json!({}));
    assert!(pipeline.admit(ANN, None, 10, 100).is_ok());
    assert!(pipeline.answer(list()).await.is_ok());
    assert!(matches!(pipeline.admit(Caller::Anybody, None, 10, 100), Err(Failure::Unauthenticated)));
    parts.setups.replace(plain(), None);
    assert!(matches!(pipeline.admit(ANN, None, 10, 100), Err(Failure::Unauthenticated)));
    assert!(matches!(pipeline.answer(list()).await, Err(Failure::Unauthenticated)));
}

#[tokio::test]
async fn streams_and_unread_answers_are_limited() {
    let settings = GatewaySettings { streams_per_caller: 0, unread_bytes_per_caller: 1 << 20, ..plain() };
    let parts = TestParts::new(Vec::new(), settings).await;
    let pipeline = pipeline(&parts);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let listen = request(Caller::Anybody, SessionRef::Stateless, "subscriptions/listen", &listen);
    assert!(matches!(pipeline.answer(listen).await, Err(Failure::TooManyStreams)));
    let party = Party::Caller(Caller::Anybody);
    let first = pipeline.open_answer(party, 1 << 20).expect("room");
    assert!(pipeline.open_answer(party, 1 << 20).is_err());
    drop(first);
    assert!(pipeline.open_answer(party, 1 << 20).is_ok());
}
