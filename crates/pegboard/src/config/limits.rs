//! What each caller may ask of servers.

use pegboard_gateway::CallLimits;
use pegboard_upstream::config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
};

/// What fits under `limits`.
pub(super) const KIND: Kind = Kind::Object(shape);

fn shape() -> Shape {
    SECTION.shape()
}

/// Reads `limits`; what they do not say is not limited.
pub(super) fn read_limits(node: &Node<'_>, scope: &mut Scope<'_>) -> CallLimits {
    let mut limits = CallLimits::default();
    SECTION.read(node, &mut limits, scope);
    limits
}

static SECTION: Section<CallLimits> = Section::new(
    "limits",
    "What a caller may ask of servers: calls of tools, prompts, resources and completions. Searches and lists are \
     answered without a server and do not count. A caller is the holder of a token; where there are no tokens, an \
     address.",
    &[
        Key::new(
            "maxConcurrent",
            Kind::Count { least: 0 },
            "Calls at a time; 0 is as many as come. Others wait for their turn, for as long as a call may take.",
            |node, limits: &mut CallLimits, scope| {
                limits.concurrent = node.as_count(scope.problems).unwrap_or(limits.concurrent);
            },
        )
        .default("0"),
        Key::new(
            "callsPerMinute",
            Kind::Count { least: 0 },
            "Calls in a minute, which may come all at once; 0 is any number. Further ones are refused, with the time \
             after which the next one passes.",
            |node, limits: &mut CallLimits, scope| {
                let count = node.as_count(scope.problems).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                limits.per_minute = count.unwrap_or(limits.per_minute);
            },
        )
        .default("0"),
    ],
);
