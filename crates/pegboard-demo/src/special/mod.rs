//! The tools that do more than their names and data say.

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

/// Does what one tool is for, to a world that nobody else sees meanwhile.
pub(super) type Special = fn(&mut World, &mut Call<'_>) -> Outcome;

/// Tools and what they do.
type Tools = &'static [(&'static str, Special)];

/// What the tool `name` of `server` does, if it is special.
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

/// Rounded to hundredths, for money and measures.
fn cents(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
