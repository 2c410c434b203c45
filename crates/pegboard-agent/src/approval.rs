//! The user of an agent: questions, approvals, and policies on calls.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use pegboard_core::{
    Catalog, Risk, Selection, Tool,
    naming::{Spelling, nearest},
    selection::is_always_on,
};
use pegboard_discovery::{
    HostTool,
    policy::{Blocked, Policies},
};
use serde_json::Value;

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool that asks.
    pub tool: String,
    /// The text of the question.
    pub text: String,
    /// Suggested answers; if empty, any text is an answer.
    pub options: Vec<String>,
}

/// A call that is to be approved.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRequest {
    /// The server; `None` for tools of the host program.
    pub server: Option<String>,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
}

/// The decision on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Allow this call.
    Allow,
    /// Allow this call and all later calls of the tool by this agent.
    AllowAlways,
    /// Reject the call; the model reads the reason.
    Deny(String),
}

/// The future of an answer or a decision of the user.
pub type HumanFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The user who answers questions and approves calls.
pub trait Human: Send + Sync + 'static {
    /// Answers a question; `None` if there is no answer.
    fn answer(&self, question: Question) -> HumanFuture<'_, Option<String>>;

    /// Decides on a call. By default it asks a question with the options yes, always and no.
    fn approve(&self, request: CallRequest) -> HumanFuture<'_, ApprovalDecision> {
        let whose = request.server.as_ref().map_or(String::new(), |server| format!(" of `{server}`"));
        let text = format!("Call `{}`{whose} with {}?", request.tool, request.arguments);
        let options = ["yes", "always", "no"].map(str::to_owned).to_vec();
        let question = Question { tool: request.tool, text, options };
        Box::pin(async move {
            match self.answer(question).await.as_deref().map(str::trim) {
                Some("yes" | "y") => ApprovalDecision::Allow,
                Some("always" | "a") => ApprovalDecision::AllowAlways,
                Some("no" | "n" | "") | None => ApprovalDecision::Deny("the user declined".to_owned()),
                Some(reason) => ApprovalDecision::Deny(format!("the user declined: {reason}")),
            }
        })
    }
}

impl<F, Fut> Human for F
where
    F: Fn(Question) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<String>> + Send + 'static,
{
    fn answer(&self, question: Question) -> HumanFuture<'_, Option<String>> {
        Box::pin(self(question))
    }
}

/// Rules of the host program that hide tools and reject calls, beyond selection by name.
pub trait CallPolicy: Send + Sync + 'static {
    /// Returns whether a server's tool is visible.
    fn is_visible(&self, server: &str, tool: &str) -> bool {
        let _ = (server, tool);
        true
    }

    /// Returns a replacement for the description of a server's tool; `None` keeps it.
    fn rewrite_description(&self, server: &str, description: &str) -> Option<String> {
        let _ = (server, description);
        None
    }

    /// Returns why a call is rejected, if it is; the model reads the reason.
    fn reject_call(&self, request: &CallRequest) -> Option<String> {
        let _ = request;
        None
    }
}

/// The policies of a configuration, as in the gateway.
impl CallPolicy for Policies {
    fn is_visible(&self, server: &str, tool: &str) -> bool {
        Policies::shows(self, server, tool)
    }

    fn rewrite_description(&self, server: &str, description: &str) -> Option<String> {
        self.enriched(server, description)
    }

    fn reject_call(&self, request: &CallRequest) -> Option<String> {
        let (server, tool) = (request.server.as_deref().unwrap_or_default(), &request.tool);
        let Blocked { rule, is_logged } = Policies::forbids(self, server, tool, &request.arguments)?;
        if is_logged {
            tracing::warn!(server, tool, rule = rule.name, "call blocked");
        }
        Some(rule.message.clone())
    }
}

/// Calls that are allowed without asking the user.
///
/// ```
/// use pegboard_agent::Grants;
///
/// let grants = Grants::new(["github:create_*", "mail:*", "execute_shell_command"]);
/// assert!(grants.covers(Some("github"), "create_issue") && grants.covers(None, "execute_shell_command"));
/// assert!(!grants.covers(Some("github"), "delete_repository"));
/// assert!(!grants.covers(Some("evil"), "execute_shell_command"), "a server needs its name in front");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    /// The pattern or name as given.
    text: String,
    /// `None` for a tool of the host program.
    server: Option<String>,
    tool: String,
    /// Set if the name matched no tool.
    unmatched: Option<UnmatchedGrant>,
}

/// The name of an allowed call that matches no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedGrant {
    /// The name as given.
    pub name: String,
    /// The tool with the most similar name, if one is similar.
    pub nearest: Option<String>,
}

impl fmt::Display for UnmatchedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no tool `{}`", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean `{nearest}`?)"),
            None => Ok(()),
        }
    }
}

/// The name of an allowed call matches several tools.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is the name of several tools: {}", candidates.join(", "))]
pub struct AmbiguousGrant {
    /// The name as given.
    pub name: String,
    /// The names that the model uses for these tools.
    pub candidates: Vec<String>,
}

impl Grants {
    /// Creates grants from patterns: `SERVER:TOOL` or `SERVER___TOOL`, in which `*` matches any
    /// text, the name of a tool of the host program, or any other name that matches only one tool.
    /// A pattern with `*` is compared with the name at the server.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let grant = |text: &str| {
            let (server, tool) = match text.split_once(':').or_else(|| text.split_once("___")) {
                Some((server, tool)) => (Some(server.to_owned()), tool.to_owned()),
                None => (None, text.to_owned()),
            };
            Grant { text: text.to_owned(), server, tool, unmatched: None }
        };
        Self(patterns.into_iter().map(|one| grant(one.as_ref())).collect())
    }

    /// Replaces names by the tools that they match. A name without a match is kept, since its
    /// server may connect later.
    pub(crate) fn resolve(&mut self, catalog: &Catalog, selection: &Selection) -> Result<(), AmbiguousGrant> {
        for grant in &mut self.0 {
            let is_host_tool = grant.server.is_none() && HostTool::from_name(&grant.tool).is_some();
            if is_host_tool || grant.text.contains('*') {
                continue;
            }
            let spelling = Spelling::new(&grant.text);
            let visible = || catalog.iter().filter(|tool| selection.allows(tool));
            let exact: Vec<&Arc<Tool>> = visible().filter(|tool| grant.is_name_of(tool)).collect();
            let loose = || visible().filter(|tool| spelling.fits(tool)).collect();
            let meant = if exact.is_empty() { loose() } else { exact };
            match meant.as_slice() {
                [] => {
                    let nearest = nearest_name(&grant.text, visible);
                    grant.unmatched = Some(UnmatchedGrant { name: grant.text.clone(), nearest });
                }
                [tool] => {
                    grant.server = tool.server_name().map(str::to_owned);
                    grant.tool = tool.upstream_name().to_owned();
                }
                several => {
                    let candidates = several.iter().map(|tool| tool.name().to_owned()).collect();
                    return Err(AmbiguousGrant { name: grant.text.clone(), candidates });
                }
            }
        }
        Ok(())
    }

    /// Returns the names that match no tool.
    pub(crate) fn unmatched(&self) -> Vec<UnmatchedGrant> {
        self.0.iter().filter_map(|grant| grant.unmatched.clone()).collect()
    }

    /// Returns whether a call of this tool is allowed.
    pub fn covers(&self, server: Option<&str>, tool: &str) -> bool {
        self.0.iter().any(|grant| {
            let is_of = match (&grant.server, server) {
                (Some(of), Some(server)) => matches_pattern(of, server),
                (None, None) => true,
                _ => false,
            };
            is_of && matches_pattern(&grant.tool, tool)
        })
    }
}

impl Grant {
    /// Returns whether this is exactly the name of a tool: for the model, or with its server.
    fn is_name_of(&self, tool: &Tool) -> bool {
        let is_at_server = self.server.as_deref() == tool.server_name() && self.tool == tool.upstream_name();
        tool.name() == self.text || is_at_server
    }
}

/// Returns the model's name of the tool whose name, with or without its server, is most similar.
fn nearest_name<'a, I: Iterator<Item = &'a Arc<Tool>>>(wanted: &str, tools: impl Fn() -> I) -> Option<String> {
    let near = nearest(wanted, tools().flat_map(|tool| [tool.name(), tool.upstream_name()]), 1).pop()?;
    let shown = tools().find(|tool| tool.name() == near);
    let tool = shown.or_else(|| tools().find(|tool| tool.upstream_name() == near))?;
    Some(tool.name().to_owned())
}

/// Returns whether `text` matches a pattern in which `*` matches any text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            let Some(at) = rest.find(before) else { return false };
            rest = &rest[at + before.len()..];
        }
    }
    last.map_or(rest.is_empty(), |last: &str| rest.ends_with(last))
}

/// Which calls need the user's approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// No calls.
    #[default]
    Never,
    /// Calls of servers' tools that may delete or overwrite, unless their annotations say
    /// otherwise; calls of the host program's tools that are marked as destructive; and commands.
    Destructive,
    /// Calls of tools that are not marked as read-only, and commands.
    Writing,
    /// All calls.
    Always,
}

impl Approval {
    /// Returns whether a call of `tool` needs approval.
    pub(crate) fn is_needed_for(self, tool: &Tool) -> bool {
        let (risk, is_own) = (tool.annotations().risk(), tool.is_own());
        // Tools that control the conversation have no side effects.
        if self == Self::Never || is_always_on(tool) {
            return false;
        }
        match self {
            Self::Never => false,
            // Servers are not trusted; the host program knows what its own tools do.
            Self::Destructive if is_own => tool.annotations().destructive == Some(true),
            Self::Destructive => risk == Risk::Destructive,
            Self::Writing => risk != Risk::Read,
            Self::Always => true,
        }
    }
}
