//! `usageLearning`: learning from usage.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape},
};
use pegboard_engine::usage::HabitSettings;

/// Maximum number of habits; more would make a small file large.
const MAX_ENTRIES: usize = 20_000;

/// The kind of `usageLearning`.
pub(super) const KIND: Kind = Kind::Either(&[Kind::Flag, Kind::Object(shape)]);

fn shape() -> Shape {
    SECTION.shape()
}

/// Reads `usageLearning`; `None` switches it off.
pub(super) fn read(node: &Node<'_>, scope: &mut Scope<'_>) -> Option<HabitSettings> {
    SECTION.read_if_on(node, KIND, scope)
}

static SECTION: Section<HabitSettings> = Section::new(
    "usageLearning",
    "Learning from usage. A tool that was called successfully after a search ranks higher for similar queries: only \
     for the same caller, only with this configuration, and never above a tool that the query names. Stores the \
     stemmed words, the tool and a strength in a file of the state folder; `pegboard usage` shows them.",
    &[
        Key::new(
            "halfLifeDays",
            Kind::Count { least: 1 },
            "Half-life in days: after this time, learned usage counts half.",
            |node, settings: &mut HabitSettings, scope| {
                let days = node.as_count_from(1, scope.problems).map(|days| u32::try_from(days).unwrap_or(u32::MAX));
                settings.half_life_days = days.unwrap_or(settings.half_life_days);
            },
        )
        .default("30"),
        Key::new(
            "maxEntries",
            Kind::Count { least: 1 },
            "Maximum number of habits per caller, at most 20000; the weakest are evicted.",
            |node, settings: &mut HabitSettings, scope| {
                let count = node.as_count_from(1, scope.problems).map(|count| count.min(MAX_ENTRIES));
                settings.max_entries = count.unwrap_or(settings.max_entries);
            },
        )
        .default("2000"),
        Key::new(
            "weight",
            Kind::Share,
            "Maximum that habits add to the score of a tool; scores range from 0 to 1.",
            |node, settings: &mut HabitSettings, scope| {
                settings.weight = node.as_fraction(scope.problems).unwrap_or(settings.weight);
            },
        )
        .default("0.5"),
    ],
);
