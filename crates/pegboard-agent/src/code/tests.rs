use std::{sync::Mutex, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::{Barrier, mpsc},
};

use super::*;

/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than the system takes off our hands for a program that does not read.
const HUGE: usize = 16 << 20;

/// Tools that do what their names say; what was asked of them is kept.
struct Tools {
    asked: Mutex<Vec<(Option<String>, String, Value)>>,
    both: Barrier,
    /// Told when a call begins, and when it is over or given up.
    hanging: mpsc::UnboundedSender<&'static str>,
}

/// Says so when it goes away.
struct Told(mpsc::UnboundedSender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send("given up");
    }
}

impl ToolInvoker for Tools {
    fn invoke<'a>(&'a self, server: Option<&'a str>, name: &'a str, arguments: Value) -> InvokeFuture<'a> {
        let asked = (server.map(str::to_owned), name.to_owned(), arguments);
        self.asked.lock().expect("the list").push(asked);
        let done = |text: &str| InvokeOutcome::Done { text: text.to_owned(), value: None, is_error: false };
        Box::pin(async move {
            match name {
                "fail" => InvokeOutcome::Done { text: "it broke".into(), value: Some(json!(1)), is_error: true },
                "value" => InvokeOutcome::Done { text: "a text".into(), value: Some(json!({"n": 1})), is_error: false },
                "json" => done(r#"{"id": 12345678901234567890123}"#),
                "large" => done(&"x".repeat(2000)),
                "longish" => done(&"x".repeat(100_000)),
                "huge" => done(&"x".repeat(HUGE)),
                "both" => {
                    self.both.wait().await;
                    done("met")
                }
                "hang" => {
                    let _told = Told(self.hanging.clone());
                    let _ = self.hanging.send("begun");
                    std::future::pending().await
                }
                "missing" => InvokeOutcome::Unknown,
                _ => done("plain"),
            }
        })
    }

    fn similar_names(&self, server: Option<&str>, _name: &str) -> Vec<String> {
        if server.is_some() { vec!["value".to_owned()] } else { Vec::new() }
    }
}

struct Started {
    api: ToolApi,
    tools: Arc<Tools>,
    hanging: mpsc::UnboundedReceiver<&'static str>,
}

fn settings() -> ApiSettings {
    ApiSettings { max_body_bytes: 1000, max_values: 100, max_result_bytes: 1000, ..ApiSettings::default() }
}

async fn start() -> Started {
    start_with(settings()).await
}

async fn start_with(settings: ApiSettings) -> Started {
    let (sender, hanging) = mpsc::unbounded_channel();
    let tools = Arc::new(Tools { asked: Mutex::default(), both: Barrier::new(2), hanging: sender });
    let api = ToolApi::start(Arc::clone(&tools) as Arc<dyn ToolInvoker>, settings).await.expect("an API");
    Started { api, tools, hanging }
}

impl Started {
    /// Sends a request with the right token.
    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let authorization = format!("Authorization: Bearer {}", self.api.token());
        self.send("POST", path, &[&authorization], body).await
    }

    async fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, Value) {
        let (status, head, body) = exchange(self.api.address(), method, path, headers, body).await;
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!(head.contains("allow: POST"), status == 405, "{head}");
        let reply: Value = serde_json::from_str(&body).expect("JSON");
        let members: Vec<&String> = reply.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["success", "result", "error"]);
        (status, reply)
    }

    fn asked(&self) -> Vec<(Option<String>, String, Value)> {
        self.tools.asked.lock().expect("the list").clone()
    }
}

async fn connect(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
    let stream = TcpStream::connect(address).await.expect("a connection");
    send_on(stream, method, path, headers, body).await
}

async fn send_on(mut stream: TcpStream, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
    let host = if headers.iter().any(|header| header.starts_with("Host:")) { "" } else { "Host: localhost\r\n" };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("a request");
    stream
}

/// Status, headers and body of the answer to one request.
async fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> (u16, String, String) {
    let mut stream = connect(address, method, path, headers, body).await;
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    // What was not read of a request may end the connection behind the answer.
    let _ = read.expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("headers and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), body.to_owned())
}

fn ok(result: &Value) -> Value {
    json!({"success": true, "result": result, "error": null})
}

fn failed(error: &str) -> Value {
    json!({"success": false, "result": null, "error": error})
}

#[tokio::test]
async fn calls_and_their_results() {
    let started = start().await;
    let check =
        async |path: &str, expected: Value| assert_eq!(started.post(path, "{}").await, (200, expected), "{path}");
    check("/tools/mcp/s/plain", ok(&json!("plain"))).await;
    check("/tools/mcp/s/value", ok(&json!({"n": 1}))).await;
    check("/tools/custom/fail", failed("it broke")).await;
    let too_large = "the result is 2041 bytes, over the limit of 1000; request less at a time";
    check("/tools/custom/large", failed(too_large)).await;
    let authorization = format!("authorization: bearer {}", started.api.token());
    let (_, _, body) = exchange(started.api.address(), "POST", "/tools/custom/json", &[&authorization], "").await;
    assert_eq!(body, r#"{"success":true,"result":{"id": 12345678901234567890123},"error":null}"#);
}

#[tokio::test]
async fn names_and_arguments_arrive_as_they_are() {
    let started = start().await;
    for (path, body) in [
        ("/tools/mcp/my%20server/a%2Fb", r#"{"x": [1, null], "y": "ü"}"#),
        ("/tools/mcp/%C3%BCber/%E9%80%81%E4%BF%A1?ignored=1", ""),
        ("/tools/custom/a.b-c_d~e%3F", " \n"),
    ] {
        assert_eq!(started.post(path, body).await.0, 200, "{path}");
    }
    let call =
        |server: Option<&str>, name: &str, arguments: Value| (server.map(str::to_owned), name.to_owned(), arguments);
    assert_eq!(
        started.asked(),
        [
            call(Some("my server"), "a/b", json!({"x": [1, null], "y": "ü"})),
            call(Some("über"), "送信", json!({})),
            call(None, "a.b-c_d~e?", json!({})),
        ]
    );
}

#[tokio::test]
async fn refusals_have_the_same_shape() {
    let started = start().await;
    let right = format!("Authorization: Bearer {}", started.api.token());
    let path = "/tools/custom/plain";
    let large = format!(r#"{{"x": "{}"}}"#, "x".repeat(1000));
    let nothing = "not found; paths are `/tools/mcp/{server}/{tool}` and `/tools/custom/{tool}`";
    let deep = "[".repeat(900);
    type Case<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, u16, &'a str);
    let many = format!(r#"{{"a": [{}]}}"#, vec![r#"{"":0}"#; 50].join(","));
    let nested = format!(r#"{{"a": {}{}}}"#, "[".repeat(64), "]".repeat(64));
    let cases: [Case<'_>; 18] = [
        ("POST", path, &[], "", 401, "a bearer token is required"),
        ("POST", path, &["Authorization: Bearer x"], "", 401, "this bearer token is not valid"),
        ("GET", "/nowhere", &[], "", 401, "a bearer token is required"),
        ("POST", path, &[&right, "Host: evil.example.com"], "", 403, "this `Host` is not allowed"),
        ("POST", path, &[&right, "Origin: https://evil.example.com"], "", 403, "this `Origin` is not allowed"),
        ("POST", "/", &[&right], "", 404, nothing),
        ("GET", "/tools/custom/a/b", &[&right], "", 404, nothing),
        ("POST", "/tools/custom/missing", &[&right], "", 404, "no tool `missing`"),
        ("POST", "/tools/mcp/s%0A/missing", &[&right], "", 404, "no tool `missing` on `s`; nearest names: value"),
        ("GET", path, &[&right], "", 405, "use POST to call tools"),
        ("DELETE", path, &[&right], "", 405, "use POST to call tools"),
        ("POST", path, &[&right], "[1]", 400, "the arguments must be a JSON object"),
        (
            "POST",
            path,
            &[&right],
            "{\"a\":",
            400,
            "the arguments are not JSON: EOF while parsing a value at line 1 column 5",
        ),
        ("POST", path, &[&right], &deep, 413, "the arguments have more than 100 values"),
        ("POST", path, &[&right], &many, 413, "the arguments have more than 100 values"),
        ("POST", path, &[&right], &nested, 400, "the arguments are nested deeper than 64 levels"),
        (
            "POST",
            path,
            &[&right, "Host: localhost", "Host: localhost"],
            "",
            400,
            "exactly one `Host` header is required",
        ),
        ("POST", path, &[&right], &large, 413, "the arguments are over the limit of 1000 bytes"),
    ];
    for (method, path, headers, body, status, error) in cases {
        assert_eq!(started.send(method, path, headers, body).await, (status, failed(error)), "{method} {path}");
    }
    let called: Vec<String> = started.asked().into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(called, ["missing", "missing"]);
}

#[tokio::test]
async fn two_calls_at_once() {
    let started = start().await;
    let met = tokio::join!(started.post("/tools/custom/both", ""), started.post("/tools/mcp/s/both", ""));
    assert_eq!(met, ((200, ok(&json!("met"))), (200, ok(&json!("met")))));
}

#[tokio::test]
async fn a_call_is_given_up_with_its_program() {
    let mut started = start().await;
    let authorization = format!("Authorization: Bearer {}", started.api.token());
    let program = connect(started.api.address(), "POST", "/tools/custom/hang", &[&authorization], "").await;
    let told = async |hanging: &mut mpsc::UnboundedReceiver<_>| tokio::time::timeout(PATIENCE, hanging.recv()).await;
    assert_eq!(told(&mut started.hanging).await, Ok(Some("begun")));
    drop(program);
    assert_eq!(told(&mut started.hanging).await, Ok(Some("given up")));
    assert_eq!(started.post("/tools/custom/plain", "").await.0, 200);
}

#[tokio::test]
async fn dropping_it_stops_it() {
    let mut started = start().await;
    let address = started.api.address();
    let authorization = format!("Authorization: Bearer {}", started.api.token());
    let mut program = connect(address, "POST", "/tools/custom/hang", &[&authorization], "").await;
    assert_eq!(started.hanging.recv().await, Some("begun"));
    drop(started.api);
    let stopped = async {
        assert_eq!(started.hanging.recv().await, Some("given up"));
        let mut answer = Vec::new();
        let _ = program.read_to_end(&mut answer).await;
        assert!(answer.is_empty());
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, stopped).await.expect("an end");
}

#[tokio::test]
async fn no_more_arguments_are_read_than_calls_carried_out() {
    let mut started = start().await;
    let authorization = format!("Authorization: Bearer {}", started.api.token());
    let address = started.api.address();
    let hang = async || connect(address, "POST", "/tools/custom/hang", &[&authorization], "").await;
    let mut programs = Vec::new();
    for _ in 0..16 {
        programs.push(hang().await);
        assert_eq!(started.hanging.recv().await, Some("begun"));
    }
    // Both tell the same channel, which shows their order.
    let order = started.tools.hanging.clone();
    let answered = async {
        let (status, _) = started.post("/tools/custom/plain", "no JSON").await;
        let _ = order.send("answered");
        status
    };
    let one_goes = async {
        // Everything runs on this thread: the API has the time to answer if it does not wait.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        programs.pop();
    };
    let (status, ()) = tokio::join!(answered, one_goes);
    assert_eq!(status, 400);
    let order = [started.hanging.recv().await, started.hanging.recv().await];
    assert_eq!(order, [Some("given up"), Some("answered")], "it waits its turn");
}

#[tokio::test]
async fn large_arguments_and_results() {
    let settings = ApiSettings { max_body_bytes: 1 << 20, max_result_bytes: HUGE + 100, ..settings() };
    let started = start_with(settings).await;
    let text = "x".repeat(500_000);
    let (status, reply) = started.post("/tools/custom/huge", &json!({"text": text}).to_string()).await;
    assert_eq!((status, reply["result"].as_str().map(str::len)), (200, Some(HUGE)));
    assert_eq!(started.asked()[0].2, json!({"text": text}));
    let many = format!(r#"{{"a": [{}]}}"#, vec![r#"{"":0}"#; 100_000].join(","));
    let expected = (413, failed("the arguments have more than 100 values"));
    assert_eq!(started.post("/tools/custom/plain", &many).await, expected);
}

/// A program that has begun to read a huge reply, and goes no further.
async fn unread(started: &Started) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let stream = socket.connect(started.api.address()).await.expect("a connection");
    let authorization = format!("Authorization: Bearer {}", started.api.token());
    let mut stream = send_on(stream, "POST", "/tools/custom/huge", &[&authorization], "").await;
    assert_eq!(stream.read_u8().await.ok(), Some(b'H'));
    stream
}

#[tokio::test]
async fn replies_that_nobody_reads_are_bounded() {
    let room_timeout = Duration::from_millis(50);
    let settings = ApiSettings { max_result_bytes: 2 * HUGE, max_unsent_bytes: HUGE, room_timeout, ..settings() };
    let started = start_with(settings).await;
    let unread = unread(&started).await;
    let told = "the tool was called, but its result was dropped: too many replies have not been read yet";
    assert_eq!(started.post("/tools/custom/huge", "").await, (503, failed(told)));
    assert_eq!(started.post("/tools/custom/plain", "").await.0, 200, "short ones need no room");
    drop(unread);
    let room = async { while started.post("/tools/custom/huge", "").await.0 != 200 {} };
    tokio::time::timeout(PATIENCE, room).await.expect("room again");
}

#[tokio::test]
async fn not_all_calls_wait_for_room() {
    let room_timeout = 10 * PATIENCE;
    let settings = ApiSettings { max_result_bytes: 2 * HUGE, max_unsent_bytes: HUGE, room_timeout, ..settings() };
    let started = Arc::new(start_with(settings).await);
    let unread = unread(&started).await;
    let (sender, mut answers) = mpsc::unbounded_channel();
    for _ in 0..20 {
        let (started, sender) = (Arc::clone(&started), sender.clone());
        tokio::spawn(async move { sender.send(started.post("/tools/custom/longish", "").await.0) });
    }
    let statuses = async |answers: &mut mpsc::UnboundedReceiver<u16>, count| {
        let mut statuses = Vec::new();
        while statuses.len() < count {
            tokio::time::timeout(PATIENCE, answers.recv_many(&mut statuses, 1)).await.expect("answers in time");
        }
        statuses
    };
    assert_eq!(statuses(&mut answers, 8).await, [503; 8]);
    assert_eq!(started.post("/tools/custom/plain", "").await.0, 200, "others get on");
    drop(unread);
    assert_eq!(statuses(&mut answers, 12).await, [200; 12]);
}

#[tokio::test]
async fn clients_that_read_nothing_are_cut_off() {
    let write_timeout = Duration::from_millis(50);
    let settings = ApiSettings { max_result_bytes: 2 * HUGE, max_unsent_bytes: HUGE, write_timeout, ..settings() };
    let started = start_with(settings).await;
    let mut unread = unread(&started).await;
    // Short enough to be written at once, however slowly it is read.
    assert_eq!(started.post("/tools/custom/longish", "").await.0, 200, "once the first has made room");
    let mut read = Vec::new();
    let _ = unread.read_to_end(&mut read).await;
    assert!(read.len() < HUGE, "{}", read.len());
}

#[tokio::test]
async fn every_api_has_a_secret_of_its_own() {
    let (one, other) = (start().await, start().await);
    assert_eq!(one.api.token().len(), 64);
    assert_ne!(one.api.token(), other.api.token());
    assert!(one.api.address().ip().is_loopback() && one.api.address().port() != 0);
    let [(url, at), (secret, token)] = one.api.environment();
    assert_eq!((url, at), ("MCP_API_URL", one.api.url()));
    assert_eq!((secret, token.as_str()), ("MCP_API_TOKEN", one.api.token()));
    assert!(!format!("{:?}", one.api).contains(one.api.token()));
}
