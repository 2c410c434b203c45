//! A client that shows everything: statuses, headers, chunks.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use pegboard_testkit::provider::Provider;
use serde_json::Value;

/// The head that satisfies every provider.
const HEAD: &str = "host: localhost\r\nauthorization: Bearer key\r\nx-api-key: key\r\nx-goog-api-key: key\r\n\
                    anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n";

/// One connection.
pub(crate) struct Client(BufReader<TcpStream>);

/// An answer as far as it came.
#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) chunks: Vec<Vec<u8>>,
    /// Whether it ended as it should.
    pub(crate) is_whole: bool,
}

impl Client {
    pub(crate) fn new(provider: &Provider) -> Client {
        let address = provider.url().strip_prefix("http://").expect("a URL");
        Client(BufReader::new(TcpStream::connect(address).expect("a server")))
    }

    /// Sends the bytes of a request as they stand.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("an open connection");
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Response {
        self.start(path, body);
        self.receive()
    }

    /// Sends a request and leaves it at that.
    pub(crate) fn start(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        self.send(format!("POST {path} HTTP/1.1\r\n{HEAD}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    pub(crate) fn receive(&mut self) -> Response {
        let mut response = Response::default();
        let Some(status) = self.line() else { return response };
        response.status = status.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        while let Some(header) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = header.split_once(": ").expect("a header");
            response.headers.push((name.into(), value.into()));
        }
        match response.header("content-length").map(|length| length.parse().expect("a number")) {
            Some(length) => {
                let body = self.take(length);
                response.is_whole = body.len() == length;
                response.chunks.push(body);
            }
            None => response.is_whole = self.chunks(&mut response.chunks),
        }
        response
    }

    /// Reads chunks to their end; returns whether there was one.
    fn chunks(&mut self, chunks: &mut Vec<Vec<u8>>) -> bool {
        while let Some(size) = self.line().and_then(|size| usize::from_str_radix(&size, 16).ok()) {
            if size == 0 {
                return self.line().is_some();
            }
            let chunk = self.take(size);
            let is_whole = chunk.len() == size && self.line().is_some();
            chunks.push(chunk);
            if !is_whole {
                return false;
            }
        }
        false
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A connection that was reset ends here as well.
        let _ = (&mut self.0).take(length as u64).read_to_end(&mut bytes);
        bytes
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body()).expect("JSON")
    }

    /// The events of a stream: names, where they have one, and data; comments are left out.
    pub(crate) fn events(&self) -> Vec<(Option<String>, Value)> {
        let text = String::from_utf8(self.body()).expect("UTF-8").replace("\r\n", "\n");
        let field = |block: &str, key: &str| block.lines().find_map(|line| line.strip_prefix(key)).map(String::from);
        let data = |block: &str| field(block, "data: ").filter(|data| data != "[DONE]");
        let parse = |data: String| serde_json::from_str(&data).expect("JSON");
        text.split("\n\n").filter_map(|block| Some((field(block, "event: "), parse(data(block)?)))).collect()
    }
}

/// Asks `provider` once, on a connection of its own.
pub(crate) fn post(provider: &Provider, path: &str, body: &Value) -> Response {
    Client::new(provider).post(path, body)
}
