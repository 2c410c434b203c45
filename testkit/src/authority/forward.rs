//! Requests that pass to the server behind the door.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
};

use crate::provider::http::Request;

/// Sends a request on, without the token, and its answer back as it comes.
pub(super) fn forward(request: &Request, backend: SocketAddr, mut client: &TcpStream) -> io::Result<()> {
    let mut server = TcpStream::connect(backend)?;
    let mut head =
        format!("{} {} HTTP/1.1\r\nHost: {backend}\r\nConnection: close\r\n", request.method, request.target);
    let dropped = ["host", "connection", "authorization", "content-length", "transfer-encoding", "expect"];
    for (name, value) in request.headers.iter().filter(|(name, _)| !dropped.contains(&name.as_str())) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", request.body.len()));
    server.write_all(head.as_bytes())?;
    server.write_all(&request.body)?;
    // A client that goes away takes its request with it.
    let (watched, theirs) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = (&watched).read(&mut [0]);
        let _ = theirs.shutdown(Shutdown::Both);
    });
    let mut buffer = [0; 16 << 10];
    loop {
        match server.read(&mut buffer)? {
            0 => break,
            read => client.write_all(&buffer[..read])?,
        }
    }
    client.shutdown(Shutdown::Both)
}
