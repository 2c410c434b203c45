//! Tools with an implementation of their own.

mod calendar;
mod database;
mod drive;
mod github;
mod lunar;
mod maps;
mod money;
mod operations;
mod sheets;
mod sql;

use super::{
    verbs::Call,
    world::{Outcome, World},
};

/// The implementation of one tool, with exclusive access to the world.
pub(super) type Special = fn(&mut World, &mut Call<'_>) -> Outcome;

/// Tools with their implementations.
type Tools = &'static [(&'static str, Special)];

/// Returns the implementation of the tool `name` of `server`, if it has one of its own.
pub(super) fn of(server: &str, name: &str) -> Option<Special> {
    let tools: Tools = match server {
        "browser" | "files" | "mail" | "media" => drive::TOOLS,
        "calendar" => calendar::TOOLS,
        "crm" | "payments" => money::TOOLS,
        "cloud" | "home" | "monitoring" => operations::TOOLS,
        "github" => github::TOOLS,
        "maps" => maps::TOOLS,
        "postgres" => database::TOOLS,
        "sheets" => sheets::TOOLS,
        _ => &[],
    };
    tools.iter().find(|(tool, _)| *tool == name).map(|(_, special)| *special)
}

/// Returns a number rounded to hundredths.
fn cents(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
