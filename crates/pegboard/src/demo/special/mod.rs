//! The tools that do more than their names say.

mod browser;
mod calendar;
mod cloud;
mod crm;
mod database;
pub(super) mod drive;
mod github;
mod home;
mod lunar;
mod mail;
mod maps;
mod media;
mod monitoring;
mod payments;
mod sheets;
mod sql;

use serde_json::{Value, json};

use super::{
    verbs::Call,
    world::{Outcome, World},
};

/// Does what one tool is for, to a world that nobody else sees meanwhile.
pub(super) type Special = fn(&mut World, &mut Call<'_>) -> Outcome;

/// The tools of one server.
type Tools = &'static [(&'static str, Special)];

/// What the tool `name` of `server` does, if it is special.
pub(super) fn of(server: &str, name: &str) -> Option<Special> {
    let tools: Tools = match server {
        "browser" => browser::TOOLS,
        "calendar" => calendar::TOOLS,
        "cloud" => cloud::TOOLS,
        "crm" => crm::TOOLS,
        "files" => drive::TOOLS,
        "github" => github::TOOLS,
        "home" => home::TOOLS,
        "mail" => mail::TOOLS,
        "maps" => maps::TOOLS,
        "media" => media::TOOLS,
        "monitoring" => monitoring::TOOLS,
        "payments" => payments::TOOLS,
        "postgres" => database::TOOLS,
        "sheets" => sheets::TOOLS,
        "slack" => &[("upload_file", upload_to_channel)],
        _ => &[],
    };
    tools.iter().find(|(tool, _)| *tool == name).map(|(_, special)| *special)
}

fn upload_to_channel(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let file = world.find("files/files", call.arguments.text("path"))?;
    let mut shared = Value::Object(call.arguments.0.clone());
    shared["size"] = drive::size(&file).into();
    let shared = world.make("slack/files", shared, false)?;
    let text = format!("shared {}: {}", call.arguments.text("path"), call.arguments.text("comment"));
    world.make("slack/messages", json!({"channel": shared["channel"], "text": text, "file": shared["id"]}), false)?;
    Ok(
        json!({"message": format!("{} is in #{}", call.arguments.text("path"), call.arguments.text("channel")), "file": shared}),
    )
}

/// Rounded to hundredths, for money and measures.
fn cents(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
