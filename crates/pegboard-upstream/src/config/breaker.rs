//! When calls of a server are refused.

use super::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
};
use crate::breaker::BreakerSettings;

/// What fits under `circuitBreaker`.
pub const KIND: Kind = Kind::Object(shape);

fn shape() -> Shape {
    SECTION.shape()
}

/// Reads a `circuitBreaker`; what it does not say is as usual.
pub fn read_breaker(node: &Node<'_>, scope: &mut Scope<'_>) -> BreakerSettings {
    let mut settings = BreakerSettings::default();
    SECTION.read(node, &mut settings, scope);
    settings
}

static SECTION: Section<BreakerSettings> = Section::new(
    "circuitBreaker",
    "When a server that does not answer is left alone: calls of it are refused at once, until one of them may try \
     again. Time limits, closed connections and HTTP statuses from 500 on count as failures; whatever the server \
     answers does not.",
    KEYS,
);

const KEYS: &[Key<BreakerSettings>] = &[
    Key::new(
        "failures",
        Kind::Count { least: 0 },
        "Failures in a row after which calls are refused; 0 never refuses any.",
        |node, settings: &mut BreakerSettings, scope| {
            let count = node.as_count(scope.problems).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            settings.failures = count.unwrap_or(settings.failures);
        },
    )
    .default("5"),
    Key::new(
        "window",
        Kind::Duration { may_be_zero: false },
        "How soon after a failure the next call must begin for its own failure to count with it.",
        |node, settings: &mut BreakerSettings, scope| {
            settings.window = node.as_duration(false, scope.problems).unwrap_or(settings.window);
        },
    )
    .default("\"60s\""),
    Key::new(
        "pause",
        Kind::Duration { may_be_zero: false },
        "How long calls are refused before one may try again.",
        |node, settings: &mut BreakerSettings, scope| {
            settings.pause = node.as_duration(false, scope.problems).unwrap_or(settings.pause);
        },
    )
    .default("\"30s\""),
];
