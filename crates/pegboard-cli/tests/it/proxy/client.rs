//! An HTTP client that shows everything: statuses, headers, and each piece of a body as it comes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use serde_json::Value;

use super::PATIENCE;

/// What a client of any provider sends.
pub(super) const HEADERS: [(&str, &str); 5] = [
    ("authorization", "Bearer a-key"),
    ("x-api-key", "a-key"),
    ("x-goog-api-key", "a-key"),
    ("anthropic-version", "2023-06-01"),
    ("content-type", "application/json"),
];

/// An answer whose body is being read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    input: BufReader<TcpStream>,
    is_chunked: bool,
    /// The body so far.
    pub(super) body: Vec<u8>,
    /// Whether the body has ended as it should.
    pub(super) is_whole: bool,
    /// Where the next event begins in the body.
    read: usize,
}

/// Sends a request; returns once the head of the answer is there.
pub(super) fn send(base: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    open(base, method, path, headers, body).expect("an answer")
}

/// Posts JSON with the headers of every provider.
pub(super) fn post(base: &str, path: &str, body: &Value) -> Answer {
    let mut answer = send(base, "POST", path, &HEADERS, body.to_string().as_bytes());
    answer.finish();
    answer
}

/// [`send`], or nothing if the connection breaks before the head is there.
pub(super) fn open(base: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
    let host = base.strip_prefix("http://").expect("a URL");
    let mut stream = TcpStream::connect(host).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).expect("an open connection");
    // A server may answer before it has read everything.
    let _ = stream.write_all(body);
    read_head(BufReader::new(stream))
}

fn read_head(mut input: BufReader<TcpStream>) -> Option<Answer> {
    let first = line(&mut input)?;
    let status = first.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    while let Some(header) = line(&mut input).filter(|line| !line.is_empty()) {
        let (name, value) = header.split_once(": ")?;
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Some(Answer { status, headers, input, is_chunked, body: Vec::new(), is_whole: false, read: 0 })
}

fn line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.ends_with('\n').then(|| line.trim_end().to_owned())
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a part of the header `x-pegboard`, such as `mode`.
    pub(super) fn report(&self, key: &str) -> Option<&str> {
        let parts = self.header("x-pegboard")?.split("; ");
        parts.filter_map(|part| part.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Reads the next piece of the body; returns whether there was one.
    fn piece(&mut self) -> bool {
        if self.is_chunked {
            let Some(size) = line(&mut self.input).and_then(|size| usize::from_str_radix(&size, 16).ok()) else {
                return false;
            };
            if size == 0 {
                self.is_whole = line(&mut self.input).is_some();
                return false;
            }
            let before = self.body.len();
            let _ = (&mut self.input).take(size as u64).read_to_end(&mut self.body);
            return self.body.len() == before + size && line(&mut self.input).is_some();
        }
        let wanted = self.header("content-length").and_then(|length| length.parse().ok());
        let _ = (&mut self.input).take(wanted.unwrap_or(u64::MAX)).read_to_end(&mut self.body);
        self.is_whole = wanted.is_none_or(|wanted| self.body.len() as u64 == wanted);
        false
    }

    /// Reads the rest of the body.
    pub(super) fn finish(&mut self) {
        while self.piece() {}
    }

    /// Waits for the next event and returns its data; none at the end of the body.
    pub(super) fn next_event(&mut self) -> Option<String> {
        loop {
            let text = String::from_utf8_lossy(&self.body[self.read..]).replace("\r\n", "\n");
            if let Some((event, _)) = text.split_once("\n\n") {
                let is_crlf = self.body[self.read..].windows(4).any(|four| four == b"\r\n\r\n");
                let end = event.matches('\n').count() + 2;
                self.read += event.len() + 2 + if is_crlf { end } else { 0 };
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                match data {
                    Some(data) => return Some(data.to_owned()),
                    None => continue,
                }
            }
            if self.is_whole || !self.piece() {
                return None;
            }
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// Returns the data of all events of the body.
    pub(super) fn events(&self) -> Vec<Value> {
        let text = self.text().replace("\r\n", "\n");
        let data = text.split("\n\n").filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}
