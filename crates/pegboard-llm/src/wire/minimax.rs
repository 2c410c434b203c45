//! MiniMax: endpoints that are compatible with Anthropic Messages and with Chat Completions.

use super::{
    Wire,
    profile::{MAX_TOOLS, Profile, Variables},
};

/// The Anthropic-compatible endpoint.
pub(super) static PROVIDER: Profile = Profile {
    name: "minimax",
    vendor: "MiniMax",
    wire: Wire::Anthropic,
    base_url: "https://api.minimax.io/anthropic",
    variables: Variables { keys: &["MINIMAX_API_KEY"], base_urls: &["MINIMAX_BASE_URL"] },
    adapt_base_url: Profile::same_base_url,
    is_key_optional: false,
    max_tools: MAX_TOOLS,
    schema_rules: &[],
    capabilities: Profile::no_capabilities,
};

/// The OpenAI-compatible endpoint.
pub(super) static CHAT_PROVIDER: Profile = Profile {
    name: "minimax-chat",
    wire: Wire::Chat,
    base_url: "https://api.minimax.io/v1",
    // The two endpoints have different paths, so that one base URL cannot serve both.
    variables: Variables { keys: &["MINIMAX_API_KEY"], base_urls: &["MINIMAX_CHAT_BASE_URL"] },
    vendor: "MiniMax",
    adapt_base_url: Profile::same_base_url,
    is_key_optional: false,
    max_tools: MAX_TOOLS,
    schema_rules: &[],
    capabilities: Profile::no_capabilities,
};
