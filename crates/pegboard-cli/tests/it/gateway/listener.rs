//! A small HTTP server with scripted answers, and a telemetry collector made of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value as Any},
    metrics::v1::Metric,
    resource::v1::Resource,
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::PATIENCE;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// The answer to a request; `None` for a server that hangs.
pub(crate) type ScriptedAnswer = Option<(u16, String)>;

/// A server that records its requests.
pub(crate) struct Listener {
    pub(crate) url: String,
    got: watch::Receiver<Vec<ReceivedRequest>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    pub(crate) async fn start(answer: impl Fn(&ReceivedRequest) -> ScriptedAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, got) = watch::channel(Vec::new());
        let (sender, answer) = (Arc::new(sender), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (sender, answer) = (Arc::clone(&sender), Arc::clone(&answer));
                tokio::spawn(async move { while_open(stream, &sender, &*answer).await });
            }
        });
        Self { url, got, task }
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.got.borrow().clone()
    }

    /// Waits until so many requests have arrived.
    pub(crate) async fn wait_for_requests(&self, count: usize) {
        let mut got = self.got.clone();
        let enough = tokio::time::timeout(PATIENCE, got.wait_for(|got| got.len() >= count)).await;
        assert!(matches!(enough, Ok(Ok(_))), "fewer than {count} requests came");
    }
}

async fn while_open(
    mut stream: TcpStream,
    sender: &watch::Sender<Vec<ReceivedRequest>>,
    answer: &(dyn Fn(&ReceivedRequest) -> ScriptedAnswer + Sync),
) {
    let mut bytes = Vec::new();
    while let Some(got) = read(&mut stream, &mut bytes).await {
        let said = answer(&got);
        sender.send_modify(|all| all.push(got));
        let Some((status, body)) = said else { return std::future::pending().await };
        let kind = if body.is_empty() { "application/x-protobuf" } else { "application/json" };
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the next request on a connection.
async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<ReceivedRequest> {
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of text");
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
    while bytes.len() < end + 4 + length {
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = bytes[end + 4..end + 4 + length].to_vec();
    bytes.drain(..end + 4 + length);
    Some(ReceivedRequest { path, headers, body })
}

/// The received telemetry. Anything else fails the test.
pub(crate) struct Collector {
    pub(crate) listener: Listener,
    status: Arc<Mutex<Option<u16>>>,
}

impl Collector {
    /// Starts a collector that accepts everything.
    pub(crate) async fn start() -> Self {
        Self::answering(Some(200)).await
    }

    /// Starts a collector with this status; `None` never answers.
    pub(crate) async fn answering(status: Option<u16>) -> Self {
        let status = Arc::new(Mutex::new(status));
        let now = Arc::clone(&status);
        let answer = move |_: &ReceivedRequest| {
            now.lock().unwrap_or_else(PoisonError::into_inner).map(|status| (status, String::new()))
        };
        Self { listener: Listener::start(answer).await, status }
    }

    /// Changes the status of further answers.
    pub(crate) fn answer(&self, status: u16) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let got = self.listener.requests().into_iter().filter(|got| got.path == path);
        got.inspect(|got| assert_eq!(got.headers["content-type"], "application/x-protobuf"))
            .map(|got| got.body)
            .collect()
    }

    /// Returns the requests with spans.
    pub(crate) fn span_bodies(&self) -> Vec<Vec<u8>> {
        self.bodies("/v1/traces")
    }

    /// Returns all spans, each with its resource.
    pub(crate) fn spans(&self) -> Vec<(Resource, Span)> {
        let mut spans = Vec::new();
        for body in self.span_bodies() {
            let request = ExportTraceServiceRequest::decode(&*body).expect("spans");
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.expect("a resource");
                let scopes = of_resource.scope_spans.into_iter();
                spans.extend(scopes.flat_map(|scope| scope.spans).map(|span| (resource.clone(), span)));
            }
        }
        spans
    }

    /// Returns the latest metrics.
    pub(crate) fn latest_metrics(&self) -> Vec<Metric> {
        let bodies = self.bodies("/v1/metrics");
        let last = bodies.last().expect("numbers");
        let request = ExportMetricsServiceRequest::decode(&**last).expect("numbers");
        let scopes = request.resource_metrics.into_iter().flat_map(|of_resource| of_resource.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    }
}

/// Returns the attribute `key`, as text.
pub(crate) fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Any::StringValue(text) => Some(text),
        Any::IntValue(number) => Some(number.to_string()),
        other => panic!("`{key}` is {other:?}"),
    }
}

/// Returns bytes in hexadecimal, as in headers.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
