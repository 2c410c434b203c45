//! The web console: its files, and the routes that serve them.
//!
//! The files are embedded as they are in `assets/`; nothing is built. They contain no data, so they
//! need no credential: the page gets everything from the control API of the gateway, with the
//! credential of its user. This crate does not know the gateway.
//!
//! ```
//! use axum::{Router, routing::get};
//!
//! let gateway = Router::new().route("/", get(async || "a gateway"));
//! let with_console = pegboard_console::serve(gateway);
//! # let _: Router = with_console;
//! ```

mod assets;

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header},
    middleware::{self, Next},
};

use self::assets::Asset;

/// The prefix of the paths of the console.
pub const PREFIX: &str = "/console/";

/// What the page may load and do: only files of this listener, no inline script or style, no
/// frames, and no text as markup.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                                       connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                                       frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The headers of every response.
const HEADERS: [(header::HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // Revalidated with the tag, so that an update of the program is seen at once.
    (header::CACHE_CONTROL, "no-cache"),
];

/// Returns `router` with the console in front of it: `/console/…` are its files, and a browser that
/// opens `/` is sent there.
pub fn serve(router: Router) -> Router {
    router.layer(middleware::from_fn(answer_or_pass))
}

async fn answer_or_pass(request: Request, next: Next) -> Response<Body> {
    match answer(request.method(), request.uri().path(), request.headers()) {
        Some(response) => response,
        None => next.run(request).await,
    }
}

/// Returns the response to a request for the console; `None` if it is for another part.
fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let is_read = method == Method::GET || method == Method::HEAD;
    if path == "/" && is_read && wants_page(headers) || path == PREFIX.trim_end_matches('/') {
        return Some(redirect());
    }
    let name = path.strip_prefix(PREFIX)?;
    if !is_read {
        return Some(with_headers(empty(StatusCode::METHOD_NOT_ALLOWED)));
    }
    let asset = assets::find(if name.is_empty() { "index.html" } else { name });
    let response = match asset {
        Some(asset) => file(asset, method, headers),
        None => empty(StatusCode::NOT_FOUND),
    };
    Some(with_headers(response))
}

/// Returns whether a browser asks for a page to show.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|kind| kind.trim_start().starts_with("text/html"))
}

fn redirect() -> Response<Body> {
    let mut response = with_headers(empty(StatusCode::TEMPORARY_REDIRECT));
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(PREFIX));
    response
}

fn file(asset: &'static Asset, method: &Method, headers: &HeaderMap) -> Response<Body> {
    let tag = asset.tag();
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok()).unwrap_or_default();
    let is_known = known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
    let mut response = match is_known {
        true => empty(StatusCode::NOT_MODIFIED),
        false if method == Method::HEAD => empty(StatusCode::OK),
        false => Response::new(Body::from(asset.bytes)),
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type()));
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn with_headers(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
