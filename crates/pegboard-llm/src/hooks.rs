//! Tool search for programs that keep their own loop, messages and client.
//!
//! Before a model call the program's messages go in, and what the model should see comes out;
//! when the model calls something, [`ToolSearch::call`] answers it or says which tool to call.
//!
//! ```
//! use std::sync::Arc;
//! use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, RawTool, Selection};
//! use pegboard_discovery::{DialectName, Session, Settings, transcript::OpenAiChat};
//! use pegboard_llm::hooks::ToolSearch;
//! # #[derive(Debug)]
//! # struct Nothing;
//! # impl Ranker for Nothing {
//! #     fn name(&self) -> &'static str { "nothing" }
//! #     fn rank(&self, _: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
//! #         Ok(Ranking::default())
//! #     }
//! # }
//! # let ranker = Arc::new(Nothing);
//!
//! let tool = RawTool { name: "get_weather".into(), ..RawTool::default() };
//! let (catalog, _) = Catalog::from_tools(vec![tool]);
//! let (settings, selection) = (Settings::default(), Selection::everything());
//! let session = Session::expecting(DialectName::Select, settings, Catalog::empty(), selection, ranker);
//! let mut search = ToolSearch::new(session);
//!
//! search.before_run(catalog);
//! let mut chat = OpenAiChat { messages: vec![] };
//! let prepared = search.before_model(&mut chat);
//! assert_eq!(prepared.visible[0].name, "tool_search");
//! assert_eq!(prepared.deferred, ["get_weather"]);
//! assert_eq!(chat.messages.len(), 1, "the reminder");
//! ```

use std::sync::Arc;

use pegboard_core::{Catalog, Vectors, vectors::BoxFuture};
use pegboard_discovery::{CallAnswer, Session, ToolDefinition, transcript::Transcript};
use serde_json::Value;

/// The tools and instructions for a model call.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The tools to send, in their order.
    pub visible: Vec<Arc<ToolDefinition>>,
    /// The names of tools that are not sent and can be found.
    pub deferred: Vec<String>,
    /// The section of the system prompt about finding tools.
    pub instructions: String,
}

/// Tool search beside a program's own loop.
#[derive(Debug)]
pub struct ToolSearch {
    session: Session,
}

impl ToolSearch {
    /// Creates tool search with this session.
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    /// Sets the current tools, before a run.
    pub fn before_run(&mut self, tools: Catalog) {
        self.session.update(tools);
    }

    /// Returns the tools and instructions for the next model call. It reads what the history has
    /// loaded, and adds the reminder where the dialect has one.
    pub fn before_model(&mut self, messages: &mut impl Transcript) -> Prepared {
        self.session.follow(messages);
        let visible = self.session.visible();
        let is_visible = |name: &String| visible.iter().any(|tool| tool.name == *name);
        let deferred = self.session.known_names().into_iter().filter(|name| !is_visible(name)).collect();
        Prepared { deferred, instructions: self.session.prompt(), visible }
    }

    /// Answers a call of a meta-tool, or returns which tool of the catalog to call.
    pub fn call(&mut self, name: &str, arguments: &Value) -> CallAnswer {
        self.session.call(name, arguments)
    }

    /// Requests the vectors of the queries in a call; `None` where the ranker has no source of
    /// vectors.
    pub fn vectors_for(&self, name: &str, arguments: &Value) -> Option<BoxFuture<Vectors>> {
        self.session.vectors_for(name, arguments)
    }

    /// Answers a call like [`call`](Self::call), with vectors of [`vectors_for`](Self::vectors_for).
    pub fn call_with(&mut self, name: &str, arguments: &Value, vectors: &Vectors) -> CallAnswer {
        self.session.call_with(name, arguments, vectors)
    }

    /// The tool state.
    pub fn session(&self) -> &Session {
        &self.session
    }
}
