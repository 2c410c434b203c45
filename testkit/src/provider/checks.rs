//! Checks of requests: the rules of providers, and further ones for tests.

mod cache;
mod choice;
mod pairs;
mod required;
mod responses;
mod schemas;
mod system;
mod thinking;
mod tools;

use super::{
    ask::ModelRequest,
    memory::Memory,
    prompt::Prompt,
    route::{Vendor, Wire},
    script::Script,
};

pub(super) use required::locked_out;

/// A check of every request. Each can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Fields and headers that must be there, content in them, and JSON at all.
    Required,
    /// An API key.
    Auth,
    /// A path that leads somewhere.
    Endpoint,
    /// Deferred tools, references to tools or provider-side search where they are not known.
    Unsupported,
    /// Anthropic: a tool that is not deferred.
    AllDeferred,
    /// Anthropic: a `tool_reference` to a tool of the request.
    ToolReference,
    /// Anthropic: no `cache_control` on a deferred tool.
    DeferredCacheControl,
    /// Anthropic and MiniMax: at most four `cache_control`s, none on thoughts or empty text.
    CacheControl,
    /// Anthropic: no `defer_loading: null`.
    NullDeferral,
    /// Anthropic: the fixed name of the provider's search tool.
    SearchToolName,
    /// Anthropic: no `tool_result` for a call that the provider itself executed.
    ServerToolResult,
    /// A result for every call and a call for every result, in the right place.
    ToolPairs,
    /// Tools of different names.
    DuplicateTools,
    /// Names of the provider's pattern and length, in the list and in calls.
    ToolNames,
    /// A `tool_choice` that the model accepts, of a tool that it can see.
    ToolChoice,
    /// Responses: `namespace` on calls of namespaced and deferred tools.
    Namespace,
    /// Responses: deferred tools for a hosted `tool_search` to search.
    SearchWithoutDeferred,
    /// Responses: a `tool_search_output` for a search that was asked for.
    SearchOutput,
    /// Responses: reasoning items along with the items they led to.
    ReasoningItems,
    /// Gemini: no more than 512 declarations.
    DeclarationLimit,
    /// Gemini: `parameters` or `parametersJsonSchema`, not both.
    ParametersTwice,
    /// Gemini 3: the `thoughtSignature` that a call came with.
    ThoughtSignature,
    /// Anthropic: thinking blocks as they were made.
    ThinkingSignature,
    /// Anthropic: thinking blocks in front of what they led to, the calls above all.
    ThinkingDropped,
    /// Anthropic: the prefix that a thinking block was made behind, for models that bind it.
    ThinkingBinding,
    /// Anthropic: edits of thinking only where thinking is on.
    ThinkingEdits,
    /// Messages of the role `system` where the provider allows them.
    SystemPlacement,
    /// The script's `forbidden_schemas`. Recorded, not refused.
    ForbiddenSchema,
    /// The script's `stable_prefix`. Recorded, not refused.
    StablePrefix,
    /// A turn for the request, and one that its wire can express.
    Script,
}

impl Check {
    /// All checks with their names in a script.
    pub const ALL: [(Check, &str); 30] = [
        (Check::Required, "required"),
        (Check::Auth, "auth"),
        (Check::Endpoint, "endpoint"),
        (Check::Unsupported, "unsupported"),
        (Check::AllDeferred, "all_deferred"),
        (Check::ToolReference, "tool_reference"),
        (Check::DeferredCacheControl, "deferred_cache_control"),
        (Check::CacheControl, "cache_control"),
        (Check::NullDeferral, "null_deferral"),
        (Check::SearchToolName, "search_tool_name"),
        (Check::ServerToolResult, "server_tool_result"),
        (Check::ToolPairs, "tool_pairs"),
        (Check::DuplicateTools, "duplicate_tools"),
        (Check::ToolNames, "tool_names"),
        (Check::ToolChoice, "tool_choice"),
        (Check::Namespace, "namespace"),
        (Check::SearchWithoutDeferred, "search_without_deferred"),
        (Check::SearchOutput, "search_output"),
        (Check::ReasoningItems, "reasoning_items"),
        (Check::DeclarationLimit, "declaration_limit"),
        (Check::ParametersTwice, "parameters_twice"),
        (Check::ThoughtSignature, "thought_signature"),
        (Check::ThinkingSignature, "thinking_signature"),
        (Check::ThinkingDropped, "thinking_dropped"),
        (Check::ThinkingBinding, "thinking_binding"),
        (Check::ThinkingEdits, "thinking_edits"),
        (Check::SystemPlacement, "system_placement"),
        (Check::ForbiddenSchema, "forbidden_schema"),
        (Check::StablePrefix, "stable_prefix"),
        (Check::Script, "script"),
    ];

    /// Returns the name in a script.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(check, _)| *check == self).map_or("", |(_, name)| name)
    }

    /// Returns whether a provider would reject the request for it.
    pub(crate) fn refuses(self) -> bool {
        !matches!(self, Check::ForbiddenSchema | Check::StablePrefix)
    }

    /// Returns the HTTP status of the rejection.
    pub(crate) fn status(self, vendor: Vendor) -> u16 {
        match (self, vendor) {
            (Check::Auth, Vendor::Google) => 403,
            (Check::Auth, _) => 401,
            (Check::Endpoint, _) => 404,
            _ => 400,
        }
    }
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check.
    pub check: Check,
    /// The error message of the provider.
    pub message: String,
    /// The position in the body, if there is one.
    pub at: Option<String>,
}

/// The checks of one request.
pub(crate) struct Checker<'a> {
    ask: &'a ModelRequest<'a>,
    memory: &'a Memory,
    script: &'a Script,
    prompt: &'a Prompt,
    found: Vec<Violation>,
}

impl Checker<'_> {
    fn fail(&mut self, check: Check, message: impl Into<String>) {
        self.record(check, None, message.into());
    }

    fn fail_at(&mut self, check: Check, at: impl Into<String>, message: impl Into<String>) {
        self.record(check, Some(at.into()), message.into());
    }

    fn record(&mut self, check: Check, at: Option<String>, message: String) {
        if !self.script.off.contains(&check) {
            self.found.push(Violation { check, message, at });
        }
    }
}

/// Returns all violations of a request that turn number `turn` answers, in the order in which the
/// provider would report them.
pub(crate) fn run(
    ask: &ModelRequest,
    memory: &Memory,
    script: &Script,
    prompt: &Prompt,
    turn: usize,
) -> Vec<Violation> {
    let mut checker = Checker { ask, memory, script, prompt, found: Vec::new() };
    required::check(&mut checker);
    tools::check(&mut checker);
    choice::check(&mut checker);
    system::check(&mut checker);
    match ask.route.wire {
        Wire::Messages => {
            cache::check(&mut checker);
            pairs::messages::check(&mut checker);
            thinking::check(&mut checker);
        }
        Wire::Chat => pairs::chat::check(&mut checker),
        Wire::Responses => {
            pairs::responses::check(&mut checker);
            responses::check(&mut checker);
        }
        Wire::Gemini => {
            pairs::gemini::check(&mut checker);
            thinking::check_signatures(&mut checker);
        }
    }
    schemas::check(&mut checker, turn);
    checker.found
}
