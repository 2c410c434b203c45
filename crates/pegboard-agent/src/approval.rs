//! The person at the other end.

use std::{future::Future, pin::Pin, sync::Arc};

use pegboard_core::{Catalog, Risk, Selection, Tool, naming::Spelling, selection::is_always_on};
use pegboard_discovery::{
    HostTool,
    policy::{Blocked, Policies},
};
use serde_json::Value;

/// A question to the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool that asks.
    pub tool: String,
    /// What is asked.
    pub text: String,
    /// Suggested answers; any text will do where there are none.
    pub options: Vec<String>,
}

/// A call that wants to be allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The server; `None` for tools of the host program.
    pub server: Option<String>,
    /// The tool.
    pub tool: String,
    /// What it would be called with.
    pub arguments: Value,
}

/// Whether a call may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This once.
    Allow,
    /// From now on, as long as the agent lives.
    AllowAlways,
    /// Not; the model gets to read why.
    Deny(String),
}

/// Something that a person does.
pub type Deciding<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Somebody who can be asked.
pub trait Human: Send + Sync + 'static {
    /// Answers a question; `None` when there is no answer to be had.
    fn answer(&self, question: Question) -> Deciding<'_, Option<String>>;

    /// Decides about a call. Asks like any other question unless there is a better way.
    fn approve(&self, request: Request) -> Deciding<'_, Verdict> {
        let whose = request.server.as_ref().map_or(String::new(), |server| format!(" of `{server}`"));
        let text = format!("Call `{}`{whose} with {}?", request.tool, request.arguments);
        let options = ["yes", "always", "no"].map(str::to_owned).to_vec();
        let question = Question { tool: request.tool, text, options };
        Box::pin(async move {
            match self.answer(question).await.as_deref().map(str::trim) {
                Some("yes" | "y") => Verdict::Allow,
                Some("always" | "a") => Verdict::AllowAlways,
                Some("no" | "n" | "") | None => Verdict::Deny("the user declined".to_owned()),
                Some(reason) => Verdict::Deny(format!("the user declined: {reason}")),
            }
        })
    }
}

impl<F, Fut> Human for F
where
    F: Fn(Question) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<String>> + Send + 'static,
{
    fn answer(&self, question: Question) -> Deciding<'_, Option<String>> {
        Box::pin(self(question))
    }
}

/// What the host program does not let through, beyond what names alone can say.
pub trait Policy: Send + Sync + 'static {
    /// Whether a server's tool is there at all.
    fn shows(&self, server: &str, tool: &str) -> bool {
        let _ = (server, tool);
        true
    }

    /// The description of a server's tool as the model gets to read it; `None` if that is as the
    /// server wrote it.
    fn describes(&self, server: &str, description: &str) -> Option<String> {
        let _ = (server, description);
        None
    }

    /// Why a call must not be made, if it must not; the model gets to read it.
    fn forbids(&self, request: &Request) -> Option<String> {
        let _ = request;
        None
    }
}

/// The steps of a configuration, as they are in the gateway.
impl Policy for Policies {
    fn shows(&self, server: &str, tool: &str) -> bool {
        Policies::shows(self, server, tool)
    }

    fn describes(&self, server: &str, description: &str) -> Option<String> {
        self.enriched(server, description)
    }

    fn forbids(&self, request: &Request) -> Option<String> {
        let (server, tool) = (request.server.as_deref().unwrap_or_default(), &request.tool);
        let Blocked { rule, is_logged } = Policies::forbids(self, server, tool, &request.arguments)?;
        if is_logged {
            tracing::warn!(server, tool, rule = rule.name, "call blocked");
        }
        Some(rule.message.clone())
    }
}

/// Calls that were consented to beforehand.
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
    /// As it was given.
    text: String,
    /// `None` for a tool of the host program.
    server: Option<String>,
    tool: String,
    /// Whether it was looked for and means no tool.
    is_unmatched: bool,
}

/// A name of an allowed call that several tools have.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is the name of several tools: {}", candidates.join(", "))]
pub struct AmbiguousGrant {
    /// The name that was given.
    pub name: String,
    /// The names that the model uses for these tools.
    pub candidates: Vec<String>,
}

impl Grants {
    /// Calls by their patterns: `SERVER:TOOL` or `SERVER___TOOL`, in which `*` stands for any text, the
    /// name of a tool of the host program, or any other name of a tool that means only one. The name
    /// in a pattern with `*` is the one at the server.
    pub fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let grant = |text: &str| {
            let (server, tool) = match text.split_once(':').or_else(|| text.split_once("___")) {
                Some((server, tool)) => (Some(server.to_owned()), tool.to_owned()),
                None => (None, text.to_owned()),
            };
            Grant { text: text.to_owned(), server, tool, is_unmatched: false }
        };
        Self(patterns.into_iter().map(|one| grant(one.as_ref())).collect())
    }

    /// Replaces names by the tools that they mean. A name that means none is kept, since its server
    /// may come later.
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
                [] => grant.is_unmatched = true,
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

    /// The names that mean no tool.
    pub(crate) fn unmatched(&self) -> Vec<String> {
        self.0.iter().filter(|grant| grant.is_unmatched).map(|grant| grant.text.clone()).collect()
    }

    /// Whether a call of this tool is among them.
    pub fn covers(&self, server: Option<&str>, tool: &str) -> bool {
        self.0.iter().any(|grant| {
            let is_of = match (&grant.server, server) {
                (Some(of), Some(server)) => fits(of, server),
                (None, None) => true,
                _ => false,
            };
            is_of && fits(&grant.tool, tool)
        })
    }
}

impl Grant {
    /// Whether a tool has exactly this name: for the model, or with its server.
    fn is_name_of(&self, tool: &Tool) -> bool {
        let is_at_server = self.server.as_deref() == tool.server_name() && self.tool == tool.upstream_name();
        tool.name() == self.text || is_at_server
    }
}

/// Whether `text` fits a pattern in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
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

/// Which calls need a person's consent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// None.
    #[default]
    Never,
    /// Those of servers that may delete or overwrite, as far as they do not say otherwise;
    /// functions of the host program that say so; and commands.
    Destructive,
    /// Those that do not say that they change nothing, and commands.
    Writing,
    /// All.
    Always,
}

impl Approval {
    /// Whether a call of `tool` needs consent.
    pub(crate) fn is_needed(self, tool: &Tool) -> bool {
        let (risk, is_own) = (tool.annotations().risk(), tool.is_own());
        // Tools that steer the conversation do nothing to the world.
        if self == Self::Never || is_always_on(tool) {
            return false;
        }
        match self {
            Self::Never => false,
            // Servers are strangers; the host program knows what its own functions do.
            Self::Destructive if is_own => tool.annotations().destructive == Some(true),
            Self::Destructive => risk == Risk::Destructive,
            Self::Writing => risk != Risk::Read,
            Self::Always => true,
        }
    }
}
