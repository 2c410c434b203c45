//! Secrets do not leak, whatever fails.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{PATIENCE, Served, client::http, fixture_path};

/// Secrets in the environment: of a program, of an argument, of an address, of a header, of a
/// client.
const VARIABLES: [(&str, &str); 6] = [
    ("PB_TEST_ENV", "s3cret-of-the-environment"),
    ("PB_TEST_ARG", "s3cret-of-an-argument"),
    ("PB_TEST_URL", "s3cret-of-an-address"),
    ("PB_TEST_HEADER", "s3cret-of-a-header"),
    ("PB_TEST_BEARER", "s3cret-of-a-token"),
    ("PB_TEST_CLIENT", "s3cret-of-a-client"),
];

/// A secret in a file.
const IN_FILE: &str = "s3cret-in-a-file";

/// A part of every secret.
const MARK: &str = "s3cret";

/// Starts a remote server that repeats the headers it gets wherever it can. By its path it rejects,
/// fails, or works until a tool is called.
async fn parrot() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Some(request) = read_request(&mut stream).await else { return };
                let (status, body) = reply(&request);
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            });
        }
    });
    format!("http://{address}")
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(length) if length > 0 => bytes.extend_from_slice(&piece[..length]),
            _ => return None,
        }
    }
}

fn reply(request: &str) -> (&'static str, String) {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let answer = |outcome: Value| {
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        answer.as_object_mut().expect("an object").extend(outcome.as_object().expect("an object").clone());
        answer.to_string()
    };
    let refusal =
        answer(json!({"error": {"code": -32000, "message": format!("refused: {head}"), "data": {"you": head}}}));
    let path = head.split_whitespace().nth(1).unwrap_or_default();
    match (path, message["method"].as_str()) {
        (path, _) if path.starts_with("/401") => ("401 Unauthorized", refusal),
        (path, _) if path.starts_with("/500") => ("500 Internal Server Error", refusal),
        (path, _) if path.starts_with("/text") => ("200 OK", format!("no JSON: {head}")),
        (_, None) => ("405 Method Not Allowed", String::new()),
        (_, Some("initialize")) => (
            "200 OK",
            answer(json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "parrot", "version": "1"}}})),
        ),
        (_, Some("tools/list")) => {
            ("200 OK", answer(json!({"result": {"tools": [{"name": "repeat", "inputSchema": {"type": "object"}}]}})))
        }
        (_, Some("notifications/initialized")) => ("202 Accepted", String::new()),
        _ => ("200 OK", refusal),
    }
}

fn config(remote: &str, has_tokens: bool) -> Value {
    let headers = json!({"X-Key": "${PB_TEST_HEADER}", "Authorization": "Bearer ${PB_TEST_BEARER}"});
    let at = |path: &str| json!({"url": format!("{remote}{path}?key=${{PB_TEST_URL}}"), "headers": headers});
    let env = json!({"KEY": "${PB_TEST_ENV}", "FROM_FILE": "${file:secret.txt}"});
    let sh = |script: &str| json!({"command": "/bin/sh", "args": ["-c", script, "${PB_TEST_ARG}"], "env": env});
    let fixture = fixture_path();
    let mut config = json!({
        "mcpServers": {
            // Says everything that it knows, and ends.
            "dies": sh("env >&2; echo \"called with $0\" >&2; exit 3"),
            // The same on the wrong pipe, and works.
            "works": sh(&format!("env; env >&2; echo \"called with $0\" >&2; exec '{}' --extras", fixture.display())),
            "missing": {"command": "no-such-program-${PB_TEST_ARG}", "env": env},
            "refused": at("/401"),
            "broken": at("/500"),
            "text": at("/text"),
            "parrot": at("/works"),
            "closed": {"url": "http://127.0.0.1:9/${PB_TEST_URL}", "headers": headers},
            "nonsense": {"url": "http://[${PB_TEST_URL}/", "headers": headers},
            "events": {"type": "sse", "url": format!("{remote}/401?key=${{PB_TEST_URL}}"), "headers": headers},
        },
        "pegboard": {"exposure": "never", "startupWait": 60, "pinning": "warn"}
    });
    if has_tokens {
        config["pegboard"]["tokens"] = json!([{"name": "ada", "token": "${PB_TEST_CLIENT}"}]);
    }
    config
}

/// Starts the binary with all of these secrets.
async fn serve(test: &str, config: &Value, args: &[&str]) -> Served {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("secrets-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    fs::write(folder.join("secret.txt"), format!("{IN_FILE}\n")).expect("a file");
    let file = folder.join("pegboard.json");
    fs::write(&file, config.to_string()).expect("a file");
    let state = folder.join("state");
    let mut all = vec![file.to_str().expect("a path"), "--state", state.to_str().expect("a path")];
    all.extend(args);
    let (all, folder) = (all.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>(), folder.clone());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    // A value that is not configured is not a known secret.
    let text = config.to_string();
    let used = VARIABLES.into_iter().filter(|(name, _)| text.contains(name));
    let variables: Vec<(&str, &str)> = [("PEGBOARD_LOG", "trace")].into_iter().chain(used).collect();
    Served::spawn_with(folder, &all, "127.0.0.1:0", &variables).await
}

#[track_caller]
fn check(what: &str, text: &str) {
    let at = text.find(MARK).map(|at| &text[at.saturating_sub(200)..(at + 60).min(text.len())]);
    assert_eq!(at, None, "{what}");
}

async fn get(url: &str, path: &str, token: Option<&str>) -> String {
    let url = format!("{}{path}", url.trim_end_matches("/mcp"));
    let mut request = http().get(url);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.send().await.expect("an answer").text().await.expect("a body")
}

/// Waits until everything that can fail has failed.
async fn wait_until_failed(served: &Served, token: Option<&str>) {
    let failed = async {
        loop {
            let health: Value = serde_json::from_str(&get(&served.url, "/health", token).await).expect("JSON");
            if health["failed"].as_u64() >= Some(7) && health["ready"].as_u64() >= Some(2) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, failed).await.unwrap_or_else(|_| panic!("{}", served.log()));
}

async fn check_everything(served: &Served, token: Option<&str>) {
    wait_until_failed(served, token).await;
    for path in ["/health", "/ready", "/metrics", "/elsewhere"] {
        check(path, &get(&served.url, path, token).await);
    }
    let session = super::Legacy::begin_as(&served.url, "test", json!({}), token).await;
    check("initialize", &session.hello.to_string());
    check("tools/list", &session.request("tools/list", json!({})).await.raw);
    for server in ["dies", "works", "missing", "refused", "broken", "text", "closed", "nonsense", "events"] {
        check(server, &session.call(&format!("{server}___echo_{server}"), json!({})).await.raw);
    }
    // It refuses with everything that it was sent.
    let refused = session.call("parrot___repeat", json!({})).await;
    check("refusal", &refused.raw);
    assert!(refused.error().1.contains("[hidden]"), "{refused:?}");
    // One that ends in the middle of a call explains itself with its last words.
    check("exit", &session.call("works___exit", json!({})).await.raw);
    served.wait_for_log("called with [hidden]").await;
    served.wait_for_log("KEY=[hidden]").await;
    served.wait_for_log("FROM_FILE=[hidden]").await;
    check("log", &served.log());
}

#[tokio::test]
async fn no_secret_is_told_by_anything_that_fails() {
    let remote = parrot().await;
    let served = serve("text", &config(&remote, false), &[]).await;
    check_everything(&served, None).await;
    let health = get(&served.url, "/health", None).await;
    assert!(health.contains("HTTP status 401") && health.contains("`url` is not a valid URL"), "{health}");
    // Saved state contains none either.
    let mut folders = vec![Path::new(env!("CARGO_TARGET_TMPDIR")).join("secrets-text/state")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                check("state", &String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()));
            }
        }
    }
}

#[tokio::test]
async fn nor_in_json_with_tokens() {
    let remote = parrot().await;
    let served = serve("json", &config(&remote, true), &["--log-format", "json"]).await;
    let wrong = get(&served.url, "/metrics", Some("not-the-token")).await;
    check("wrong token", &wrong);
    check_everything(&served, Some("s3cret-of-a-client")).await;
    assert!(served.log().lines().filter(|line| line.starts_with('{')).count() > 10);
}

/// The secret in the environment of the program, in the encodings that the program below uses.
const ENCODED: [&str; 4] = [
    "czNjcmV0LW9mLXRoZS1lbnZpcm9ubWVudA==",
    "dXNlcjpzM2NyZXQtb2YtdGhlLWVudmlyb25tZW50",
    "S3CRET-OF-THE-ENVIRONMENT",
    "7333637265742d6f662d7468652d656e7669726f6e6d656e74",
];

#[tokio::test]
async fn encoded_secrets_are_hidden_too() {
    let script = "{ printf %s \"$KEY\" | base64; printf 'user:%s' \"$KEY\" | base64; printf '%s\\n' \"$KEY\" | tr a-z A-Z; \
                  printf %s \"$KEY\" | od -An -v -tx1 | tr -d ' \\n'; echo; echo done; } >&2; exit 3";
    let server = json!({"command": "/bin/sh", "args": ["-c", script], "env": {"KEY": "${PB_TEST_ENV}"}});
    let config = json!({"mcpServers": {"encodes": server}, "pegboard": {"startupWait": 20}});
    let served = serve("encoded", &config, &[]).await;
    served.wait_for_log("done").await;
    let log = served.log();
    for form in ENCODED {
        // A few characters beside the secret's own may be left.
        assert!(!log.contains(&form[8..form.len() - 4]), "{form}: {log}");
    }
    assert!(log.matches("[hidden]").count() >= ENCODED.len(), "{log}");
}

#[tokio::test]
async fn a_file_that_changes_is_read_again_and_one_that_is_gone_is_told() {
    let remote = parrot().await;
    let servers = json!({"parrot": {"url": format!("{remote}/works"), "headers": {"X-Key": "${file:secret.txt}"}}});
    let config = json!({"mcpServers": servers, "pegboard": {"exposure": "never", "startupWait": 60}});
    let served = serve("reload", &config, &[]).await;
    served.wait_for_log("server ready").await;
    let secret = Path::new(env!("CARGO_TARGET_TMPDIR")).join("secrets-reload/secret.txt");
    fs::write(&secret, "s3cret-number-two\n").expect("a file");
    served.wait_for_log("configuration reloaded").await;
    fs::remove_file(&secret).expect("it was there");
    let line = served.wait_for_log("configuration rejected").await;
    assert!(line.contains("mcpServers.parrot.headers.X-Key") && line.contains("secret.txt"), "{line}");
    check("log", &served.log());
}
