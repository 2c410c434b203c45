//! Requests in progress, which end when their responses are sent and their work is done.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use crate::connections::InProgress;

/// The slot of a request in progress; an extension of every request. Work that continues after its
/// client has gone keeps a copy, so that the request still counts.
#[derive(Clone, Debug)]
pub struct RequestSlot(#[allow(dead_code, reason = "kept until the last copy is dropped")] Arc<InProgress>);

impl RequestSlot {
    pub(crate) fn new(request: InProgress) -> Self {
        Self(Arc::new(request))
    }
}

/// A body whose request counts as in progress until the body is sent or dropped.
pub(crate) struct TrackedBody {
    body: Body,
    _request: RequestSlot,
}

impl TrackedBody {
    pub(crate) fn new(body: Body, request: RequestSlot) -> Self {
        Self { body, _request: request }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
