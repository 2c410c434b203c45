//! Response bodies that keep their request in progress until they are sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use crate::connections::InProgress;

/// A body whose request counts as in progress until the body was sent or given up.
pub(crate) struct HeldBody {
    body: Body,
    _request: InProgress,
}

impl HeldBody {
    pub(crate) fn new(body: Body, request: InProgress) -> Self {
        Self { body, _request: request }
    }
}

impl http_body::Body for HeldBody {
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
