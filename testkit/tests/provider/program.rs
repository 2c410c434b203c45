//! The program `pegboard-provider`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

/// A request on a connection of its own; the answer's body.
fn ask(url: &str, method: &str, path: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").expect("a URL")).expect("a server");
    let body = body.to_string();
    let head = format!("{method} {path} HTTP/1.1\r\nauthorization: Bearer x\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("an open connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn scripts_come_over_the_wire() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_pegboard-provider"))
        .arg("--until-eof")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let url = ready["url"].as_str().expect("a URL");

    let chat = json!({"model": "gpt-5.4", "messages": [{"role": "user", "content": "hi"}]});
    assert!(ask(url, "POST", "/v1/chat/completions", &chat)["error"]["message"].is_string(), "there is no script yet");
    assert_eq!(ask(url, "PUT", "/_script", &json!({"turns": [{"parts": [{"text": "ho"}]}]})), json!({}));
    assert_eq!(ask(url, "POST", "/v1/chat/completions", &chat)["choices"][0]["message"]["content"], "ho");
    assert_eq!(ask(url, "GET", "/v1/models", &Value::Null)["data"][0]["id"], "scripted");
    let wrong = ask(url, "PUT", "/_script", &json!({"turns": 1}));
    assert_eq!(wrong["error"], "`turns` is no list");
    let recorded = ask(url, "GET", "/_requests", &Value::Null);
    assert_eq!(recorded.as_array().map(Vec::len), Some(2), "a new script starts with an empty record");
    assert_eq!((&recorded[0]["body"], &recorded[0]["violations"]), (&chat, &json!([])));

    drop(process.stdin.take());
    assert!(process.wait().expect("a child").success());
}

#[test]
fn wrong_use_is_told() {
    for arguments in [&["--script"][..], &["--port", "x"], &["--script", "/nowhere"], &["more"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_pegboard-provider")).args(arguments).output().expect("the program");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{arguments:?}");
    }
}
