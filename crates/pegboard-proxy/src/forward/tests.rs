use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use rustls::{
    ServerConfig, ServerConnection, Stream,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::*;

#[test]
fn headers_of_the_connection_stay_here() {
    let mut headers = HeaderMap::new();
    let all = [
        ("connection", "close, x-hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("host", "127.0.0.1"),
        ("x-pegboard-token", "t"),
        ("authorization", "Bearer k"),
        ("anthropic-beta", "a"),
        ("anthropic-beta", "b"),
        ("x-stainless-lang", "python"),
    ];
    for (name, value) in all {
        headers.append(name, value.parse().expect("a value"));
    }
    let kept: Vec<(String, String)> = end_to_end(&headers)
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
        .collect();
    let expected = [
        ("authorization", "Bearer k"),
        ("anthropic-beta", "a"),
        ("anthropic-beta", "b"),
        ("x-stainless-lang", "python"),
    ];
    assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn bodies_are_limited() {
    assert!(matches!(RequestBody::new(Body::from("12345"), 4), Err(RequestError::TooLarge { limit: 4 })));
    let room = BodyRoom::new(3);
    assert!(matches!(read_body(Body::from("12345"), 4, &room).await, Err(RequestError::TooLarge { limit: 4 })));
    let (small, taken) = read_body(Body::from("1234"), 4, &room).await.expect("small");
    assert_eq!((&small[..], taken.shared.num_permits()), (&b"1234"[..], 1));
    drop(taken);
    // The size of a stream is not known before it ends.
    let (sender, body) = stream_body();
    let sending = tokio::spawn(async move { sender.send(b"12345".to_vec()).await });
    assert!(matches!(read_body(body, 4, &room).await, Err(RequestError::TooLarge { limit: 4 })));
    assert_eq!(sending.await.expect("no panic"), Ok(()));
}

/// A body that breaks off.
struct Broken;

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

#[tokio::test]
async fn errors_of_a_body_that_passes_are_the_clients() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let upstream = Upstream::new(Duration::from_secs(60)).expect("a client");
    let outgoing = Outgoing { method: Method::POST, url, headers: HeaderMap::new() };
    let send = async |body: Body| {
        let body = reqwest::Body::wrap(RequestBody::new(body, 4).expect("its size is unknown"));
        upstream.send(&outgoing, body).await.expect_err("the provider never answers")
    };
    let (sender, body) = stream_body();
    let sending = tokio::spawn(async move { sender.send(b"12345".to_vec()).await });
    let error = send(body).await;
    assert!(matches!(error, RequestError::TooLarge { limit: 4 }), "{error}");
    let error = send(Body::new(Broken)).await;
    assert!(matches!(error, RequestError::Body(_)), "{error}");
    sending.abort();
    accepting.abort();
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_hold_no_room_and_end() {
    let room = Arc::new(BodyRoom::new(2));
    let (sender, body) = stream_body();
    let slow = tokio::spawn({
        let room = Arc::clone(&room);
        async move { read_body(body, 1 << 20, &room).await.map(|(bytes, _)| bytes) }
    });
    sender.send(b"begun".to_vec()).await.expect("it reads");
    let (quick, taken) = read_body(Body::from("1234"), 1 << 20, &room).await.expect("there is room");
    assert_eq!((&quick[..], taken.shared.num_permits()), (&b"1234"[..], 1));
    let error = slow.await.expect("no panic").expect_err("nothing more comes");
    assert_eq!(error.status(), axum::http::StatusCode::REQUEST_TIMEOUT);
    // One body may go beyond the room, and no other one.
    let (long, beyond) = read_body(Body::from(vec![b'x'; 3000]), 1 << 20, &room).await.expect("beyond the room");
    assert_eq!((long.len(), beyond.beyond.is_some()), (3000, true));
    let error = read_body(Body::from("1234"), 1 << 20, &room).await.expect_err("no room");
    assert_eq!(error.status(), axum::http::StatusCode::SERVICE_UNAVAILABLE);
    drop(taken);
    let error = read_body(Body::from(vec![b'x'; 3000]), 1 << 20, &room).await.expect_err("no room");
    assert_eq!(error.status(), axum::http::StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn bodies_do_not_wait_for_each_other() {
    // All begin, and have all of the room together before any of them is complete.
    let room = Arc::new(BodyRoom::new(16));
    let (begun, mut rest) = (Arc::new(tokio::sync::Barrier::new(17)), Vec::new());
    let reading: Vec<_> = (0..16)
        .map(|_| {
            let (sender, body) = stream_body();
            rest.push(sender);
            let (room, begun) = (Arc::clone(&room), Arc::clone(&begun));
            tokio::spawn(async move {
                let mut body = Box::pin(read_body(body, 1 << 20, &room));
                assert!(is_pending(&mut body).await, "nothing has come");
                begun.wait().await;
                body.await.map(|(bytes, _)| bytes.len())
            })
        })
        .collect();
    begun.wait().await;
    assert_eq!(room.shared.available_permits(), 0);
    for sender in rest {
        tokio::spawn(async move {
            for _ in 0..8 {
                sender.send(vec![b'x'; 1024]).await.expect("it reads");
            }
        });
    }
    for body in reading {
        assert_eq!(body.await.expect("no panic").expect("it is read"), 8 << 10);
    }
    assert_eq!((room.shared.available_permits(), room.beyond.available_permits()), (16, 1));
}

/// Polls a future once; returns whether it is not complete.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

#[tokio::test]
async fn a_disconnect_is_noticed_while_nothing_is_sent() {
    let (sender, body) = stream_body();
    let waiting = tokio::spawn(async move { sender.disconnected().await });
    drop(body);
    waiting.await.expect("it ends");
}

/// Answers one request over TLS. Returns the protocol that was negotiated, although the server knows a newer one, and the
/// beginning of the request.
fn serve_over_tls(listener: &TcpListener) -> (Vec<u8>, Vec<u8>) {
    // Of nobody, for tests alone.
    let pem = include_bytes!("localhost.pem");
    let certificate = CertificateDer::from_pem_slice(pem).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(pem).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let mut config = config.expect("they belong together");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (mut socket, _) = listener.accept().expect("a connection");
    let mut connection = ServerConnection::new(Arc::new(config)).expect("a connection");
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).expect("a handshake");
    }
    let protocol = connection.alpn_protocol().unwrap_or_default().to_owned();
    let mut begun = [0; 8];
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.read_exact(&mut begun).expect("a request");
    // A client of HTTP/2 takes this for an error.
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    (protocol, begun.to_vec())
}

#[tokio::test]
async fn providers_are_asked_over_a_connection_for_each_request() {
    let minute = Duration::from_secs(60);
    let check = async |client: reqwest::ClientBuilder, protocol: &str, begun: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        let serving = tokio::task::spawn_blocking(move || serve_over_tls(&listener));
        let http = client.tls_danger_accept_invalid_certs(true).build().expect("a client");
        let outgoing = Outgoing { method: Method::GET, url, headers: HeaderMap::new() };
        let response = Upstream { http }.send(&outgoing, reqwest::Body::default()).await;
        let (negotiated, sent) = serving.await.expect("no panic");
        assert_eq!((negotiated, sent), (protocol.as_bytes().to_vec(), begun.as_bytes().to_vec()));
        response.map(|response| response.version()).ok()
    };
    assert_eq!(check(http_client(minute), "http/1.1", "GET / HT").await, Some(axum::http::Version::HTTP_11));
    // The server would take the other one.
    assert_eq!(check(reqwest::Client::builder(), "h2", "PRI * HT").await, None);
}
