//! Bytes on their way to the client, cut and delayed as the script says.

use std::{
    io::{self, ErrorKind, Write},
    net::{Shutdown, TcpStream},
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    encode::Body,
    exchange::{ProviderAnswer, Reply},
    http::reason,
    record::Ending,
    script::{Sending, Stall},
};

/// How often a silent server looks whether anyone is still there.
const WATCH: Duration = Duration::from_millis(10);

/// Tells all connections that the server is going.
#[derive(Default)]
pub(crate) struct Stopper {
    stopped: Mutex<bool>,
    bell: Condvar,
}

impl Stopper {
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Waits, unless the server stops; returns whether it has.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) =
            self.bell.wait_timeout_while(stopped, time, |stopped| !*stopped).unwrap_or_else(PoisonError::into_inner);
        *stopped
    }
}

/// Sends an answer. Anything but [`Ending::Sent`] leaves the connection useless.
pub(crate) fn send(stream: &TcpStream, answer: &ProviderAnswer, stopper: &Stopper) -> Ending {
    let ending = match &answer.reply {
        Reply::Drop => Ok(Ending::Broken),
        Reply::Stall(time) => stall(stream, *time, stopper),
        Reply::Send { status, headers, body } => head(stream, *status, headers, body, &answer.sending)
            .and_then(|()| write(stream, body, &answer.sending, stopper)),
    };
    let ending = ending.unwrap_or(Ending::Gone);
    if ending != Ending::Sent {
        // The client may have closed it before.
        let _ = stream.shutdown(Shutdown::Both);
    }
    ending
}

fn is_chunked(body: &Body, sending: &Sending) -> bool {
    matches!(body, Body::Events(_)) || sending.chunk.is_some()
}

fn head(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &Body,
    sending: &Sending,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = match body {
        Body::Whole(bytes) if !is_chunked(body, sending) => format!("content-length: {}", bytes.len()),
        _ => "cache-control: no-cache\r\ntransfer-encoding: chunked".into(),
    };
    head.push_str(&format!("{length}\r\n\r\n"));
    stream.write_all(head.as_bytes())
}

fn write(mut stream: &TcpStream, body: &Body, sending: &Sending, stopper: &Stopper) -> io::Result<Ending> {
    let bytes = match body {
        Body::Whole(bytes) => bytes.clone(),
        Body::Events(events) => events.concat(),
    };
    let chunked = is_chunked(body, sending);
    let mut sent = 0;
    for end in ends(body, &bytes, sending) {
        if let Some(ending) = interrupted(stream, sent, sending, stopper)? {
            return Ok(ending);
        }
        let piece = &bytes[sent..end];
        stream.write_all(&if chunked { chunk(piece) } else { piece.to_vec() })?;
        sent = end;
        if !sending.pause.is_zero() && stopper.wait(sending.pause) {
            return Ok(Ending::Broken);
        }
    }
    if let Some(ending) = interrupted(stream, sent, sending, stopper)? {
        return Ok(ending);
    }
    if chunked {
        stream.write_all(b"0\r\n\r\n")?;
    }
    Ok(Ending::Sent)
}

/// Does what is to happen after so many bytes; returns how the answer ends if it ends there.
fn interrupted(stream: &TcpStream, sent: usize, sending: &Sending, stopper: &Stopper) -> io::Result<Option<Ending>> {
    if sending.cut_after == Some(sent) {
        return Ok(Some(Ending::Broken));
    }
    match sending.stall.filter(|stall| stall.after == sent) {
        Some(Stall { time, .. }) => Ok(Some(stall(stream, time, stopper)?).filter(|ending| *ending == Ending::Gone)),
        None => Ok(None),
    }
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend(piece);
    chunk.extend(b"\r\n");
    chunk
}

/// Where the pieces of a body end: at every event or after every so many bytes, and wherever
/// something is to happen.
pub(crate) fn ends(body: &Body, bytes: &[u8], sending: &Sending) -> Vec<usize> {
    let mut ends: Vec<usize> = match (sending.chunk, body) {
        (Some(size), _) => (0..bytes.len()).step_by(size.max(1)).skip(1).collect(),
        (None, Body::Whole(_)) => Vec::new(),
        (None, Body::Events(events)) => events
            .iter()
            .scan(0, |end, event| {
                *end += event.len();
                Some(*end)
            })
            .collect(),
    };
    ends.extend([Some(bytes.len()), sending.cut_after, sending.stall.map(|stall| stall.after)].into_iter().flatten());
    ends.retain(|end| (1..=bytes.len()).contains(end));
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Says nothing for a while; the answer goes on if it has an end and both sides are still there.
fn stall(stream: &TcpStream, time: Option<Duration>, stopper: &Stopper) -> io::Result<Ending> {
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(1)))?;
    let ending = loop {
        if time.is_some_and(|time| begun.elapsed() >= time) {
            break Ending::Broken;
        }
        if stopper.wait(WATCH) || is_gone(stream) {
            break Ending::Gone;
        }
    };
    stream.set_read_timeout(None)?;
    Ok(ending)
}

fn is_gone(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted),
    }
}
