//! The house: scenes, doors, energy and the garden.

use serde_json::{Value, json};

use super::{Tools, cents, maps};
use crate::demo::{
    clock::{self, DAY},
    verbs::{self, Call},
    world::{Outcome, World, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("LockDoor", lock),
    ("CameraSnapshot", snapshot),
    ("RunScene", run_scene),
    ("EnergyReport", energy),
    ("GomiReminder", rubbish),
    ("RegarJardin", water),
];

const DEVICES: &str = "home/devices";
/// What opens the doors; the server's instructions tell.
const CODE: &str = "2580";
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

fn lock(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let code = call.arguments.take("pin");
    if call.arguments.text("action") == "unlock" && code != CODE {
        return Err("unlocking needs the right `pin`".into());
    }
    verbs::change(world, call)
}

fn snapshot(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let wanted = call.arguments.text("camera");
    let camera = world.named(DEVICES, wanted, |device| device["kind"] == "camera")?.swap_remove(0);
    let (kind, at) = (call.arguments.text("kind"), clock::show(world.now()));
    let name = text_of(&camera["name"]);
    let ending = if kind == "clip" { "mp4" } else { "jpg" };
    let file = format!("/cameras/{}-{at}.{ending}", text_of(&camera["id"]));
    Ok(
        json!({"message": format!("a {kind} of the {name}"), "shows": camera["sees"], "camera": camera["id"], "at": at, "file": file}),
    )
}

fn run_scene(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let scene = world.find("home/scenes", call.arguments.text("name"))?;
    let mut changed = Vec::new();
    for mut device in world.all(DEVICES).to_vec() {
        let Some(fields) = device["kind"].as_str().and_then(|kind| scene["sets"][kind].as_object()) else { continue };
        fields.iter().for_each(|(field, value)| device[field] = value.clone());
        world.put(DEVICES, device.clone())?;
        changed.push(device);
    }
    let delay = call.arguments.int("delay_s").unwrap_or(0);
    let message = format!("scene {} set {} device(s) after {delay} s", text_of(&scene["name"]), changed.len());
    Ok(json!({"message": message, "devices": changed}))
}

fn energy(world: &mut World, call: &mut Call<'_>) -> Outcome {
    /// Of one kilowatt-hour, in euros.
    const PRICE: f64 = 0.31;
    /// What a device draws that is off.
    const STANDBY: f64 = 0.05;
    let days = match call.arguments.text("period") {
        "day" => 1.0,
        "week" => 7.0,
        "month" => 30.0,
        _ => 365.0,
    };
    let used = |device: &Value| {
        let share = if device["on"] == false { STANDBY } else { 1.0 };
        device["kwh_per_day"].as_f64().unwrap_or(0.0) * share * days
    };
    let devices = world.all(DEVICES);
    let total: f64 = devices.iter().map(used).sum();
    let period = call.arguments.text("period");
    let mut reply = json!({"message": format!("{} kWh in a {period}, as the devices are set now", cents(total)), "kwh": cents(total), "cost_eur": cents(total * PRICE)});
    if call.arguments.is("by_device") {
        let entry =
            |device: &Value| json!({"device": device["id"], "name": device["name"], "kwh": cents(used(device))});
        reply["devices"] = devices.iter().map(entry).collect();
    }
    Ok(reply)
}

fn rubbish(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let area = world.find("home/areas", call.arguments.text("area"))?;
    let at = clock::time_of_day(call.arguments.text("notify_at")).ok_or("`notify_at` must be HH:MM")?;
    let today = world.now() / DAY;
    let wanted = call.arguments.texts("types");
    let mut next = Vec::new();
    for (kind, days) in area["days"].as_object().into_iter().flatten() {
        let is_collected =
            |day: &i64| days.as_array().is_some_and(|days| days.contains(&WEEKDAYS[clock::weekday(*day)].into()));
        let Some(day) = (today + 1..=today + 7).find(is_collected) else { continue };
        if wanted.is_empty() || wanted.contains(&kind.as_str()) {
            next.push(json!({"type": kind, "collected": clock::show_date(day), "notified": clock::show((day - 1) * DAY + at)}));
        }
    }
    call.arguments.set("next", next);
    verbs::create(world, call)
}

fn water(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let rain = maps::weather(40.4, -3.7, world.now() / DAY).rain_mm;
    if call.arguments.take("omitir_si_llueve") == true && rain > 0.0 {
        return Ok(
            json!({"message": format!("it rained {rain} mm today, so nothing is watered"), "regado": false, "lluvia_mm": rain}),
        );
    }
    let minutes = call.arguments.take("minutos").as_i64().unwrap_or(10);
    let before: i64 =
        verbs::targets(world, call)?.iter().filter_map(|zone| zone["watered_minutes"].as_i64()).max().unwrap_or(0);
    call.arguments.set("state", "watering");
    call.arguments.set("watered_minutes", before.saturating_add(minutes));
    verbs::change(world, call)
}
