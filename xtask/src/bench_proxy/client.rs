//! A client that costs as little as possible.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::Target;

/// A connection that stays open.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

/// How long any answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn failed(error: &std::io::Error) -> String {
    format!("the connection broke: {error}")
}

impl Connection {
    pub(super) fn open(target: &Target) -> Result<Self, String> {
        let stream = TcpStream::connect(&target.address).map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| failed(&error))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer a-key\r\ncontent-type: application/json\r\n",
            target.path, target.address
        );
        Ok(Self { stream: BufReader::new(stream), head })
    }

    /// Sends a request and reads its answer; returns the microseconds to the first byte of the body.
    pub(super) fn first_byte(&mut self, body: &str) -> Result<f64, String> {
        let began = Instant::now();
        self.begin(body)?;
        let took = began.elapsed().as_secs_f64() * 1e6;
        self.finish()?;
        Ok(took)
    }

    /// Sends a request and reads up to the first chunk of the answer.
    pub(super) fn begin(&mut self, body: &str) -> Result<(), String> {
        let head = format!("{}content-length: {}\r\n\r\n", self.head, body.len());
        self.stream
            .get_mut()
            .write_all(&[head.as_bytes(), body.as_bytes()].concat())
            .map_err(|error| failed(&error))?;
        let status = self.line()?;
        let mut is_chunked = false;
        loop {
            let header = self.line()?;
            is_chunked |= header.eq_ignore_ascii_case("transfer-encoding: chunked");
            if header.is_empty() {
                break;
            }
        }
        if !status.starts_with("HTTP/1.1 200") || !is_chunked {
            return Err(format!("not a stream: {status}"));
        }
        if self.chunk()? { Ok(()) } else { Err("an empty stream".to_owned()) }
    }

    /// Reads an answer to its end.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        while self.chunk()? {}
        Ok(())
    }

    /// Reads a chunk; returns whether there was one.
    fn chunk(&mut self) -> Result<bool, String> {
        let line = self.line()?;
        let size = u64::from_str_radix(&line, 16).map_err(|_| format!("not the size of a chunk: `{line}`"))?;
        std::io::copy(&mut (&mut self.stream).take(size + 2), &mut std::io::sink()).map_err(|error| failed(&error))?;
        Ok(size > 0)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).map_err(|error| failed(&error))? {
            0 => Err("the connection was closed".to_owned()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
