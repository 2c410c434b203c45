//! A request followed from its client to a server: traces, metrics, and the log.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use opentelemetry_proto::tonic::{
    metrics::v1::{metric::Data, number_data_point},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use serde_json::{Value, json};

use super::{
    Legacy, Served, client, fixture, fixture_path,
    listener::{Collector, Listener, ReceivedRequest, ScriptedAnswer, attribute, hex},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

fn parent() -> String {
    format!("00-{TRACE}-{CLIENT_SPAN}-01")
}

fn telemetry(collector: &str) -> Value {
    json!({"endpoint": collector, "headers": {"x-key": "open-sesame-open-sesame"}, "serviceName": "gate"})
}

/// Starts a remote server of one tool, which reveals no more than it must.
async fn remote() -> Listener {
    Listener::start(|got: &ReceivedRequest| -> ScriptedAnswer {
        let message: Value = serde_json::from_slice(&got.body).unwrap_or_default();
        let result = match message["method"].as_str()? {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            "tools/list" => json!({"tools": [{"name": "far", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [], "resultType": "complete"}),
            // A server of this version alone.
            "initialize" => {
                let error = json!({"code": -32601, "message": "Method not found"});
                return Some((200, json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string()));
            }
            // A stream for news, which never has any.
            _ => return None,
        };
        Some((200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()))
    })
    .await
}

/// The spans of one trace, by their names.
struct Trace(Vec<Span>);

impl Trace {
    fn of(collector: &Collector, trace: &str) -> Self {
        let spans = collector.spans().into_iter().map(|(resource, span)| {
            assert_eq!(attribute(&resource.attributes, "service.name").as_deref(), Some("gate"));
            span
        });
        Self(spans.filter(|span| hex(&span.trace_id) == trace).collect())
    }

    #[track_caller]
    fn find(&self, kind: SpanKind, name: &str) -> &Span {
        let found: Vec<&Span> = self.0.iter().filter(|span| span.kind() == kind && span.name == name).collect();
        let names: Vec<&str> = self.0.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(found.len(), 1, "`{name}` among {names:?}");
        found[0]
    }

    /// Follows the parents of `span` up to one that is not Pegboard's, and returns the names on the
    /// way, and what is above.
    fn way(&self, span: &Span) -> (Vec<String>, String) {
        let (mut names, mut at) = (Vec::new(), span);
        loop {
            names.push(at.name.clone());
            match self.0.iter().find(|other| other.span_id == at.parent_span_id) {
                Some(above) => at = above,
                None => return (names, hex(&at.parent_span_id)),
            }
        }
    }
}

/// Returns the parent that a server received: its trace and its span.
fn split_parent(text: &Value) -> (String, String) {
    let parts: Vec<&str> = text.as_str().expect("a parent").split('-').collect();
    assert_eq!((parts.len(), parts[0], parts[3]), (4, "00", "01"), "{text}");
    (parts[1].to_owned(), parts[2].to_owned())
}

#[tokio::test]
async fn one_trace_from_the_client_to_the_server() {
    for era in ["legacy", "modern"] {
        let (collector, remote) = (Collector::start().await, remote().await);
        let config = json!({
            "mcpServers": {
                "pipe": {"command": fixture_path(), "args": ["--extras", "--era", era]},
                "web": {"type": "http", "url": remote.url}
            },
            "pegboard": {"exposure": "never", "telemetry": telemetry(&collector.listener.url)}
        });
        let mut served = Served::start(&format!("trace-{era}"), &config).await;
        let own = json!({"traceparent": parent(), "tracestate": "vendor=1", "baggage": "user=ada", "kept": 1});
        let call = |tool: &str| json!({"name": tool, "arguments": {"secret": "hush"}, "_meta": own});

        let reply = served.modern("tools/call", call("pipe___echo")).await;
        let meta = reply.result()["x-vendor"]["meta"].clone();
        assert_eq!(
            (&meta["tracestate"], &meta["baggage"], &meta["kept"]),
            (&"vendor=1".into(), &"user=ada".into(), &1.into())
        );
        let (trace, pipe_parent) = split_parent(&meta["traceparent"]);
        assert_eq!(trace, TRACE);

        // A header says it too, and a legacy client may say it as well.
        let legacy = Legacy::begin(&served.url, "old-timer", json!({})).await;
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "web___far"}});
        let request = client::http().post(&served.url).header("mcp-session-id", &legacy.session);
        let request = request.header("accept", "application/json, text/event-stream").header("traceparent", parent());
        assert_eq!(request.body(asked.to_string()).send().await.expect("an answer").status(), 200);

        served.signal("TERM");
        assert_eq!(served.wait_for_exit().await, Some(0));
        let spans = Trace::of(&collector, TRACE);

        let upstream = spans.find(SpanKind::Client, "tools/call echo");
        assert_eq!(hex(&upstream.span_id), pipe_parent);
        let way = ["tools/call echo", "execute_tool echo", "tools/call pipe___echo"].map(str::to_owned).to_vec();
        assert_eq!(spans.way(upstream), (way, CLIENT_SPAN.to_owned()), "{era}");
        let facts = ["mcp.method.name", "gen_ai.tool.name", "pegboard.server", "pegboard.outcome"];
        let facts = facts.map(|key| attribute(&upstream.attributes, key).unwrap_or_default());
        assert_eq!(facts, ["tools/call", "echo", "pipe", "ok"]);

        let upstream = spans.find(SpanKind::Client, "tools/call far");
        let way = ["tools/call far", "execute_tool far", "tools/call web___far"].map(str::to_owned).to_vec();
        assert_eq!(spans.way(upstream), (way, CLIENT_SPAN.to_owned()), "{era}");
        let request = spans.find(SpanKind::Server, "tools/call web___far");
        assert_eq!(attribute(&request.attributes, "pegboard.client").as_deref(), Some("old-timer"));
        assert_eq!(attribute(&request.attributes, "jsonrpc.request.id").as_deref(), Some("1"));
        let calls = remote
            .requests()
            .into_iter()
            .filter(|got| got.headers.get("mcp-method").is_some_and(|it| it == "tools/call"));
        let calls: Vec<ReceivedRequest> = calls.collect();
        assert_eq!(calls.len(), 1);
        let body: Value = serde_json::from_slice(&calls[0].body).expect("JSON");
        let expected = (TRACE.to_owned(), hex(&upstream.span_id));
        assert_eq!(split_parent(&calls[0].headers["traceparent"].clone().into()), expected);
        assert_eq!(split_parent(&body["params"]["_meta"]["traceparent"]), expected);

        // A collector of traces gets neither arguments nor secrets.
        let all: String =
            collector.listener.requests().iter().map(|got| String::from_utf8_lossy(&got.body).into_owned()).collect();
        assert!(!all.contains("hush") && !all.contains("sesame"));
        assert!(collector.listener.requests().iter().all(|got| got.headers["x-key"] == "open-sesame-open-sesame"));
        assert!(!served.log().contains("sesame"), "a secret in the log");
    }
}

#[tokio::test]
async fn starts_searches_and_failures_are_spans() {
    let collector = Collector::start().await;
    let config = json!({
        "mcpServers": {"pipe": fixture(&["--extras"])},
        "pegboard": {
            "dialect": "bridge",
            "lazy": true,
            "telemetry": telemetry(&collector.listener.url)
        }
    });
    let state = std::env::temp_dir().join(format!("pegboard-traces-{}", std::process::id()));
    let variables = [("PEGBOARD_STATE", state.to_str().expect("a path"))];
    let mut first = Served::start_with("spans-first", &config, &[], &variables).await;
    first.wait_for_log("server ready").await;
    // The server has listed its tools for what clients can be asked for, so that nothing but a call starts it.
    first.modern("tools/list", json!({})).await.result();
    first.signal("TERM");
    assert_eq!(first.wait_for_exit().await, Some(0));
    // Known from before, so that the call starts it.
    let mut served = Served::start_with("spans", &config, &[], &variables).await;
    let own = json!({"traceparent": parent()});
    let search = json!({"name": "search_tools", "arguments": {"query": "returns its arguments"}, "_meta": own});
    served.modern("tools/call", search).await.result();
    let call = json!({"name": "call_tool", "arguments": {"name": "echo", "arguments": {}}, "_meta": own});
    served.modern("tools/call", call).await.result();
    let call =
        json!({"name": "call_tool", "arguments": {"name": "test_error_handling", "arguments": {}}, "_meta": own});
    assert_eq!(served.modern("tools/call", call).await.result()["isError"], true);
    served.modern("tools/none", json!({"_meta": own})).await.error();
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    let _ = std::fs::remove_dir_all(&state);

    let spans = Trace::of(&collector, TRACE);
    let search = spans.find(SpanKind::Internal, "execute_tool search_tools");
    assert_eq!(attribute(&search.attributes, "pegboard.outcome").as_deref(), Some("hit"));
    let start = spans.find(SpanKind::Internal, "start");
    assert_eq!(spans.way(start).0[1..3], ["tools/call echo", "execute_tool echo"]);
    let failed = spans.find(SpanKind::Internal, "execute_tool test_error_handling");
    assert_eq!(failed.status.as_ref().map(|status| status.code()), Some(StatusCode::Error));
    assert_eq!(attribute(&failed.attributes, "error.type").as_deref(), Some("tool_error"));
    let unknown = spans.find(SpanKind::Server, "other");
    assert_eq!(attribute(&unknown.attributes, "error.type").as_deref(), Some("-32601"));
}

#[tokio::test]
async fn numbers_are_those_of_the_page() {
    let collector = Collector::start().await;
    let config = json!({"mcpServers": {"pipe": fixture(&["--extras"])}, "pegboard": {"exposure": "never"}});
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.listener.url.as_str()),
        ("OTEL_SERVICE_NAME", "gate"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ];
    let mut served = Served::start_with("numbers", &config, &[], &variables).await;
    for _ in 0..3 {
        served.modern("tools/call", json!({"name": "echo", "arguments": {}})).await.result();
    }
    let page = client::http().get(served.url.replace("/mcp", "/metrics")).send().await.expect("a page");
    let page = page.text().await.expect("a page");
    assert!(page.contains("pegboard_calls_total{server=\"pipe\",outcome=\"ok\"} 3"), "{page}");
    // At an interval, and once more at the end.
    collector.listener.wait_for_requests(2).await;
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    let numbers = collector.latest_metrics();
    let named = |name: &str| numbers.iter().find(|metric| metric.name == name).expect("a number").data.clone();
    let Some(Data::Sum(calls)) = named("pegboard_calls_total") else { panic!("no sum") };
    assert!(calls.is_monotonic);
    let ok = calls.data_points.iter().find(|point| attribute(&point.attributes, "outcome").as_deref() == Some("ok"));
    assert_eq!(ok.and_then(|point| point.value), Some(number_data_point::Value::AsInt(3)));
    let Some(Data::Histogram(times)) = named("pegboard_call_seconds") else { panic!("no histogram") };
    let point = &times.data_points[0];
    assert_eq!((point.count, point.bucket_counts.iter().sum()), (3, 3_u64));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    let on_page: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let sent: Vec<&str> = numbers.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(sent, on_page);
}

/// An unreachable collector causes one warning, and no failed request.
#[tokio::test]
async fn a_collector_that_does_not_take_anything() {
    let check = async |test: &str, collector: Option<Collector>| {
        // A port that was free a moment ago, and that no process listens on.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let url = collector.as_ref().map_or(format!("http://{nobody}"), |collector| collector.listener.url.clone());
        let config = json!({
            "mcpServers": {"pipe": fixture(&["--extras"])},
            "pegboard": {"exposure": "never", "telemetry": {"endpoint": url, "metricsInterval": 0.1}}
        });
        let variables = [("OTEL_BSP_SCHEDULE_DELAY", "50")];
        let mut served = Served::start_with(test, &config, &[], &variables).await;
        for _ in 0..20 {
            served.modern("tools/call", json!({"name": "echo", "arguments": {}})).await.result();
        }
        let warning = "telemetry export failed";
        match &collector {
            Some(collector) if test.ends_with("500") => {
                collector.listener.wait_for_requests(5).await;
                collector.answer(200);
                served.wait_for_log("telemetry export recovered").await;
            }
            Some(collector) => collector.listener.wait_for_requests(1).await,
            None => _ = served.wait_for_log(warning).await,
        }
        served.signal("TERM");
        assert_eq!(served.wait_for_exit().await, Some(0), "{test}");
        assert!(served.log().matches(warning).count() <= 1, "{}", served.log());
    };
    check("collector-none", None).await;
    check("collector-500", Some(Collector::answering(Some(500)).await)).await;
    check("collector-hangs", Some(Collector::answering(None).await)).await;
}

#[tokio::test]
async fn nothing_is_sent_when_it_is_switched_off_or_makes_no_sense() {
    let collector = Collector::start().await;
    let config = json!({
        "mcpServers": {"pipe": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "telemetry": telemetry(&collector.listener.url)}
    });
    for (variable, value) in [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")] {
        let mut served = Served::start_with("off", &config, &[], &[(variable, value)]).await;
        served.modern("tools/call", json!({"name": "echo", "arguments": {}})).await.result();
        served.signal("TERM");
        assert_eq!(served.wait_for_exit().await, Some(0));
        let is_told = served.log().contains("telemetry disabled");
        assert_eq!(is_told, variable != "OTEL_SDK_DISABLED", "{}", served.log());
    }
    assert_eq!(collector.listener.requests().len(), 0);
}

/// The sampling ratio applies to traces that begin here; a client that samples its trace gets it.
#[tokio::test]
async fn a_client_decides_what_is_sampled() {
    let collector = Collector::start().await;
    let config = json!({
        "mcpServers": {"pipe": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "telemetry": telemetry(&collector.listener.url)}
    });
    let mut served = Served::start_with("sampled", &config, &[], &[("OTEL_TRACES_SAMPLER_ARG", "0")]).await;
    let call = async |own: Value| {
        let reply = served.modern("tools/call", json!({"name": "echo", "_meta": own})).await;
        reply.result()["x-vendor"]["meta"]["traceparent"].as_str().expect("a parent").to_owned()
    };
    assert!(call(json!({})).await.ends_with("-00"));
    assert!(call(json!({"traceparent": format!("00-{TRACE}-{CLIENT_SPAN}-00")})).await.ends_with("-00"));
    assert!(call(json!({"traceparent": parent()})).await.ends_with("-01"));
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    assert_eq!(collector.spans().len(), Trace::of(&collector, TRACE).0.len());
    assert_eq!(collector.spans().len(), 3);
}

/// Returns a server whose output looks like Pegboard's log.
fn forger() -> Value {
    let script = r#"printf 'x\r\n2026-01-01T00:00:00.000000Z ERROR forged request=1\n{"message":"forged"}\n\033[2Kcleared\033]0;title\007\n' >&2
        exec "$0" --extras"#;
    json!({"command": "sh", "args": ["-c", script, fixture_path()]})
}

#[tokio::test]
async fn the_log_as_json() {
    let config = json!({"mcpServers": {"pipe": forger()}, "pegboard": {"exposure": "never"}});
    let mut served =
        Served::start_with("json-log", &config, &["--log-format", "json", "--log-level", "debug"], &[]).await;
    let legacy = Legacy::begin(&served.url, "evil\n{\"level\":\"ERROR\"}\u{1b}[31m", json!({})).await;
    legacy.call("echo", json!({})).await.result();
    legacy.call("no\nsuch", json!({})).await;
    served.wait_for_log("cleared").await;
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    let log = served.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for line in &lines {
        let keys: Vec<&str> = line.as_object().expect("an object").keys().map(String::as_str).take(4).collect();
        assert_eq!(keys, ["timestamp", "level", "target", "message"], "{line}");
        let all = line.to_string();
        assert!(!all.contains("\\n") && !all.contains("\\u001b"), "{all}");
        assert_ne!(line["message"], "forged", "{line}");
        assert!(line["target"] != "pegboard::server" || line["server"] == "pipe", "{line}");
    }
    // One number leads from the client to the server.
    let answered = lines.iter().find(|line| line["message"] == "server answered").expect("a line");
    assert_eq!(
        (&answered["server"], &answered["method"], &answered["tool"]),
        (&"pipe".into(), &"tools/call".into(), &"echo".into())
    );
    assert!(
        answered["session"].is_u64() && answered["client"].is_string() && answered["era"] == "legacy",
        "{answered}"
    );
    let of_it: Vec<&str> = lines
        .iter()
        .filter(|line| line["request"] == answered["request"])
        .map(|line| line["message"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(of_it, ["request received", "server answered", "request answered", "HTTP request answered"]);
}

#[tokio::test]
async fn the_log_as_text() {
    let early = json!({"command": "sh", "args": ["-c", r#"printf "forged early\n" >&2; exit 1"#]});
    let config = json!({"mcpServers": {"pipe": forger(), "early": early}, "pegboard": {"exposure": "never"}});
    let mut served = Served::start("text-log", &config).await;
    served.modern("tools/call", json!({"name": "echo", "arguments": {}})).await.result();
    let line = served.wait_for_log("server answered").await;
    assert!(
        line.contains(
            " request=1 client=\"test\" era=\"modern\" method=\"tools/call\" server=\"pipe\" tool=\"echo\": server answered"
        ),
        "{line}"
    );
    served.modern("tools/call", json!({"name": "echo", "_meta": {"traceparent": parent()}})).await.result();
    served.wait_for_log(&format!("trace=\"{TRACE}\"")).await;
    served.wait_for_log("cleared").await;
    served.wait_for_log("\"early\": forged early").await;
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    let log = served.log();
    assert!(!log.contains('\u{1b}'), "{log}");
    // Our own words about a failure may quote the server's last ones.
    let forged = log.lines().filter(|line| line.contains("forged") && !line.contains("last output: "));
    let (early, pipe): (Vec<&str>, Vec<&str>) = forged.partition(|line| line.contains("forged early"));
    let begins_with = |line: &&str, starts: &[&str]| {
        let behind_time = line.split_once(' ').map_or("", |(_, rest)| rest);
        starts.iter().any(|start| behind_time.starts_with(start))
    };
    // The output of a server before it is ready is for operators only, and this one never is.
    let is_of_pipe = |line| begins_with(line, &["DEBUG server=\"pipe\": ", " INFO server=\"pipe\": "]);
    assert!(pipe.len() >= 2 && pipe.iter().all(is_of_pipe), "{pipe:#?}");
    assert!(early.iter().all(|line| begins_with(line, &["DEBUG server=\"early\": "])), "{early:#?}");
}

/// OpenTelemetry's own code for Python can read the export.
#[tokio::test]
async fn another_reader_understands_it() {
    let python = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/python-otel/bin/python");
    if !python.exists() {
        return super::real::skipped();
    }
    let collector = Collector::start().await;
    let config = json!({
        "mcpServers": {"pipe": fixture(&["--extras"])},
        "pegboard": {"exposure": "never", "telemetry": telemetry(&collector.listener.url)}
    });
    let mut served = Served::start("other-reader", &config).await;
    served.modern("tools/call", json!({"name": "echo", "_meta": {"traceparent": parent()}})).await.result();
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/peers/otel/read.py");
    let mut read = Vec::new();
    for got in collector.listener.requests() {
        let mut child = Command::new(&python)
            .arg(&script)
            .arg(&got.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script runs");
        child.stdin.take().expect("a pipe").write_all(&got.body).expect("a reader");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success());
        read.extend(String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned));
    }
    for expected in [
        format!("SPAN_KIND_SERVER tools/call echo {TRACE} {CLIENT_SPAN} gate"),
        "metric pegboard_calls_total gate".to_owned(),
    ] {
        assert!(read.contains(&expected), "no `{expected}` in {read:#?}");
    }
}
