//! The transports of messages to and from a server.

pub(crate) mod http;
pub(crate) mod local;
pub(crate) mod sse;
pub(crate) mod stdio;

use std::sync::Arc;

use pegboard_mcp::{era::Era, json::Raw, trace::TraceContext};

/// A message to send, with the data that some transports repeat in headers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The message on one line.
    pub(crate) line: String,
    /// The number of the request, if it is one.
    pub(crate) request: Option<u64>,
    /// The era of the message, if it is known.
    pub(crate) era: Option<Era>,
    /// The method.
    pub(crate) method: String,
    /// The parameters, for servers inside this process.
    pub(crate) params: Option<Raw>,
    /// The name of the tool, prompt or resource.
    pub(crate) name: Option<String>,
    /// Parameters that are repeated in headers.
    pub(crate) headers: Vec<(String, String)>,
    /// The trace context.
    pub(crate) trace: TraceContext,
}

impl Outgoing {
    /// Creates a message that is not a request.
    pub(crate) fn without_answer(line: String, method: &str, era: Option<Era>) -> Self {
        Self {
            line,
            request: None,
            era,
            method: method.to_owned(),
            params: None,
            name: None,
            headers: Vec::new(),
            trace: TraceContext::default(),
        }
    }
}

/// The outgoing side of a transport.
#[derive(Debug)]
pub(crate) enum Outbound {
    /// A child's standard input.
    Stdio(stdio::StdioSender),
    /// POST requests.
    Http(Arc<http::HttpClient>),
    /// POST requests whose answers come on another stream.
    Sse(Arc<sse::SseClient>),
    /// Calls of a server inside this process.
    Local(Arc<dyn local::LocalServer>),
}
