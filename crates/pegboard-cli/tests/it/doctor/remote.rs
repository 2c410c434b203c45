//! Remote servers.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::json;

use super::{DoctorFolder, check};

/// Answers every request with the status for its path, as long as the test runs, and returns its
/// address.
fn answering(statuses: &'static [(&'static str, &'static str)]) -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            thread::spawn(move || answer(stream, statuses));
        }
    });
    address.to_string()
}

/// Answers every request without TLS.
fn speaking_plainly() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in socket.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    address.to_string()
}

fn answer(mut stream: TcpStream, statuses: &[(&str, &str)]) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let value = line.to_lowercase().strip_prefix("content-length:").and_then(|value| value.trim().parse().ok());
        length = value.unwrap_or(length);
    }
    reader.take(length).read_to_end(&mut Vec::new()).ok()?;
    let path = first.split([' ', '?']).nth(1).unwrap_or_default();
    let status = statuses.iter().find(|(one, _)| *one == path).map_or("404 Not Found", |(_, status)| status);
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()
}

#[test]
fn remote_servers() {
    let folder = DoctorFolder::new("remote");
    let guarded = answering(&[("/mcp", "401 Unauthorized"), ("/down", "503 Service Unavailable")]);
    let nothing = answering(&[]);
    // Long enough that no resolver sends a request.
    let nobody = format!("http://{}.invalid/mcp", "a".repeat(64));
    let closed = TcpListener::bind("127.0.0.1:0").expect("a socket").local_addr().expect("an address");
    let servers = json!({
        "guarded": {"url": format!("http://{guarded}/mcp?key=s3cret")},
        "expired": {"url": format!("http://{guarded}/mcp?x"), "headers": {"Authorization": "Bearer s3cret-and-old"}},
        "misplaced": {"url": format!("http://{guarded}/sse")},
        "nowhere": {"url": format!("http://{nothing}/api")},
        "down": {"url": format!("http://{guarded}/down")},
        "nobody": {"url": nobody},
        "closed": {"url": format!("http://{closed}/mcp")},
        "tls": {"url": format!("https://{nothing}/mcp")},
        "plain": {"url": format!("https://{}/mcp", speaking_plainly())}
    });
    check(
        &folder,
        &json!({"mcpServers": servers}),
        &[],
        &[
            "error login guarded: `http://|/mcp` requires a login (HTTP status 401)|→ run `pegboard login guarded`",
            "note plain-secret guarded: ",
            "error login expired: |rejects the configured credentials|→ renew them",
            "note plain-secret expired: ",
            "error wrong-path misplaced: |/sse` is not an MCP server (HTTP status 404)|→ use `http://|/mcp` as `url`",
            "error wrong-path nowhere: |/api` is not an MCP server|→ correct the path",
            "error http-status down: |503",
            "error unknown-host nobody: ",
            "error unreachable closed: |nothing listens|→ start the server",
            "error tls tls: |→ use `http://`",
            "error tls plain: |→ use `http://`",
        ],
    );
}
