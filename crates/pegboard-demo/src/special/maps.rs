//! Places on a globe, routes between them, and computed weather.

use std::f64::consts::TAU;

use serde_json::{Value, json};

use super::{Tools, cents};
use crate::{
    clock::{self, DAY},
    filter,
    verbs::Call,
    world::{Outcome, ToolError, World, hash, known_as, shorten, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("geocode", geocode),
    ("reverse_geocode", reverse_geocode),
    ("get_directions", directions),
    ("distance_matrix", matrix),
    ("search_places", around),
    ("find_parking", around),
    ("get_traffic", traffic),
    ("weather_forecast", forecast),
    ("get_conditions", forecast),
    ("air_quality", forecast),
    ("find_timezone", time_zone),
    ("查询公交路线", ride),
    ("estimate_taxi_fare", ride),
];

const CITIES: &str = "maps/cities";
const PLACES: &str = "maps/places";

fn position(object: &Value) -> (f64, f64) {
    let number = |field: &str| object[field].as_f64().unwrap_or(0.0);
    (number("lat"), number("lng"))
}

/// Returns the place that `text` names: coordinates, a place or address, or a city.
fn locate(world: &World, text: &str) -> Outcome {
    let numbers: Vec<f64> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    if let [lat, lng] = numbers[..] {
        let is_on_globe = lat.abs() <= 90.0 && lng.abs() <= 180.0;
        return is_on_globe.then(|| json!({"name": text, "lat": lat, "lng": lng})).ok_or("invalid coordinates".into());
    }
    let text = text.to_lowercase();
    let is_said = |name: &str| !name.is_empty() && text.contains(&name.to_lowercase());
    let is_meant = |object: &&Value| {
        let names = object["aliases"].as_array().into_iter().flatten().chain([&object["name"], &object["address"]]);
        names.into_iter().filter_map(Value::as_str).any(is_said)
    };
    let mut known = world.all(PLACES).iter().chain(world.all(CITIES));
    known.find(is_meant).cloned().ok_or_else(|| {
        let names: Vec<String> = world.all(CITIES).iter().map(|city| text_of(&city["name"])).collect();
        format!("`{}` is not on the demo's map; {}", shorten(&text), known_as(&names)).into()
    })
}

/// Returns the distance along the surface in metres.
fn metres(a: &Value, b: &Value) -> f64 {
    let ((a_lat, a_lng), (b_lat, b_lng)) = (position(a), position(b));
    let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
    let across = a_lat.to_radians().cos() * b_lat.to_radians().cos() * half(a_lng, b_lng);
    (2.0 * 6_371_000.0 * (half(a_lat, b_lat) + across).sqrt().min(1.0).asin()).round()
}

/// Returns the metres and minutes of a route, which is never quite straight.
fn way(a: &Value, b: &Value, mode: &str) -> (f64, f64) {
    let straight = metres(a, b);
    let (detour, km_per_hour) = match mode {
        "walking" => (1.2, 5.0),
        "cycling" => (1.25, 16.0),
        "transit" => (1.35, 28.0),
        _ => (1.3, if straight > 50_000.0 { 90.0 } else { 35.0 }),
    };
    let length = (straight * detour).round();
    (length, (length / 1_000.0 / km_per_hour * 60.0).round())
}

fn nearest<'a>(objects: impl Iterator<Item = &'a Value>, here: &Value) -> Result<&'a Value, ToolError> {
    objects.min_by(|a, b| metres(a, here).total_cmp(&metres(b, here))).ok_or_else(|| "the map is empty".into())
}

fn geocode(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let found = locate(world, call.arguments.text("address"))?;
    let (country, wanted) = (text_of(&found["country"]), call.arguments.text("country"));
    if !wanted.is_empty() && found["country"].is_string() && !country.eq_ignore_ascii_case(wanted) {
        return Err(format!("{} is in {country}, not in {wanted}", text_of(&found["name"])).into());
    }
    let (lat, lng) = position(&found);
    Ok(json!({"message": format!("{} is at {lat}, {lng}", text_of(&found["name"])), "lat": lat, "lng": lng}))
}

fn reverse_geocode(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let here = Value::Object(call.arguments.0.clone());
    let found = nearest(world.all(PLACES).iter().chain(world.all(CITIES)), &here)?;
    let message = format!("{} is the nearest, {} m away", text_of(&found["name"]), metres(found, &here));
    Ok(json!({"message": message, "place": found}))
}

fn directions(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const WINDS: [&str; 8] = ["north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"];
    let (arguments, mode) = (&call.arguments, call.arguments.text("mode"));
    let names = [vec![arguments.text("origin")], arguments.texts("waypoints"), vec![arguments.text("destination")]];
    let stops =
        names.concat().into_iter().map(|name| locate(world, name)).collect::<Result<Vec<Value>, ToolError>>()?;
    // A route without fast roads is a little longer.
    let detour = 1.0 + 0.1 * arguments.list("avoid").len() as f64;
    let (mut length, mut minutes, mut steps) = (0.0, 0.0, Vec::new());
    for pair in stops.windows(2) {
        let (metres, needed) = way(&pair[0], &pair[1], mode);
        let ((lat, lng), (to_lat, to_lng)) = (position(&pair[0]), position(&pair[1]));
        let turn = (to_lng - lng).atan2(to_lat - lat).rem_euclid(TAU) / TAU * 8.0;
        let wind = WINDS[turn.round() as usize % 8];
        steps.push(format!("{wind} from {} to {}", text_of(&pair[0]["name"]), text_of(&pair[1]["name"])));
        length += metres * detour;
        minutes += needed * detour;
    }
    let leave = clock::parse(arguments.text("depart_at")).unwrap_or(world.now());
    let arrive = clock::show(leave.saturating_add(minutes as i64 * 60));
    let message = format!("{:.1} km, {minutes:.0} minutes {mode}, there at {arrive}", length / 1_000.0);
    Ok(json!({"message": message, "distance_m": length.round(), "minutes": minutes.round(), "steps": steps}))
}

fn matrix(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (mode, mut rows) = (call.arguments.text("mode"), Vec::new());
    for origin in call.arguments.texts("origins").into_iter().take(50) {
        for destination in call.arguments.texts("destinations").into_iter().take(50) {
            let (metres, minutes) = way(&locate(world, origin)?, &locate(world, destination)?, mode);
            rows.push(json!({"origin": origin, "destination": destination, "distance_m": metres, "minutes": minutes}));
        }
    }
    Ok(json!({"message": format!("{} ways, {mode}", rows.len()), "rows": rows}))
}

/// Returns the places near a point: matches of a query, or car parks.
fn around(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let arguments = &call.arguments;
    let query = if arguments.has("query") { arguments.text("query") } else { "kind:parking" };
    let mut found = filter::search(world.all(PLACES).to_vec(), query);
    let near = [arguments.text("near"), arguments.text("location")].concat();
    if !near.is_empty() {
        let (here, radius) = (locate(world, &near)?, arguments.number("radius_m").unwrap_or(2_000.0));
        found.iter_mut().for_each(|place| place["distance_m"] = metres(place, &here).into());
        found.retain(|place| place["distance_m"].as_f64() <= Some(radius));
        found.sort_by(|a, b| filter::compare(&a["distance_m"], &b["distance_m"]));
    }
    let time = world.now().rem_euclid(DAY);
    let at = |place: &Value, index: usize| clock::time_of_day(&text_of(&place["hours"][index])).unwrap_or(0);
    found.retain(|place| {
        (!arguments.is("ev_charging") || place["ev_charging"] == true)
            && (!arguments.is("open_now") || (at(place, 0)..at(place, 1)).contains(&time))
            && place["rating"].as_f64() >= arguments.number("min_rating")
    });
    Ok(json!({"message": format!("{} place(s) for `{query}`", found.len()), "places": found}))
}

fn traffic(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (area, severity) = (call.arguments.value("area"), call.arguments.text("severity"));
    let radius = area["radius_m"].as_f64().unwrap_or(10_000.0);
    let is_near = |incident: &&Value| area["center"].is_null() || metres(incident, &area["center"]) <= radius;
    let found = world.all("maps/incidents").iter().filter(is_near);
    let found: Vec<&Value> = found.filter(|incident| severity == "any" || incident["severity"] == *severity).collect();
    Ok(json!({"message": format!("{} disturbance(s)", found.len()), "incidents": found}))
}

/// Returns a share between 0 and 1 that depends only on a place, a day and a topic.
fn luck(lat: f64, lng: f64, day: i64, about: &str) -> f64 {
    (hash(&format!("{lat:.1} {lng:.1} {day} {about}")) % 100) as f64 / 100.0
}

/// Returns the rain at a place on a day.
pub(super) fn rain_mm(lat: f64, lng: f64, day: i64) -> f64 {
    if luck(lat, lng, day, "dry") < 0.65 { 0.0 } else { cents(luck(lat, lng, day, "rain") * 18.0) }
}

/// Returns the weather and air of one day: warm near the equator and in summer, with some
/// randomness.
fn weather(place: &Value, particles: f64, day: i64, is_metric: bool) -> Value {
    let (lat, lng) = position(place);
    let luck = |about: &str| luck(lat, lng, day, about);
    let season = ((day as f64 - 15.0) / 365.25 * TAU).cos() * lat.signum();
    let high = 31.0 - 0.0075 * lat * lat - season * lat.abs() * 0.2 + 6.0 * (luck("warm") - 0.5);
    let degrees = |celsius: f64| cents(if is_metric { celsius } else { celsius * 1.8 + 32.0 });
    let (fine, rain) = (cents(particles * (0.6 + luck("air"))), rain_mm(lat, lng, day));
    json!({
        "date": clock::show_date(day), "high": degrees(high), "low": degrees(high - 7.0 - 3.0 * luck("night")),
        "rain_mm": rain, "wind_kmh": (luck("wind") * 40.0).round(), "pm2_5": fine, "pm10": cents(fine * 1.7),
        "advice": if fine > 35.0 { "stay inside" } else if rain > 0.0 { "take an umbrella" } else { "go out" },
    })
}

fn forecast(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let arguments = &call.arguments;
    let asked = [arguments.text("location"), arguments.text("loc"), arguments.text("city")].concat();
    let place = locate(world, &asked)?;
    let particles = nearest(world.all(CITIES).iter(), &place)?["particles"].as_f64().unwrap_or(10.0);
    let count = arguments.int("days").unwrap_or(if arguments.is("include_forecast") { 4 } else { 1 });
    let (today, is_metric) = (world.now() / DAY, arguments.text("units") != "imperial");
    let mut days: Vec<Value> = (today..today + count).map(|day| weather(&place, particles, day, is_metric)).collect();
    for day in days.iter_mut().filter(|_| arguments.text("granularity") == "hourly") {
        let [high, low] = ["high", "low"].map(|field| day[field].as_f64().unwrap_or(0.0));
        // Coldest at three, warmest at three in the afternoon.
        let warmth = |hour: i32| (1.0 - (f64::from(hour - 3) / 24.0 * TAU).cos()) / 2.0;
        day["hours"] = (0..24).map(|hour| cents(low + (high - low) * warmth(hour))).collect();
    }
    let message = format!("made-up weather and air of {}", text_of(&place["name"]));
    Ok(json!({"message": message, "days": days, "asked": arguments.0}))
}

/// Returns the minutes from UTC at a city, with summer time where it has one.
fn offset(city: &Value, at: i64) -> i64 {
    let day = at.div_euclid(DAY);
    let (year, ..) = clock::civil(day);
    let sunday_from = |month: i64, first: i64| {
        let first = clock::days(year, month, first);
        first + 6 - clock::weekday(first) as i64
    };
    let is_summer = match city["dst"].as_str() {
        // From the last Sunday of March to that of October.
        Some("eu") => (sunday_from(3, 25)..sunday_from(10, 25)).contains(&day),
        Some("us") => (sunday_from(3, 8)..sunday_from(11, 1)).contains(&day),
        Some("south") => !(sunday_from(4, 1)..sunday_from(10, 1)).contains(&day),
        _ => false,
    };
    city["offset"].as_i64().unwrap_or(0) + if is_summer { 60 } else { 0 }
}

fn time_zone(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let place = locate(world, call.arguments.text("location"))?;
    let city = nearest(world.all(CITIES).iter(), &place)?;
    let at = match call.arguments.text("at") {
        "" => world.now(),
        text => clock::parse(text).ok_or("`at` is not a time")?,
    };
    let offset = offset(city, at);
    let local = clock::show(at + offset * 60).replace('Z', "");
    let message = format!("it is {local} in {}", text_of(&place["name"]));
    Ok(json!({"message": message, "timezone": city["zone"], "utc_offset_minutes": offset, "local_time": local}))
}

/// Returns the duration and the price of a ride by bus or taxi.
fn ride(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let arguments = &call.arguments;
    let is_taxi = arguments.has("from");
    let [from, to] = if is_taxi { ["from", "to"] } else { ["起点", "终点"] }.map(|name| arguments.text(name));
    let (from, to) = (locate(world, from)?, locate(world, to)?);
    let (metres, minutes) = way(&from, &to, if is_taxi { "driving" } else { "transit" });
    let km = metres / 1_000.0;
    let fare = match arguments.text("car_type") {
        "economy" => 3.5 + 1.3 * km,
        "comfort" => 5.0 + 1.8 * km,
        "business" => 7.0 + 2.7 * km,
        // Three for the first six kilometres, one more for every ten.
        _ => 3.0 + ((km - 6.0).max(0.0) / 10.0).ceil(),
    };
    let leave = clock::parse(arguments.text("出发时间")).unwrap_or(world.now());
    let arrive = clock::show(leave.saturating_add(minutes as i64 * 60));
    let message = format!("{} → {}: {km:.1} km, {minutes} min", text_of(&from["name"]), text_of(&to["name"]));
    Ok(json!({"message": message, "fare": cents(fare), "minutes": minutes, "arrive_at": arrive, "asked": arguments.0}))
}
