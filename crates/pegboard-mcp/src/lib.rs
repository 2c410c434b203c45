//! The wire format of MCP: messages, protocol versions, streams and headers.
//!
//! Messages are raw JSON ([`json`], [`rpc`]) and not a typed model: a proxy must not lose fields that
//! it does not know, reorder keys or rewrite numbers. [`era`] names the protocol versions, [`sse`]
//! reads server-sent events, [`lines`] reads lines of bounded length, [`headers`] mirrors parameters
//! in HTTP headers, and [`trace`] carries the trace context of a request. Nothing here opens a
//! connection or needs a runtime.
//!
//! ```
//! use pegboard_mcp::rpc::Message;
//!
//! let message = Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
//! assert!(matches!(message, Message::Request { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer_scan;
pub mod era;
pub mod headers;
pub mod json;
pub mod lines;
pub mod rpc;
pub mod sse;
pub mod trace;
