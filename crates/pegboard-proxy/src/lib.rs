//! The LLM API door: programs send their requests to the proxy instead of their provider, and their tools are deferred,
//! searched and injected on the way.
//!
//! A request keeps its wire format in both directions; nothing is translated. [`Proxy`] serves the provider APIs
//! below [`Route::prefix`]. The tools of a request are ranked, the model is given a search instead of them, and its
//! searches are answered inside. What the proxy does not understand passes through unchanged.
//!
//! ```
//! use pegboard_proxy::{Proxy, Route, Settings};
//!
//! let mut settings = Settings::default();
//! settings.upstreams.set(Route::OpenAi, "http://127.0.0.1:11434/v1");
//! let proxy = Proxy::new(settings)?;
//! let router = proxy.router();
//! # let _ = router;
//! # Ok::<(), pegboard_proxy::ProxyError>(())
//! ```

mod access;
mod calls;
mod catalog;
mod conversation;
mod error;
mod forward;
mod json;
mod mode;
mod proxy;
mod references;
mod report;
mod request;
mod route;
mod splice;
mod sse;
mod turn;
mod wires;

pub use access::{Access, ClientToken};
pub use error::ProxyError;
pub use mode::{Mode, ModeRule, Modes, UnknownMode};
pub use proxy::{Proxy, STATUS_PATH, Settings};
pub use report::RouteNumbers;
pub use route::{Route, Upstreams};
