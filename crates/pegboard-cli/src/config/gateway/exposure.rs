//! `exposure`: when tools are hidden behind a search.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, set},
};
use pegboard_discovery::Exposure;

use super::keys::COUNT;

const NAMES: &[&str] = &["auto", "always", "never"];

pub(super) const KIND: Kind = Kind::Either(&[Kind::OneOf(NAMES), Kind::Object(|| BOUNDS.shape())]);

/// The thresholds of an exposure.
struct Bounds {
    max_tools: usize,
    max_tokens: usize,
}

static BOUNDS: Section<Bounds> = Section::new(
    "exposure",
    "Limits for showing all tools to a client; above either limit, tools are found by search instead.",
    &[
        Key::new("maxTools", COUNT, "Maximum number of tools.", |node, bounds: &mut Bounds, scope| {
            set(&mut bounds.max_tools, node.as_count(scope.problems));
        })
        .default("30"),
        Key::new(
            "maxTokens",
            COUNT,
            "Maximum size of the tool definitions, in estimated tokens.",
            |node, bounds: &mut Bounds, scope| set(&mut bounds.max_tokens, node.as_count(scope.problems)),
        )
        .default("10000"),
    ],
);

pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> Exposure {
    let auto = Exposure::default();
    if !node.is_object() {
        return match node.as_one_of(NAMES, scope.problems) {
            Some("always") => Exposure::Always,
            Some("never") => Exposure::Never,
            _ => auto,
        };
    }
    let Exposure::Auto { max_tools, max_tokens } = auto else { return auto };
    let mut bounds = Bounds { max_tools, max_tokens };
    BOUNDS.read(node, &mut bounds, scope);
    Exposure::Auto { max_tools: bounds.max_tools, max_tokens: bounds.max_tokens }
}
