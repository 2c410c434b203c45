//! `embeddings`: an external embedding model whose vectors join the ranking.

use std::time::Duration;

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
    variables::expand,
    web::{URL, read_url},
};
use pegboard_core::Secret;
use pegboard_llm::embeddings::EndpointSettings;

/// The format of an API key; other characters cannot be sent in a header.
const KEY: Kind = Kind::Shaped { pattern: r"^[!-~]+$|\$\{", fits: "a key of ASCII characters without spaces" };

const TIME: Kind = Kind::Duration { may_be_zero: false };

pub(super) fn shape() -> Shape {
    SECTION.shape()
}

/// Reads the section; `None` unless it has a URL and a model.
pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<EndpointSettings> {
    let mut settings = EndpointSettings::new("", "");
    SECTION.read(node, &mut settings, scope);
    (!settings.url.is_empty() && !settings.model.is_empty()).then_some(settings)
}

static SECTION: Section<EndpointSettings> = Section {
    required: &["url", "model"],
    ..Section::new(
        "embeddings",
        "An OpenAI-compatible embeddings endpoint (Ollama, vLLM, TEI, a hosted one). The `hybrid` ranker uses its \
         vectors of tools and queries. Vectors of tools are cached in the state folder. While the endpoint is down or \
         slow, searches work without it.",
        KEYS,
    )
};

const KEYS: &[Key<EndpointSettings>] = &[
    Key::new(
        "url",
        URL,
        "Base URL of the endpoint, such as `http://127.0.0.1:11434/v1`; `/embeddings` is appended.",
        |node, settings: &mut EndpointSettings, scope| {
            settings.url = read_url(node, scope).map(|url| url.text).unwrap_or_default();
        },
    ),
    Key::new("model", Kind::Word, "Embedding model.", |node, settings, scope| {
        let Some(text) = node.as_non_blank(scope.problems) else { return };
        settings.model = expand(node, text, scope).text;
    }),
    Key::new(
        "key",
        KEY,
        "API key, sent as `Authorization: Bearer …`. Prefer a variable, `${NAME}`, or a file, `${file:PATH}`, to the \
         secret itself.",
        |node, settings: &mut EndpointSettings, scope| {
            let Some(text) = node.as_text(scope.problems) else { return };
            let key = expand(node, text, scope);
            let is_sendable = !key.text.is_empty() && key.text.chars().all(|c| c.is_ascii_graphic());
            if key.is_complete && !is_sendable {
                node.must_be(KEY, scope.problems);
            }
            settings.key = is_sendable.then(|| Secret::new(key.text));
        },
    ),
    Key::new(
        "dimensions",
        Kind::Count { least: 1 },
        "Number of dimensions to request, for models that support it; at most 8192 are used. Without it, the model's \
         default.",
        |node, settings: &mut EndpointSettings, scope| {
            settings.dimensions = node.as_count_from(1, scope.problems);
        },
    ),
    Key::new(
        "timeout",
        TIME,
        "Timeout of a request for vectors of tools, which are fetched in the background.",
        |node, settings: &mut EndpointSettings, scope| set(&mut settings.timeout, node, scope),
    )
    .default("\"60s\""),
    Key::new(
        "queryTimeout",
        TIME,
        "How long a search waits for the vector of its query before it continues without it.",
        |node, settings: &mut EndpointSettings, scope| set(&mut settings.query_timeout, node, scope),
    )
    .default("\"2s\""),
    Key::new(
        "connectTimeout",
        TIME,
        "Timeout for establishing a connection.",
        |node, settings: &mut EndpointSettings, scope| set(&mut settings.connect_timeout, node, scope),
    )
    .default("\"5s\""),
    Key::new(
        "queryPrefix",
        Kind::Text,
        "Prefix that the model expects before a query, such as `query: ` (e5) or `search_query: ` (nomic).",
        |node, settings: &mut EndpointSettings, scope| {
            settings.query_prefix = node.as_text(scope.problems).unwrap_or_default().to_owned();
        },
    )
    .default("\"\""),
    Key::new(
        "documentPrefix",
        Kind::Text,
        "Prefix that the model expects before a tool, such as `passage: ` (e5) or `search_document: ` (nomic).",
        |node, settings: &mut EndpointSettings, scope| {
            settings.document_prefix = node.as_text(scope.problems).unwrap_or_default().to_owned();
        },
    )
    .default("\"\""),
];

fn set(time: &mut Duration, node: &Node<'_>, scope: &mut Scope<'_>) {
    *time = node.as_duration(false, scope.problems).unwrap_or(*time);
}
