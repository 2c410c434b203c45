//! The caller of a control request, and the check that every request passes.

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, Method, Response, StatusCode, header, request::Parts},
    middleware::Next,
};
use pegboard_core::{Catalog, Secret, Selection};
use pegboard_http::{Owner, Principal};

use super::{
    ControlState,
    access::ControlAccess,
    responses::{error_response, hint_response},
};
use crate::{
    caller::{Caller, Viewer},
    setup::Setup,
};

/// The path where a console asks who it is.
pub(super) const CONSOLE: &str = "/control/console";

/// The path where a console exchanges its code.
pub(super) const LOGIN: &str = "/control/console/login";

/// The caller of a control request, and what it may see.
#[derive(Clone, Debug)]
pub(crate) struct ControlCaller {
    pub(super) viewer: Viewer,
    has_full_access: bool,
    /// Whether it is the user who runs the gateway: on the control socket, or with the secret of
    /// the owner's file.
    is_owner: bool,
    /// What it showed where no tokens are configured.
    credential: Option<Secret>,
}

impl ControlCaller {
    /// Returns whether the caller may see everything: the operator, and tokens without
    /// restrictions. Without tokens, that is every caller that is admitted.
    pub(crate) fn has_full_access(&self) -> bool {
        self.has_full_access
    }

    pub(super) fn is_owner(&self) -> bool {
        self.is_owner
    }

    pub(super) fn selection(&self) -> &Selection {
        &self.viewer.selection
    }

    /// Returns whether the caller sees all of a server, hidden tools included.
    pub(super) fn sees_whole_server(&self, catalog: &Catalog, server: &str) -> bool {
        let tools = catalog.iter().filter(|tool| tool.server_name() == Some(server)).map(AsRef::as_ref);
        self.has_full_access() || self.selection().allows_all_of(server, tools)
    }

    pub(super) fn caller(&self) -> Caller {
        self.viewer.caller
    }

    /// Returns whether the caller sees a server or at least one of its tools.
    pub(super) fn sees_server(&self, catalog: &Catalog, server: &str) -> bool {
        let mut tools = catalog.iter().filter(|tool| tool.server_name() == Some(server));
        self.has_full_access()
            || self.selection().allows_server(server)
            || tools.any(|tool| self.selection().allows(tool))
    }

    /// Returns the caller of a request; `None` if its token is no longer valid.
    pub(crate) fn of(setup: &Setup, parts: &Parts) -> Option<Self> {
        let is_owner = parts.extensions.get::<Owner>().is_some();
        let caller = match parts.extensions.get::<Principal>() {
            Some(holder) => Caller::Token(*holder),
            None if is_owner => Caller::Pipe,
            None => Caller::Anybody,
        };
        Self::new(setup, caller, is_owner)
    }

    fn new(setup: &Setup, caller: Caller, is_owner: bool) -> Option<Self> {
        let viewer = setup.viewer(caller)?;
        let has_full_access = match caller {
            Caller::Token(holder) => setup.token(holder)?.selection.is_everything(),
            Caller::Anybody | Caller::Pipe => true,
        };
        Some(Self { viewer, has_full_access, is_owner, credential: None })
    }

    /// Returns the caller with what it may see now, for a response that goes on for long. `None` if
    /// its token was removed, or its credential has expired or was given up.
    pub(super) fn renewed(&self, setup: &Setup, access: Option<&ControlAccess>) -> Option<Self> {
        let credential = self.credential.clone();
        if let (Some(credential), Some(access)) = (&credential, access) {
            access.accepts(credential.expose()).then_some(())?;
        }
        Some(Self { credential, ..Self::new(setup, self.caller(), self.is_owner)? })
    }
}

/// The caller that [`admit`] has found; a handler without it does not compile away the check, which
/// is made for every route.
impl FromRequestParts<ControlState> for ControlCaller {
    type Rejection = Response<Body>;

    async fn from_request_parts(parts: &mut Parts, _: &ControlState) -> Result<Self, Self::Rejection> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown_caller)
    }
}

/// Lets a request with a valid credential pass, and rejects all others. A check of every route, so
/// that no handler can forget it.
pub(super) async fn admit(State(state): State<ControlState>, request: Request, next: Next) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    match check(&state, &parts) {
        Ok(Some(caller)) => _ = parts.extensions.insert(caller),
        // Only the paths that need no credential.
        Ok(None) => {}
        Err(rejection) => return *rejection,
    }
    next.run(Request::from_parts(parts, body)).await
}

fn check(state: &ControlState, parts: &Parts) -> Result<Option<ControlCaller>, Box<Response<Body>>> {
    let access = state.options.access.as_deref();
    let caller = ControlCaller::of(&state.control.setups.current(), parts);
    let is_open = matches!((&parts.method, parts.uri.path()), (&Method::GET, CONSOLE) | (&Method::POST, LOGIN));
    let caller = match (caller, access) {
        (Some(caller), Some(access)) if caller.caller() == Caller::Anybody => {
            bearer(&parts.headers).filter(|given| access.accepts(given)).map(|given| {
                let (is_owner, credential) = (access.is_secret(given), Some(Secret::new(given)));
                ControlCaller { is_owner, credential, ..caller }
            })
        }
        (caller, _) => caller,
    };
    if caller.is_none() && !is_open {
        return Err(missing_credential(access).into());
    }
    if parts.method != Method::GET {
        check_change(caller.as_ref(), access.is_some(), &parts.headers)?;
    }
    Ok(caller)
}

/// Checks the headers of a request for a change.
fn check_change(
    caller: Option<&ControlCaller>,
    has_access: bool,
    headers: &HeaderMap,
) -> Result<(), Box<Response<Body>>> {
    let is_anybody = caller.is_some_and(|caller| caller.caller() == Caller::Anybody);
    if is_anybody && !has_access && is_from_page(headers) {
        let message = "requests from a web page need a token to make changes";
        return Err(error_response(StatusCode::FORBIDDEN, message).into());
    }
    // What a page can send without asking first is never JSON.
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| !kind.trim().eq_ignore_ascii_case("application/json")) {
        let message = "`Content-Type: application/json` is required";
        return Err(error_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into());
    }
    Ok(())
}

/// Returns the response to a request without a valid credential.
fn missing_credential(access: Option<&ControlAccess>) -> Response<Body> {
    match access {
        Some(_) => hint_response(
            StatusCode::UNAUTHORIZED,
            "this request needs a credential of the gateway",
            "`pegboard console` prints a URL that opens the console; commands find the credential in the state folder",
        ),
        None => unknown_caller(),
    }
}

/// Returns the credential of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, given) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
}

/// Returns whether a browser sends a request for a web page. Pages of this machine pass the guard,
/// and any user can serve one.
pub(super) fn is_from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

/// Returns whether a request comes from a page of another origin than its own address.
pub(super) fn is_from_other_origin(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = headers.get(header::ORIGIN) else {
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        return site.is_some_and(|site| !["same-origin", "none"].contains(&site));
    };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    authority.is_none() || authority != text(header::HOST)
}

pub(super) fn unknown_caller() -> Response<Body> {
    // Who may come in has changed since the door let it pass.
    error_response(StatusCode::UNAUTHORIZED, "this token is no longer valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let check = |headers: &[(&'static str, &'static str)], expected: bool| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, header::HeaderValue::from_static(value));
            }
            assert_eq!(is_from_other_origin(&map), expected, "{headers:?}");
        };
        check(&[("host", "127.0.0.1:8080")], false);
        check(&[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")], false);
        check(&[("host", "tools.example"), ("origin", "https://tools.example")], false);
        check(&[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:9090")], true);
        check(&[("host", "127.0.0.1:8080"), ("origin", "http://localhost:8080")], true);
        check(&[("host", "127.0.0.1:8080"), ("origin", "null")], true);
        check(&[("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-site")], true);
        check(&[("host", "127.0.0.1:8080"), ("sec-fetch-site", "same-origin")], false);
    }
}
