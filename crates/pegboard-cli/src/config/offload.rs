//! Long results as references.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape, set},
};
use pegboard_gateway::OffloadSettings;

/// What fits under `offload`.
pub(super) const KIND: Kind = Kind::Either(&[Kind::Flag, Kind::Object(shape)]);

fn shape() -> Shape {
    SECTION.shape()
}

/// Reads `offload`; `None` switches it off.
pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<OffloadSettings> {
    SECTION.read_if_on(node, KIND, scope)
}

static SECTION: Section<OffloadSettings> = Section::new(
    "offload",
    "Offloading of long tool results. A longer text or structured content is kept in memory, and the client gets its \
     beginning, its end and a reference. The tool `read_result` reads parts of it: characters, lines, matches of a \
     regular expression, or results of a jq filter. Only the caller that got a reference can use it. Images, audio, \
     embedded resources and links stay in the result. Tool definitions are listed without their output schemas, which \
     a reference would not fit.",
    &[
        Key::new(
            "tokens",
            Kind::Count { least: 1 },
            "Maximum size of a text or of structured content that is passed on, in estimated tokens.",
            |node, settings: &mut OffloadSettings, scope| {
                set(&mut settings.tokens, node.as_count_from(1, scope.problems));
            },
        )
        .default("10000"),
        Key::new(
            "lifetime",
            Kind::Duration { may_be_zero: false },
            "How long a result can be read.",
            |node, settings: &mut OffloadSettings, scope| {
                set(&mut settings.lifetime, node.as_duration(false, scope.problems));
            },
        )
        .default("\"30m\""),
        Key::new(
            "maxBytes",
            Kind::Count { least: 1 },
            "Maximum size of all kept results in bytes. Above it, the oldest result of the caller with the most bytes is \
             removed. A single result above it is an error.",
            |node, settings: &mut OffloadSettings, scope| {
                set(&mut settings.max_bytes, node.as_count_from(1, scope.problems));
            },
        )
        .default("268435456"),
    ],
);
