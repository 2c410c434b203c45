//! The `circuitBreaker` setting.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
};
use pegboard_core::breaker::BreakerSettings;

/// The kind of value under `circuitBreaker`.
pub const KIND: Kind = Kind::Object(shape);

fn shape() -> Shape {
    SECTION.shape()
}

/// Reads a `circuitBreaker`; missing keys get their defaults.
pub fn read_breaker(node: &Node<'_>, scope: &mut Scope<'_>) -> BreakerSettings {
    let mut settings = BreakerSettings::default();
    SECTION.read(node, &mut settings, scope);
    settings
}

static SECTION: Section<BreakerSettings> = Section::new(
    "circuitBreaker",
    "Circuit breaker: after repeated failures of a server, calls to it are rejected immediately until a test call \
     succeeds. Timeouts, closed connections and HTTP statuses of 500 and above count as failures; errors that the \
     server itself returns do not.",
    KEYS,
);

const KEYS: &[Key<BreakerSettings>] = &[
    Key::new(
        "failures",
        Kind::Count { least: 0 },
        "Consecutive failures after which the circuit opens and calls are rejected; 0 never opens it.",
        |node, settings: &mut BreakerSettings, scope| {
            let count = node.as_count(scope.problems).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            settings.failures = count.unwrap_or(settings.failures);
        },
    )
    .default("5"),
    Key::new(
        "window",
        Kind::Duration { may_be_zero: false },
        "Maximum time between a failure and the start of the next call for their failures to count as consecutive.",
        |node, settings: &mut BreakerSettings, scope| {
            settings.window = node.as_duration(false, scope.problems).unwrap_or(settings.window);
        },
    )
    .default("\"60s\""),
    Key::new(
        "pause",
        Kind::Duration { may_be_zero: false },
        "How long calls are rejected before one call is let through as a test.",
        |node, settings: &mut BreakerSettings, scope| {
            settings.pause = node.as_duration(false, scope.problems).unwrap_or(settings.pause);
        },
    )
    .default("\"30s\""),
];
