//! Which wire a path belongs to.

use super::http::Request;

/// The shape of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Gemini `generateContent`.
    Gemini,
}

/// Whose rules hold and whose errors are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Anthropic.
    Anthropic,
    /// OpenAI.
    OpenAi,
    /// Google.
    Google,
    /// MiniMax, which speaks Messages and Chat Completions and knows no deferred tools.
    MiniMax,
}

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An answer, streamed if the body says so.
    Answer,
    /// An answer as events.
    Events,
    /// An answer as a JSON array that grows: Gemini without `alt=sse`.
    Array,
    /// How many tokens the request has.
    Count,
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) wire: Wire,
    pub(crate) vendor: Vendor,
    pub(crate) action: Action,
    /// Where the path names the model and not the body.
    pub(crate) model: Option<String>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Model(Route),
    Embeddings,
    /// The list of models.
    Models,
    /// What was recorded, for clients that cannot call [`requests`](super::Provider::requests).
    Requests,
    /// A new script for clients that cannot start another server.
    Script,
    Nowhere,
}

impl Target {
    pub(crate) fn of(request: &Request) -> Target {
        match (request.method.as_str(), request.path()) {
            ("GET", "/_requests") => Target::Requests,
            ("PUT", "/_script") => Target::Script,
            ("POST", "/v1/embeddings") => Target::Embeddings,
            ("POST", "/v1/messages") => model(Wire::Messages, Vendor::Anthropic, Action::Answer),
            ("POST", "/v1/messages/count_tokens") => model(Wire::Messages, Vendor::Anthropic, Action::Count),
            ("POST", "/v1/chat/completions") => model(Wire::Chat, Vendor::OpenAi, Action::Answer),
            ("POST", "/v1/responses/input_tokens") => model(Wire::Responses, Vendor::OpenAi, Action::Count),
            ("GET", "/v1/models") => Target::Models,
            ("POST", "/v1/responses") => model(Wire::Responses, Vendor::OpenAi, Action::Answer),
            ("POST", "/minimax/anthropic/v1/messages") => model(Wire::Messages, Vendor::MiniMax, Action::Answer),
            ("POST", "/minimax/v1/chat/completions") => model(Wire::Chat, Vendor::MiniMax, Action::Answer),
            ("POST", path) => gemini(path, request).unwrap_or(Target::Nowhere),
            _ => Target::Nowhere,
        }
    }
}

fn model(wire: Wire, vendor: Vendor, action: Action) -> Target {
    Target::Model(Route { wire, vendor, action, model: None })
}

fn gemini(path: &str, request: &Request) -> Option<Target> {
    let rest = path.strip_prefix("/v1beta/").or_else(|| path.strip_prefix("/v1/"))?;
    let (model, verb) = rest.strip_prefix("models/")?.split_once(':')?;
    let action = match verb {
        "generateContent" => Action::Answer,
        "streamGenerateContent" if request.query("alt") == Some("sse") => Action::Events,
        "streamGenerateContent" => Action::Array,
        "countTokens" => Action::Count,
        _ => return None,
    };
    Some(Target::Model(Route { wire: Wire::Gemini, vendor: Vendor::Google, action, model: Some(model.into()) }))
}
