use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tower::ServiceExt as _;

use super::*;
use crate::mode::Mode;

/// Answers one request; returns its head.
async fn answer_one(listener: TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut read = String::new();
    while !read.contains("\r\n\r\n") {
        let byte = stream.read_u8().await.expect("a head");
        read.push(char::from(byte));
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await.expect("sent");
    read
}

#[tokio::test]
async fn bodies_that_pass_are_read_as_a_whole_only_for_callers_with_hidden_turns() {
    for (route, path) in [
        (Route::Anthropic, "/anthropic/v1/messages"),
        (Route::OpenAi, "/openai/v1/responses"),
        (Route::OpenAi, "/openai/v1/chat/completions"),
    ] {
        let can_have = !path.contains("chat");
        for (key, is_read) in [("known", can_have), ("other", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let mut settings = Settings::default();
            settings.modes.default = Mode::Pass;
            settings.upstreams.set(route, &url);
            let proxy = Proxy::new(settings).expect("a proxy");
            let mut headers = HeaderMap::new();
            headers.insert("x-api-key", "known".parse().expect("a value"));
            let credential = access::credential(&headers, &"/".parse().expect("a URL"));
            let conversations = &proxy.0.conversations;
            conversations.mark(&conversations.root(route.as_str(), proxy.0.settings.upstreams.get(route), &credential));
            let answering = tokio::spawn(answer_one(listener));
            // Its size is not known before its end.
            let (sender, body) = forward::stream_body();
            let sending = tokio::spawn(async move { sender.send(b"{}".to_vec()).await });
            let request = axum::http::Request::post(path).header("x-api-key", key).body(body).expect("a request");
            let response = proxy.router().oneshot(request).await.expect("a response");
            assert_eq!(response.headers()["x-pegboard"], "mode=pass; reason=mode", "{path} {key}");
            let head = answering.await.expect("no panic").to_lowercase();
            assert_eq!(head.contains("transfer-encoding: chunked"), !is_read, "{path} {key}: {head}");
            sending.await.expect("no panic").expect("it was read");
        }
    }
}
