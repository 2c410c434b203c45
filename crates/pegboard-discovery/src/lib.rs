//! What a model sees and may do: sessions, dialects and their texts.
//!
//! A [`Session`] is one conversation's tool state: which tools are visible, in which
//! order, under which names. A [`Dialect`] is one family of meta-tools with its names,
//! schemas, replies and errors; it is pure, and says what should happen as [`Effect`]s,
//! which the session applies. Every door (gateway, agent, proxy, command line) uses
//! exactly this and adds nothing of its own. Nothing here touches a network or a file.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pegboard_core::{Catalog, LoadLimits, Selection, load};
//! use pegboard_discovery::{DialectName, Session, Settings};
//! use pegboard_engine::Keyword;
//! use serde_json::json;
//!
//! let file = br#"[{"name": "get_weather", "description": "Current weather"}, {"name": "send_mail"}]"#;
//! let (catalog, _) = Catalog::from_tools(load::parse("tools.json", file, &LoadLimits::default())?.tools);
//! let mut session = Session::new(
//!     DialectName::Select,
//!     Settings::default(),
//!     catalog,
//!     Selection::everything(),
//!     Arc::new(Keyword::default()),
//! )?;
//! let answer = session.call("tool_search", &json!({"query": "weather"}));
//! assert_eq!(answer.reply.to_json(), json!({"matches": ["get_weather"]}));
//! assert_eq!(session.visible_names(), ["tool_search", "get_weather"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod about;
pub mod arguments;
mod dialects;
pub mod host;
mod names;
pub mod openapi;
mod outcome;
pub mod policy;
mod prompt;
mod session;
mod settings;
mod signature;
mod tokens;
pub mod transcript;
pub mod usage;

pub use arguments::Validation;
pub use dialects::{BRIDGE_SEARCH_RESULT, Dialect, DialectName, DialectView, GATEWAY_SEARCH, MetaTool};
pub use host::HostTool;
pub use outcome::{Effect, Outcome, Reply, Searched, ToolDefinition};
pub use session::{
    CallAnswer, Callee, ListedTool, NativeTools, Session, SessionError, SessionTool, Target, arguments_key,
    is_beside_name, wrapped_arguments,
};
pub use settings::{Exposed, Hits, SelectionOrder, Settings, SettingsError};
pub use signature::has_complete_signature;
pub use tokens::{Decision, Exposure, estimate_tokens};
pub use usage::{Holder, Learner};
