//! Events, free time, rooms and holidays.

use serde_json::{Value, json};

use super::{Tools, lunar};
use crate::{
    arguments::Arguments,
    clock::{self, DAY, WEEKDAYS},
    verbs::{self, Call},
    world::{Outcome, ToolError, World, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("createEvent", create),
    ("updateEvent", update),
    ("findFreeSlots", free_slots),
    ("bookMeetingRoom", book_room),
    ("getHolidays", holidays),
    ("nongliZhuanhuan", lunar::convert),
];

/// Returns beginning and end, which must be in this order.
fn span(start: &Value, end: &Value) -> Result<(i64, i64), ToolError> {
    let instant = |value: &Value| clock::parse(&text_of(value)).ok_or_else(|| format!("{value} is not a date or time"));
    let (start, end) = (instant(start)?, instant(end)?);
    if start < end { Ok((start, end)) } else { Err("the end must be later than the start".into()) }
}

fn span_of(object: &Value) -> Option<(i64, i64)> {
    span(&object["start"], &object["end"]).ok()
}

fn span_in(arguments: &Arguments, start: &str, end: &str) -> Result<(i64, i64), ToolError> {
    span(arguments.value(start), arguments.value(end))
}

fn create(world: &mut World, call: &mut Call<'_>) -> Outcome {
    span_in(&call.arguments, "start", "end")?;
    verbs::create(world, call)
}

fn update(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (event, mut changes) = (&call.found["eventId"], call.arguments.value("changes").clone());
    let mut after = json!({"attendees": event["attendees"]});
    let emails = |name: &str| changes[name].as_array().cloned().unwrap_or_default();
    let (added, removed) = (emails("addAttendees"), emails("removeAttendees"));
    let added: Vec<Value> = added.iter().map(|email| json!({"email": email})).collect();
    verbs::extend(&mut after, "attendees", &added.into());
    if let Some(attendees) = after["attendees"].as_array_mut() {
        attendees.retain(|attendee| !removed.contains(&attendee["email"]));
    }
    if let Some(changes) = changes.as_object_mut() {
        changes.retain(|name, _| !name.ends_with("Attendees"));
        changes.insert("attendees".to_owned(), after["attendees"].take());
    }
    span(changes.get("start").unwrap_or(&event["start"]), changes.get("end").unwrap_or(&event["end"]))?;
    call.arguments.set("changes", changes);
    verbs::change(world, call)
}

/// Returns whether a time is within the working hours of its day.
fn is_working(hours: &Value, start: i64, end: i64) -> bool {
    let midnight = start.div_euclid(DAY) * DAY;
    let today = WEEKDAYS[clock::weekday(start.div_euclid(DAY))];
    let at = |hours: &Value, name: &str| clock::time_of_day(&text_of(&hours[name])).map(|time| midnight + time);
    let of_day = hours["days"].as_array().into_iter().flatten().find(|hours| hours["day"] == today);
    of_day.is_some_and(|hours| at(hours, "start") <= Some(start) && Some(end) <= at(hours, "end"))
}

fn free_slots(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const STEP: i64 = 15 * 60;
    let (start, end) = span_in(&call.arguments, "windowStart", "windowEnd")?;
    let end = end.min(start + 62 * DAY);
    let length = call.arguments.int("durationMinutes").unwrap_or(30).saturating_mul(60);
    let people = call.arguments.texts("attendees");
    let is_theirs = |event: &&Value| people.iter().any(|person| text_of(event).contains(&format!("\"{person}\"")));
    let events = world.all("calendar/events").iter().filter(is_theirs);
    let busy: Vec<(i64, i64)> = events.filter_map(span_of).collect();
    let hours = world.find("calendar/settings", "working-hours")?;
    let mut slots = Vec::new();
    let mut at = (start + STEP - 1).div_euclid(STEP) * STEP;
    while at.saturating_add(length) <= end && slots.len() < 10 {
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
    let (start, end) = span_in(wanted, "start", "end")?;
    let is_taken = |room: &Value| {
        let mut bookings = world.all("calendar/bookings").iter().filter(|booking| booking["room"] == room["name"]);
        bookings.any(|booking| span_of(booking).is_some_and(|(from, to)| from < end && start < to))
    };
    let fits = |room: &&Value| {
        let equipment = room["equipment"].as_array().map_or(&[][..], Vec::as_slice);
        room["capacity"].as_i64() >= wanted.int("capacity")
            && wanted.list("equipment").iter().all(|needed| equipment.contains(needed))
            && (!wanted.has("building") || room["building"] == *wanted.value("building"))
            && !is_taken(room)
    };
    let free = world.all("calendar/rooms").iter().filter(fits).min_by_key(|room| room["capacity"].as_i64());
    let room = free.ok_or("no room is available at that time")?["name"].clone();
    let booking = json!({"room": room, "start": wanted.value("start"), "end": wanted.value("end")});
    let booking = world.make("calendar/bookings", booking, false)?;
    Ok(json!({"message": format!("room {} is booked", text_of(&room)), "booking": booking}))
}

fn holidays(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (year, country) =
        (call.arguments.int("year"), world.find("calendar/holidays", call.arguments.text("country"))?);
    let year = year.filter(|year| (1_900..=2_200).contains(year)).ok_or("`year` must be between 1900 and 2200")?;
    let day = |(day, name): (&String, &Value)| json!({"date": format!("{year}-{day}"), "name": name});
    let days: Vec<Value> = country["days"].as_object().into_iter().flatten().map(day).collect();
    let message = format!("{} holidays of fixed date in {} in {year}", days.len(), text_of(&country["country"]));
    Ok(json!({"message": message, "holidays": days}))
}
