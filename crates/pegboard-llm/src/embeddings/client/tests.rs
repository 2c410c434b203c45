use pegboard_core::Secret;
use pegboard_testkit::embedder::{Behavior, Endpoint, EndpointLimits};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::causes::with_causes;

fn client(endpoint: &Endpoint) -> Embeddings {
    client_of(EndpointSettings::new(endpoint.url(), "test-model"))
}

fn client_of(settings: EndpointSettings) -> Embeddings {
    Embeddings::new(settings).expect("a client")
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("text {at}")).collect()
}

/// Answers one request with spaces without end.
async fn answer_without_end(listener: TcpListener) {
    let Ok((mut socket, _)) = listener.accept().await else { return };
    let mut request = [0; 4096];
    let _ = socket.read(&mut request).await;
    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
    let spaces = vec![b' '; 1 << 20];
    while socket.write_all(&spaces).await.is_ok() {}
}

#[tokio::test]
async fn answers_without_end_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(answer_without_end(listener));
    let error = client_of(EndpointSettings::new(url, "m")).embed(&texts(1)).await.expect_err("too much");
    assert!(error.to_string().contains("over the limit"), "{error}");
}

#[tokio::test]
async fn batches_are_bounded_and_order_is_kept() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let many = texts(70);
    let vectors = client(&endpoint).embed(&many).await.expect("vectors");
    assert_eq!(vectors.len(), 70);
    assert_eq!(endpoint.requests().iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 6]);
    let alone = client(&endpoint).embed(&many[41..42]).await.expect("a vector");
    assert_eq!(vectors[41], alone[0]);
    let before = endpoint.requests().len();
    let long: Vec<String> = (0..33).map(|at| format!("{at} {}", "x".repeat(20_000))).collect();
    let _ = client(&endpoint).embed_batch(&long).await;
    let sent = &endpoint.requests()[before];
    assert!(sent.iter().map(String::len).sum::<usize>() <= BATCH_BYTES, "bytes are bounded as well");
}

#[tokio::test]
async fn what_is_refused_does_not_stop_the_others() {
    let endpoint = Endpoint::start(EndpointLimits { inputs: 10, bytes: 100, ..EndpointLimits::default() });
    let client = client(&endpoint);
    let mut some = texts(32);
    some[5] = "y".repeat(300);
    some[20] = "z".repeat(5_000);
    let vectors = client.embed_batch(&some).await.expect("vectors");
    let missing: Vec<usize> = (0..32).filter(|at| vectors.vectors[*at].is_none()).collect();
    assert_eq!(missing, [20], "one was made short enough, the other is too long");
    let error = client.embed(&["z".repeat(5_000)]).await.expect_err("it is not taken");
    assert!(error.to_string().contains("longer than 100 bytes"), "{error}");
}

#[tokio::test]
async fn a_bad_text_does_not_stop_the_others() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let client = client(&endpoint);
    let mut some = texts(32);
    some[0] = "poison ".repeat(9);
    // Half of it is without the word.
    some[17] = format!("{}poison", "nothing at all ".repeat(20));
    let conducts = [400, 424, 500, 503].map(|status| Behavior::RefusesWord("poison", status));
    for conduct in conducts.into_iter().chain([Behavior::ZerosFor("poison")]) {
        endpoint.set_behavior(conduct.clone());
        let batch = client.embed_batch(&some).await.expect("vectors");
        let missing: Vec<usize> = (0..32).filter(|at| batch.vectors[*at].is_none()).collect();
        assert_eq!(missing, [0], "{conduct:?}");
    }
    let batch = client.embed_batch(&some[..1]).await.expect("it is about the text");
    assert!(batch.vectors[0].is_none() && batch.refusal.is_some());
}

#[tokio::test]
async fn an_endpoint_that_refuses_everything_is_not_asked_for_each_text() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let client = client(&endpoint);
    client.embed(&texts(1)).await.expect("it has answered before");
    for (status, most) in [(400, 2), (500, 4)] {
        let before = endpoint.requests().len();
        endpoint.set_behavior(Behavior::Refuses(status, Some(0)));
        assert!(client.embed_batch(&texts(32)).await.is_err(), "{status}");
        assert_eq!(endpoint.requests().len() - before, most, "{status}");
    }
}

#[tokio::test]
async fn texts_are_not_repeated() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    endpoint.set_behavior(Behavior::RefusesWord("merger", 400));
    let settings = EndpointSettings::new(endpoint.url(), "test-model");
    let client = client_of(EndpointSettings { query_prefix: "query: ".into(), ..settings });
    let error = client.embed(&["query: who knows of the merger?".to_owned()]).await;
    let error = error.expect_err("refused");
    assert_eq!(error.to_string(), "the endpoint answered with HTTP status 400: not `[hidden]`");
}

#[tokio::test]
async fn refusals_are_told_and_keys_are_not() {
    let endpoint = Endpoint::start(EndpointLimits { key: Some("right".into()), ..EndpointLimits::default() });
    let check = |model: &str, key: Option<&str>| {
        let key = key.map(Secret::new);
        client_of(EndpointSettings { key, ..EndpointSettings::new(endpoint.url(), model) })
    };
    let wrong = check("test-model", Some("wr0ng-key"));
    let error = wrong.embed(&texts(1)).await.expect_err("refused");
    assert_eq!(with_causes(&error), "the endpoint answered with HTTP status 401: incorrect key provided: [hidden]");
    assert!(error.hint().is_some_and(|hint| hint.contains("`key`")));
    assert!(!format!("{wrong:?}{error:?}").contains("wr0ng-key"));
    let error = check("other", Some("right")).embed(&texts(1)).await.expect_err("refused");
    assert!(error.to_string().ends_with("404: the model \"other\" does not exist"), "{error}");
    assert_eq!(check("test-model", Some("right")).embed(&texts(1)).await.expect("a vector")[0].len(), 64);
}

#[tokio::test]
async fn a_busy_endpoint_is_asked_once_more() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let client = client(&endpoint);
    for status in [429, 500, 503] {
        endpoint.set_behavior(Behavior::RefusesOnce(status, Some(0)));
        assert!(client.embed(&texts(1)).await.is_ok(), "{status}");
    }
    let before = endpoint.requests().len();
    endpoint.set_behavior(Behavior::Refuses(429, Some(0)));
    assert!(client.embed(&texts(1)).await.is_err());
    assert_eq!(endpoint.requests().len() - before, 2, "once more, not for ever");
    endpoint.set_behavior(Behavior::RefusesOnce(429, Some(3600)));
    assert!(client.embed(&texts(1)).await.is_err(), "an hour is not waited for");
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let check = async |conduct: Behavior, expected: &str| {
        endpoint.set_behavior(conduct.clone());
        // Only one that never answers is given up soon: the others take as long as they take.
        let timeout = Duration::from_secs(if conduct == Behavior::Hangs { 1 } else { 60 });
        let settings = EndpointSettings::new(endpoint.url(), "test-model");
        let error = client_of(EndpointSettings { timeout, ..settings });
        let error = error.embed(&texts(4)).await.expect_err("no vectors");
        assert!(error.to_string().contains(expected), "{conduct:?}: {error}");
    };
    check(Behavior::Garbage, "invalid response").await;
    check(Behavior::Half, "no vector for text 2 of 4").await;
    check(Behavior::NotANumber, "invalid response").await;
    check(Behavior::Breaks, "cannot reach the endpoint").await;
    check(Behavior::Hangs, "did not respond within 1 s").await;
    let (url, gone) = (endpoint.url(), endpoint);
    drop(gone);
    let error = client_of(EndpointSettings::new(url, "m")).embed(&texts(1)).await.expect_err("nobody is there");
    assert!(matches!(error, EmbeddingError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn dimensions_are_asked_for_and_checked() {
    let endpoint = Endpoint::start(EndpointLimits::default());
    let settings = EndpointSettings { dimensions: Some(16), ..EndpointSettings::new(endpoint.url(), "test-model") };
    let client = client_of(settings);
    assert_eq!(client.embed(&texts(1)).await.expect("a vector")[0].len(), 16);
    endpoint.set_behavior(Behavior::Dimensions(17));
    assert!(client.embed(&texts(1)).await.expect_err("wrong").to_string().contains("17 dimensions instead of 16"));
}
