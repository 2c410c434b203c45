//! `limits`: limits of the calls of each caller.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
};
use pegboard_gateway::CallLimits;

/// The kind of `limits`.
pub(super) const KIND: Kind = Kind::Object(shape);

fn shape() -> Shape {
    SECTION.shape()
}

/// Reads `limits`; missing values mean no limit.
pub(super) fn read_limits(node: &Node<'_>, scope: &mut Scope<'_>) -> CallLimits {
    let mut limits = CallLimits::default();
    SECTION.read(node, &mut limits, scope);
    limits
}

static SECTION: Section<CallLimits> = Section::new(
    "limits",
    "Limits per caller for requests to servers: tool calls, prompts, resources and completions. Searches and lists \
     are answered by the gateway itself and do not count. A caller is a token, or a client address if there are no \
     tokens.",
    &[
        Key::new(
            "maxConcurrent",
            Kind::Count { least: 0 },
            "Maximum number of concurrent calls; 0 is unlimited. Further calls wait, up to the timeout of a call.",
            |node, limits: &mut CallLimits, scope| {
                limits.concurrent = node.as_count(scope.problems).unwrap_or(limits.concurrent);
            },
        )
        .default("0"),
        Key::new(
            "callsPerMinute",
            Kind::Count { least: 0 },
            "Maximum number of calls per minute, which may come in one burst; 0 is unlimited. Further calls are \
             rejected with the time after which to retry.",
            |node, limits: &mut CallLimits, scope| {
                let count = node.as_count(scope.problems).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                limits.per_minute = count.unwrap_or(limits.per_minute);
            },
        )
        .default("0"),
    ],
);
