//! As much of HTTP/1.1 as clients of LLM providers use.

use std::io::{self, BufRead, Read, Write};

/// No request of a test is longer.
const MAX_BODY: u64 = 256 << 20;

/// No line of a request's head is longer.
const MAX_LINE: u64 = 64 << 10;

/// A request, its body whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) target: String,
    /// Names in lower case, in the order they came.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the connection stays open for another one.
    pub(crate) keep_alive: bool,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split_once('?').map_or(&self.target, |(path, _)| path)
    }

    /// A value of the query, as it stands.
    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value)
    }
}

/// Reads the next request; none when the client has closed the connection between two.
pub(crate) fn read(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<Option<Request>> {
    let Some(first) = line(input)? else { return Ok(None) };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(malformed("the request line has too few words"));
    };
    let mut request = Request { method: method.into(), target: target.into(), ..Request::default() };
    while let Some(header) = line(input)?.filter(|line| !line.is_empty()) {
        let (name, value) = header.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
        request.headers.push((name.to_ascii_lowercase(), value.trim().into()));
    }
    let asked = request.header("connection").unwrap_or_default().to_ascii_lowercase();
    request.keep_alive = if version == "HTTP/1.0" { asked == "keep-alive" } else { asked != "close" };
    if request.header("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue")) {
        output.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    request.body = body(input, &request)?;
    Ok(Some(request))
}

fn body(input: &mut impl BufRead, request: &Request) -> io::Result<Vec<u8>> {
    let coding = request.header("transfer-encoding").unwrap_or_default();
    if coding.to_ascii_lowercase().ends_with("chunked") {
        return chunked(input);
    }
    let length = request.header("content-length").unwrap_or("0");
    exactly(input, length.parse().map_err(|_| malformed("a content length that is no number"))?)
}

fn chunked(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| malformed("a chunk size that is no number"))?;
        if size == 0 {
            while line(input)?.is_some_and(|trailer| !trailer.is_empty()) {}
            return Ok(body);
        }
        if body.len() as u64 + size > MAX_BODY {
            return Err(malformed("the body is too long"));
        }
        body.append(&mut exactly(input, size)?);
        line(input)?;
    }
}

fn exactly(input: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    if length > MAX_BODY {
        return Err(malformed("the body is too long"));
    }
    let mut bytes = Vec::new();
    if input.take(length).read_to_end(&mut bytes)? as u64 == length { Ok(bytes) } else { Err(eof()) }
}

/// The next line without its end; none at the end of the input.
fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    input.take(MAX_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(eof());
    }
    line.pop_if(|last| *last == b'\r');
    String::from_utf8(line).map(Some).map_err(|_| malformed("a line that is no UTF-8"))
}

fn eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn malformed(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// The words behind a status.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        302 => "Found",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, target: &str, body: &str, keep_alive: bool) {
        let mut input = bytes.as_bytes();
        let request = read(&mut input, &mut Vec::new()).unwrap().expect("a request");
        assert_eq!((request.target.as_str(), request.body.as_slice()), (target, body.as_bytes()));
        assert_eq!(request.keep_alive, keep_alive);
        assert!(input.is_empty(), "what follows the request stays unread");
    }

    #[test]
    fn bodies_end_where_they_say() {
        check("POST /a?b=c HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz", "/a?b=c", "xyz", true);
        check(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\nx\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
            "/",
            "x0123456789",
            true,
        );
        check("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "/", "", false);
        check("GET / HTTP/1.0\r\n\r\n", "/", "", false);
    }

    #[test]
    fn what_breaks_off_is_an_error() {
        for bytes in ["POST", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nxy", "POST / HTTP/1.1\r\nno colon\r\n\r\n"] {
            assert!(read(&mut bytes.as_bytes(), &mut Vec::new()).is_err(), "{bytes}");
        }
        assert_eq!(read(&mut "".as_bytes(), &mut Vec::new()).unwrap(), None);
    }

    #[test]
    fn a_client_that_waits_is_told_to_go_on() {
        let mut output = Vec::new();
        let bytes = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
        read(&mut bytes.as_bytes(), &mut output).unwrap();
        assert_eq!(output, b"HTTP/1.1 100 Continue\r\n\r\n");
    }
}
