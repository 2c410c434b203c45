//! Events, free time, rooms and holidays.

use serde_json::{Map, Value, json};

use super::{Tools, lunar};
use crate::demo::{
    clock::{self, DAY},
    verbs::{self, Call},
    world::{Outcome, Refusal, World, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("createEvent", create),
    ("updateEvent", update),
    ("findFreeSlots", free_slots),
    ("bookMeetingRoom", book_room),
    ("getHolidays", holidays),
    ("nongliZhuanhuan", convert),
];

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The time under `name` of an object or of arguments.
fn instant(fields: &Value, name: &str) -> Result<i64, Refusal> {
    let text = text_of(&fields[name]);
    clock::parse(&text).ok_or_else(|| format!("`{name}` is no date or time: `{text}`").into())
}

/// Beginning and end, which must be in this order.
fn span(fields: &Value, start: &str, end: &str) -> Result<(i64, i64), Refusal> {
    let (from, to) = (instant(fields, start)?, instant(fields, end)?);
    if to <= from {
        return Err(format!("`{end}` must be later than `{start}`").into());
    }
    Ok((from, to))
}

fn create(world: &mut World, call: &mut Call<'_>) -> Outcome {
    span(&Value::Object(call.arguments.0.clone()), "start", "end")?;
    verbs::create(world, call)
}

fn update(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let mut event = verbs::targets(world, call)?.swap_remove(0);
    let mut changes = call.arguments.value("changes").clone();
    let [added, removed] =
        ["addAttendees", "removeAttendees"].map(|name| changes.as_object_mut().and_then(|it| it.shift_remove(name)));
    let added: Vec<Value> = list(added).iter().map(|email| json!({"email": email})).collect();
    verbs::extend(&mut event, "attendees", &added.into());
    let removed = list(removed);
    if let Some(attendees) = event["attendees"].as_array_mut() {
        attendees.retain(|attendee| !removed.contains(&attendee["email"]));
    }
    changes["attendees"] = event["attendees"].clone();
    changes.as_object().into_iter().flatten().for_each(|(field, value)| event[field] = value.clone());
    span(&event, "start", "end")?;
    call.arguments.set("changes", changes);
    verbs::change(world, call)
}

fn list(value: Option<Value>) -> Vec<Value> {
    value.and_then(|value| value.as_array().cloned()).unwrap_or_default()
}

/// When the calendars of these people are taken.
fn busy(world: &World, people: &[&str]) -> Vec<(i64, i64)> {
    let has = |event: &Value, person: &&str| {
        event["organizer"] == **person || list(event.get("attendees").cloned()).iter().any(|a| a["email"] == **person)
    };
    let events = world.all("calendar/events").iter().filter(|event| people.iter().any(|person| has(event, person)));
    events.filter_map(|event| span(event, "start", "end").ok()).collect()
}

/// Whether a time is within the working hours of its day.
fn is_working(hours: &[Value], start: i64, end: i64) -> bool {
    let day = start.div_euclid(DAY);
    let at = |hours: &Value, name: &str| clock::time_of_day(&text_of(&hours[name])).map(|time| day * DAY + time);
    let of_day = hours.iter().find(|hours| hours["day"] == WEEKDAYS[clock::weekday(day)]);
    of_day.is_some_and(|hours| at(hours, "start") <= Some(start) && Some(end) <= at(hours, "end"))
}

fn free_slots(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const STEP: i64 = 15 * 60;
    const MOST: usize = 10;
    let (start, end) = span(&Value::Object(call.arguments.0.clone()), "windowStart", "windowEnd")?;
    if end - start > 62 * DAY {
        return Err("the demo looks for free time within two months".into());
    }
    let length = call.arguments.int("durationMinutes").unwrap_or(30).saturating_mul(60);
    let people = call.arguments.texts("attendees");
    let (busy, settings) = (busy(world, &people), world.find("calendar/settings", "working-hours")?);
    let hours = list(settings.get("days").cloned());
    let mut slots = Vec::new();
    let mut at = (start + STEP - 1).div_euclid(STEP) * STEP;
    while at.saturating_add(length) <= end && slots.len() < MOST {
        let until = at + length;
        let is_free = busy.iter().all(|(from, to)| until <= *from || *to <= at);
        if is_free && (!call.arguments.is("workingHoursOnly") || is_working(&hours, at, until)) {
            slots.push(json!({"start": clock::show(at), "end": clock::show(until)}));
            at = until;
        } else {
            at += STEP;
        }
    }
    Ok(json!({"message": format!("{} time(s) at which {} can meet", slots.len(), people.join(", ")), "slots": slots}))
}

fn book_room(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let wanted = &call.arguments;
    let (start, end) = span(&Value::Object(wanted.0.clone()), "start", "end")?;
    let is_taken = |room: &Value| {
        let mut of_room = world.all("calendar/bookings").iter().filter(|booking| booking["room"] == room["name"]);
        of_room.any(|booking| span(booking, "start", "end").is_ok_and(|(from, to)| from < end && start < to))
    };
    let fits = |room: &&Value| {
        let has = |equipment: &&Value| list(room.get("equipment").cloned()).contains(equipment);
        room["capacity"].as_i64() >= wanted.int("capacity")
            && wanted.list("equipment").iter().all(|equipment| has(&equipment))
            && (!wanted.has("building") || room["building"] == *wanted.value("building"))
            && !is_taken(room)
    };
    let free = world.all("calendar/rooms").iter().filter(fits);
    let Some(room) = free.min_by_key(|room| room["capacity"].as_i64()).map(|room| room["name"].clone()) else {
        let rooms: Vec<String> = world.all("calendar/rooms").iter().map(Value::to_string).collect();
        return Err(format!("no room fits at that time; the rooms are {}", rooms.join(", ")).into());
    };
    let booking = json!({"room": room, "start": wanted.value("start"), "end": wanted.value("end")});
    let booking = world.make("calendar/bookings", booking, false)?;
    Ok(json!({"message": format!("room {} is booked", text_of(&room)), "booking": booking}))
}

/// Days since 1970 of Easter Sunday.
fn easter(year: i64) -> i64 {
    let (golden, century) = (year % 19, year / 100);
    let moon = (century - century / 4 - (8 * century + 13) / 25 + 19 * golden + 15) % 30;
    let full = moon - (moon / 28) * (1 - (moon / 28) * (29 / (moon + 1)) * ((21 - golden) / 11));
    let weekday = (year + year / 4 + full + 2 - century + century / 4) % 7;
    let days = full - weekday;
    let month = 3 + (days + 40) / 44;
    clock::days(year, month, days + 28 - 31 * (month / 4))
}

fn holidays(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let year = call.arguments.int("year").filter(|year| (1_900..=2_200).contains(year));
    let year = year.ok_or("`year` must be between 1900 and 2200")?;
    let country = world.find("calendar/holidays", call.arguments.text("country"))?;
    let (none, easter) = (Map::new(), easter(year));
    let fixed = country["days"].as_object().unwrap_or(&none).iter();
    let moving = country["easter"].as_object().unwrap_or(&none).iter();
    let mut days: Vec<Value> =
        fixed.map(|(day, name)| json!({"date": format!("{year}-{day}"), "name": name})).collect();
    days.extend(moving.map(
        |(after, name)| json!({"date": clock::show_date(easter + after.parse::<i64>().unwrap_or(0)), "name": name}),
    ));
    days.sort_by_key(|day| text_of(&day["date"]));
    let message = format!(
        "{} holidays of {} in {year} with a fixed date or tied to Easter",
        days.len(),
        text_of(&country["country"])
    );
    Ok(json!({"message": message, "holidays": days}))
}

fn convert(_: &mut World, call: &mut Call<'_>) -> Outcome {
    let date = call.arguments.text("date");
    match call.arguments.text("direction") {
        "solar_to_lunar" => {
            let day = clock::parse(date).ok_or_else(|| format!("`{date}` is no date like 2025-01-29"))? / DAY;
            lunar::to_lunar(day)
        }
        _ => lunar::to_solar(date),
    }
}
