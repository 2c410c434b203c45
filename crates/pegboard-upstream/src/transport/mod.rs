//! How messages get to a server and back.

pub(crate) mod http;
pub(crate) mod local;
pub(crate) mod sse;
pub(crate) mod stdio;

use std::sync::Arc;

use pegboard_mcp::{era::Era, json::Raw, trace::TraceContext};

/// One message on its way out, with what some transports say about it in headers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The whole message on one line.
    pub(crate) line: String,
    /// Our number of it, if it is a request.
    pub(crate) request: Option<u64>,
    /// Whose rules it follows, as far as that is known.
    pub(crate) era: Option<Era>,
    /// Its method.
    pub(crate) method: String,
    /// Its parameters once more, for servers that are called.
    pub(crate) params: Option<Raw>,
    /// The tool, prompt or resource it names.
    pub(crate) name: Option<String>,
    /// Parameters that a server wants to see as headers.
    pub(crate) headers: Vec<(String, String)>,
    /// Whose trace it belongs to.
    pub(crate) trace: TraceContext,
}

impl Outgoing {
    /// A message that wants no answer.
    pub(crate) fn unanswered(line: String, method: &str, era: Option<Era>) -> Self {
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

/// Where messages go out.
#[derive(Debug)]
pub(crate) enum Outbound {
    /// A child's standard input.
    Stdio(stdio::StdioSender),
    /// POST requests.
    Http(Arc<http::HttpClient>),
    /// POST requests whose answers come on another stream.
    Sse(Arc<sse::SseClient>),
    /// A call.
    Local(Arc<dyn local::LocalServer>),
}
