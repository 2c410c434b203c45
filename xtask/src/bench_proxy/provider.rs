//! A provider that reads a request without looking at it and streams the same answer every time, so that only the way
//! there is measured.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

/// The events of an answer, the first of which comes at once.
const FIRST: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5.4\",\
                     \"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"There \"},\
                     \"finish_reason\":null}]}\n\n";
const REST: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5.4\",\
                    \"choices\":[{\"index\":0,\"delta\":{\"content\":\"are none.\"},\"finish_reason\":null}]}\n\n\
                    data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-5.4\",\
                    \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The stack of a thread: it holds one line and no more.
const STACK: usize = 128 << 10;

/// A running provider. Its threads end with the program.
pub(super) struct Provider {
    address: String,
    gate: Arc<Gate>,
}

/// Holds all answers back after their first event while it is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    bell: Condvar,
}

impl Gate {
    fn wait(&self) {
        let closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.bell.wait_while(closed, |is_closed| *is_closed));
    }
}

impl Provider {
    pub(super) fn start() -> Result<Self, String> {
        let failed = |error: io::Error| format!("the provider cannot listen: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let gate = Arc::clone(&shared);
                // A connection that fails is the client's affair.
                let _ = thread::Builder::new().stack_size(STACK).spawn(move || serve(&stream, &gate));
            }
        });
        Ok(Self { address, gate })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Holds answers back after their first event, or lets them go on.
    pub(super) fn hold(&self, is_held: bool) {
        *self.gate.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = is_held;
        self.gate.bell.notify_all();
    }
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, gate: &Gate) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    let mut output = stream;
    while read_request(&mut input)? {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        output.write_all(format!("{head}{:x}\r\n{FIRST}\r\n", FIRST.len()).as_bytes())?;
        gate.wait();
        output.write_all(format!("{:x}\r\n{REST}\r\n0\r\n\r\n", REST.len()).as_bytes())?;
    }
    Ok(())
}

/// Reads a request to its end; returns whether there was one.
fn read_request(input: &mut BufReader<&TcpStream>) -> io::Result<bool> {
    let (mut length, mut is_chunked, mut is_first) = (0, false, true);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() && !is_first {
            break;
        }
        is_first = false;
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        is_chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
    }
    if !is_chunked {
        skip(input, length)?;
        return Ok(true);
    }
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim(), 16).unwrap_or_default();
        skip(input, size + 2)?;
        if size == 0 {
            return Ok(true);
        }
    }
}

fn skip(input: &mut BufReader<&TcpStream>, length: u64) -> io::Result<()> {
    io::copy(&mut input.take(length), &mut io::sink()).map(drop)
}
