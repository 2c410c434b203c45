//! Somebody else's model, whose vectors join the ranking.

use std::time::Duration;

use pegboard_llm::embeddings::EndpointSettings;
use pegboard_upstream::config::{
    Secret,
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
    variables::expand,
    web::{URL, read_url},
};

/// Others could not be sent in a header.
const KEY: Kind = Kind::Shaped { pattern: r"^[!-~]+$|\$\{", fits: "a key of letters, digits and signs" };

const TIME: Kind = Kind::Duration { may_be_zero: false };

pub(super) fn shape() -> Shape {
    SECTION.shape()
}

/// Reads the section; `None` unless it says whom to ask for what.
pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<EndpointSettings> {
    let mut settings = EndpointSettings::new("", "");
    SECTION.read(node, &mut settings, scope);
    (!settings.url.is_empty() && !settings.model.is_empty()).then_some(settings)
}

static SECTION: Section<EndpointSettings> = Section {
    needs: &["url", "model"],
    ..Section::new(
        "embeddings",
        "An OpenAI-compatible endpoint for embeddings (Ollama, vLLM, TEI, a hosted one) whose vectors of tools and \
         queries join the ranking of `hybrid`. Vectors of tools are kept in the state folder. While it is down or \
         slow, searches go on without it.",
        KEYS,
    )
};

const KEYS: &[Key<EndpointSettings>] = &[
    Key::new(
        "url",
        URL,
        "Where it is, such as `http://127.0.0.1:11434/v1`; `/embeddings` is put behind it.",
        |node, settings: &mut EndpointSettings, scope| {
            settings.url = read_url(node, scope).map(|url| url.text).unwrap_or_default();
        },
    ),
    Key::new("model", Kind::Word, "The model to ask for.", |node, settings, scope| {
        let Some(text) = node.as_word(scope.problems) else { return };
        settings.model = expand(node, text, scope).text;
    }),
    Key::new(
        "key",
        KEY,
        "What is sent as `Authorization: Bearer …`. Better a variable, `${NAME}`, or a file, `${file:PATH}`, than the \
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
        "How long vectors are to be, for models that leave a choice; more than 8192 are not used. Without it, as the model likes.",
        |node, settings: &mut EndpointSettings, scope| {
            settings.dimensions = node.as_count_from(1, scope.problems);
        },
    ),
    Key::new(
        "timeout",
        TIME,
        "How long a request for vectors of tools may take; these are fetched in the background.",
        |node, settings: &mut EndpointSettings, scope| set(&mut settings.timeout, node, scope),
    )
    .default("\"60s\""),
    Key::new(
        "queryTimeout",
        TIME,
        "How long a search waits for the vector of its query before it goes on without.",
        |node, settings: &mut EndpointSettings, scope| set(&mut settings.query_timeout, node, scope),
    )
    .default("\"2s\""),
    Key::new(
        "connectTimeout",
        TIME,
        "How long a connection may take.",
        |node, settings: &mut EndpointSettings, scope| set(&mut settings.connect_timeout, node, scope),
    )
    .default("\"5s\""),
    Key::new(
        "queryPrefix",
        Kind::Text,
        "What the model wants in front of a query, such as `query: ` (e5) or `search_query: ` (nomic).",
        |node, settings: &mut EndpointSettings, scope| {
            settings.query_prefix = node.as_text(scope.problems).unwrap_or_default().to_owned();
        },
    )
    .default("\"\""),
    Key::new(
        "documentPrefix",
        Kind::Text,
        "What it wants in front of a tool, such as `passage: ` (e5) or `search_document: ` (nomic).",
        |node, settings: &mut EndpointSettings, scope| {
            settings.document_prefix = node.as_text(scope.problems).unwrap_or_default().to_owned();
        },
    )
    .default("\"\""),
];

fn set(time: &mut Duration, node: &Node<'_>, scope: &mut Scope<'_>) {
    *time = node.as_duration(false, scope.problems).unwrap_or(*time);
}
