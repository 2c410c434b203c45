//! Incoming requests, parsed once.

use axum::http::HeaderMap;
use pegboard_mcp::{
    era::{Era, MODERN_VERSION, meta},
    json::{Fields, Raw, is_unambiguous},
    rpc::{Id, RpcError},
};
use serde_json::json;

use crate::{
    bounds,
    exchange::log_level_rank,
    request::{Methods, Operation},
    trace::RequestMeta,
};

/// An incoming request.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: Id,
    pub(crate) method: String,
    pub(crate) params: Fields,
    /// What is wrong with the parameters as a whole.
    problem: Option<&'static str>,
    pub(crate) opening: RequestMeta,
    /// Whether reading it further takes long enough to hold up others.
    pub(crate) is_large: bool,
}

/// Number of bytes from which a request is parsed on a thread of its own.
pub(crate) const LARGE: usize = 128 << 10;

/// Runs long work on a thread of its own, whose time the system shares with the threads that answer
/// requests.
pub(crate) async fn off_thread<T: Send + 'static>(is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !is_long {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl Incoming {
    /// Parses the parameters of a request, with the headers that came with it.
    pub(crate) fn new(id: Id, method: String, params: Option<&Raw>, headers: Option<&HeaderMap>) -> Self {
        let is_large = params.is_some_and(|params| params.get().len() > LARGE);
        let fields = params.map(|params| Fields::of(params));
        let problem = match (params, &fields) {
            (Some(params), _) if !is_unambiguous(params) => {
                Some("`params` has a duplicate key, or is nested too deeply")
            }
            (_, Some(None)) => Some("`params` must be an object"),
            _ => None,
        };
        let params = fields.flatten().unwrap_or_default();
        let opening = RequestMeta::of(&params, headers);
        Self { id, method, params, problem, opening, is_large }
    }

    /// Returns the era that the request itself declares.
    pub(crate) fn era(&self) -> Era {
        if self.opening.is_modern() { Era::Modern } else { Era::Legacy }
    }

    /// Returns the progress token of the request.
    pub(crate) fn progress(&self) -> Option<Raw> {
        self.opening.own.get("progressToken").map(ToOwned::to_owned)
    }

    /// Returns the operation of the request, with its id.
    ///
    /// # Errors
    /// When there is no such method, or its parameters do not fit.
    pub(crate) fn into_operation(self, methods: Methods) -> Result<(Id, Operation), RpcError> {
        if let Some(problem) = self.problem {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, problem));
        }
        bounds::check_request(&self.id, &self.params, self.opening.own.get("progressToken"))?;
        let operation = Operation::parse(methods, &self.method, self.params)?;
        Ok((self.id, operation))
    }

    /// Returns the client information that every request of 2026-07-28 must contain.
    ///
    /// # Errors
    /// When it lacks something.
    pub(crate) fn modern_client(&self) -> Result<ModernClient, RpcError> {
        let (method, own) = (&self.method, &self.opening.own);
        let wrong =
            |what: &str| RpcError::new(RpcError::INVALID_PARAMS, format!("`{method}` needs `_meta` with `{what}`"));
        let version = own.text(meta::PROTOCOL_VERSION).ok_or_else(|| wrong(meta::PROTOCOL_VERSION))?;
        let capabilities = own.get(meta::CLIENT_CAPABILITIES).filter(|value| value.get().starts_with('{'));
        let capabilities = capabilities.ok_or_else(|| wrong(meta::CLIENT_CAPABILITIES))?.to_owned();
        bounds::check_capabilities(&capabilities)?;
        let log_level = own.text(meta::LOG_LEVEL);
        if own.has(meta::LOG_LEVEL) && log_level.as_deref().and_then(log_level_rank).is_none() {
            return Err(RpcError::new(RpcError::INVALID_PARAMS, format!("`{}` is not a log level", meta::LOG_LEVEL)));
        }
        let name = own.object(meta::CLIENT_INFO).and_then(|info| info.text("name")).unwrap_or_default();
        Ok(ModernClient { version, name, capabilities, log_level })
    }
}

/// The client information in a request of 2026-07-28.
#[derive(Debug)]
pub(crate) struct ModernClient {
    pub(crate) version: String,
    /// What it calls itself.
    pub(crate) name: String,
    pub(crate) capabilities: Raw,
    pub(crate) log_level: Option<String>,
}

impl ModernClient {
    /// Rejects unsupported versions.
    ///
    /// # Errors
    /// When the request is of another version.
    pub(crate) fn check_version(&self) -> Result<(), RpcError> {
        if self.version == MODERN_VERSION {
            return Ok(());
        }
        let data = json!({"supported": [MODERN_VERSION], "requested": self.version});
        Err(RpcError::new(RpcError::UNSUPPORTED_VERSION, "unsupported protocol version").with_data(&data))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use pegboard_mcp::json::raw;

    use super::*;

    #[tokio::test]
    async fn long_work_has_a_thread_of_its_own() {
        let here = thread::current().id();
        assert_eq!(off_thread(false, || thread::current().id()).await, here);
        assert_ne!(off_thread(true, || thread::current().id()).await, here);
        let read = |bytes: usize| {
            let params = raw(&json!({"a": "x".repeat(bytes)}));
            Incoming::new(Id::of(&raw(&json!(1))).expect("an id"), "ping".to_owned(), Some(&params), None)
        };
        assert_eq!([LARGE - 8, LARGE - 7].map(|bytes| read(bytes).is_large), [false, true]);
    }
}
