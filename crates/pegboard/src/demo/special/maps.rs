//! Places on a globe, the ways between them, and weather that is computed.

use serde_json::{Value, json};

use super::{Tools, cents};
use crate::demo::{
    clock::{self, DAY},
    filter,
    verbs::Call,
    world::{Outcome, Refusal, World, hash, known_as, shorten, text_of},
};

pub(super) const TOOLS: Tools = &[
    ("geocode", geocode),
    ("reverse_geocode", reverse_geocode),
    ("get_directions", directions),
    ("distance_matrix", matrix),
    ("search_places", search),
    ("get_place_details", details),
    ("get_traffic", traffic),
    ("weather_forecast", forecast),
    ("get_conditions", conditions),
    ("find_timezone", time_zone),
    ("查询公交路线", transit),
    ("find_parking", parking),
    ("air_quality", air),
    ("estimate_taxi_fare", taxi),
];

/// A point with a name.
struct Spot {
    name: String,
    lat: f64,
    lng: f64,
    country: String,
}

fn spot(object: &Value) -> Spot {
    let number = |field: &str| object[field].as_f64().unwrap_or(0.0);
    Spot {
        name: text_of(&object["name"]),
        lat: number("lat"),
        lng: number("lng"),
        country: text_of(&object["country"]),
    }
}

/// The point that `text` names: coordinates, a known place or address, or a known city.
fn locate(world: &World, text: &str) -> Result<Spot, Refusal> {
    let numbers: Vec<f64> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    if let [lat, lng] = numbers[..] {
        let is_on_globe = (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lng);
        return is_on_globe
            .then(|| Spot { name: text.to_owned(), lat, lng, country: String::new() })
            .ok_or_else(|| "no such coordinates".into());
    }
    let text = text.to_lowercase();
    let says =
        |value: &Value| value.as_str().is_some_and(|name| !name.is_empty() && text.contains(&name.to_lowercase()));
    let is_meant = |object: &&Value| {
        ["name", "address"].iter().any(|field| says(&object[field]))
            || object["aliases"].as_array().is_some_and(|names| names.iter().any(says))
    };
    let mut known = world.all("maps/places").iter().chain(world.all("maps/cities"));
    known.find(is_meant).map(spot).ok_or_else(|| {
        let names: Vec<String> = world.all("maps/cities").iter().map(|city| text_of(&city["name"])).collect();
        format!("`{}` is not on the demo's map; {}", shorten(&text), known_as(&names)).into()
    })
}

/// Metres along the surface.
fn metres(a: &Spot, b: &Spot) -> f64 {
    let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
    let across = a.lat.to_radians().cos() * b.lat.to_radians().cos() * half(a.lng, b.lng);
    2.0 * 6_371_000.0 * (half(a.lat, b.lat) + across).sqrt().min(1.0).asin()
}

/// Metres and minutes of a way, which is never quite straight.
fn way(a: &Spot, b: &Spot, mode: &str) -> (f64, f64) {
    let (detour, km_per_hour) = match mode {
        "walking" => (1.2, 5.0),
        "cycling" => (1.25, 16.0),
        "transit" => (1.35, 28.0),
        _ => (1.3, if metres(a, b) > 50_000.0 { 90.0 } else { 35.0 }),
    };
    let length = (metres(a, b) * detour).round();
    (length, (length / 1_000.0 / km_per_hour * 60.0).round())
}

fn nearest<'a>(world: &'a World, to: &Spot) -> Option<&'a Value> {
    world.all("maps/cities").iter().min_by(|a, b| metres(&spot(a), to).total_cmp(&metres(&spot(b), to)))
}

fn geocode(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let found = locate(world, call.arguments.text("address"))?;
    let wanted = call.arguments.text("country");
    if !wanted.is_empty() && !found.country.is_empty() && !found.country.eq_ignore_ascii_case(wanted) {
        return Err(format!("{} is not in {wanted}", found.name).into());
    }
    Ok(
        json!({"message": format!("{} is at {}, {}", found.name, found.lat, found.lng), "name": found.name, "lat": found.lat, "lng": found.lng}),
    )
}

fn reverse_geocode(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let number = |name: &str| call.arguments.number(name).unwrap_or(0.0);
    let here = Spot { name: String::new(), lat: number("lat"), lng: number("lng"), country: String::new() };
    let all = world.all("maps/places").iter().chain(world.all("maps/cities"));
    let found =
        all.min_by(|a, b| metres(&spot(a), &here).total_cmp(&metres(&spot(b), &here))).ok_or("the map is empty")?;
    let away = metres(&spot(found), &here).round();
    Ok(
        json!({"message": format!("{} is the nearest, {away} m away", text_of(&found["name"])), "name": found["name"], "address": found["address"], "city": found["city"], "distance_m": away}),
    )
}

fn directions(world: &mut World, call: &mut Call<'_>) -> Outcome {
    const WINDS: [&str; 8] = ["north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"];
    let (arguments, mode) = (&call.arguments, call.arguments.text("mode"));
    let mut stops = vec![locate(world, arguments.text("origin"))?];
    for stop in arguments.texts("waypoints").into_iter().chain([arguments.text("destination")]) {
        stops.push(locate(world, stop)?);
    }
    // Whoever avoids fast roads goes a little further.
    let detour = 1.0 + 0.1 * arguments.list("avoid").len() as f64;
    let (mut length, mut minutes, mut steps) = (0.0, 0.0, Vec::new());
    for pair in stops.windows(2) {
        let (metres, needed) = way(&pair[0], &pair[1], mode);
        let angle = (pair[1].lng - pair[0].lng).atan2(pair[1].lat - pair[0].lat).to_degrees().rem_euclid(360.0);
        let wind = WINDS[((angle / 45.0).round() as usize) % 8];
        steps.push(format!("go {wind} from {} to {}, {:.1} km", pair[0].name, pair[1].name, metres * detour / 1_000.0));
        length += metres * detour;
        minutes += (needed * detour).round();
    }
    let leave = match arguments.text("depart_at") {
        "" => world.now(),
        text => clock::parse(text).ok_or("`depart_at` is no time")?,
    };
    let arrive = clock::show(leave.saturating_add(minutes as i64 * 60));
    Ok(
        json!({"message": format!("{:.1} km, {minutes} minutes {mode}", length / 1_000.0), "distance_m": length.round(), "minutes": minutes, "mode": mode, "arrive_at": arrive, "steps": steps}),
    )
}

fn matrix(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (origins, destinations) = (call.arguments.texts("origins"), call.arguments.texts("destinations"));
    if origins.len() * destinations.len() > 2_500 {
        return Err("at most 2500 pairs at once".into());
    }
    let mut rows = Vec::new();
    for origin in &origins {
        for destination in &destinations {
            let (metres, minutes) =
                way(&locate(world, origin)?, &locate(world, destination)?, call.arguments.text("mode"));
            rows.push(json!({"origin": origin, "destination": destination, "distance_m": metres, "minutes": minutes}));
        }
    }
    Ok(json!({"message": format!("{} ways, {}", rows.len(), call.arguments.text("mode")), "rows": rows}))
}

/// Places within a radius, nearest first, with how far they are.
fn around(world: &World, here: &Spot, radius: f64, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut found: Vec<(f64, Value)> = Vec::new();
    for place in world.all("maps/places").iter().filter(|place| is_wanted(place)) {
        let away = metres(&spot(place), here).round();
        if away <= radius {
            let mut place = place.clone();
            place["distance_m"] = away.into();
            found.push((away, place));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    found.into_iter().map(|(_, place)| place).collect()
}

/// Whether a place is open now, by the clock of its city.
fn is_open(world: &World, place: &Value) -> bool {
    let local = nearest(world, &spot(place)).map_or(world.now(), |city| world.now() + offset(city, world.now()) * 60);
    let at = |index: usize| clock::time_of_day(&text_of(&place["hours"][index])).unwrap_or(0);
    (at(0)..at(1)).contains(&local.rem_euclid(DAY))
}

fn search(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let arguments = &call.arguments;
    let (query, least) = (arguments.text("query"), arguments.number("min_rating").unwrap_or(0.0));
    let is_wanted = |place: &Value| {
        place["rating"].as_f64().unwrap_or(0.0) >= least && (!arguments.is("open_now") || is_open(world, place))
    };
    let found = match arguments.text("near") {
        "" => world.all("maps/places").iter().filter(|place| is_wanted(place)).cloned().collect(),
        near => around(world, &locate(world, near)?, arguments.number("radius_m").unwrap_or(2_000.0), is_wanted),
    };
    let found = filter::search(found, query);
    Ok(json!({"message": format!("{} place(s) for `{query}`", found.len()), "places": found}))
}

fn details(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let place = world.find("maps/places", call.arguments.text("place_id"))?;
    let mut reply = json!({"message": format!("about {}", text_of(&place["name"])), "name": place["name"], "address": place["address"], "open_now": is_open(world, &place)});
    let mut fields = call.arguments.texts("fields");
    if fields.is_empty() {
        fields = vec!["hours", "phone", "website", "reviews", "photos", "price"];
    }
    fields.into_iter().for_each(|field| reply[field] = place[field].clone());
    Ok(reply)
}

fn traffic(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (area, severity) = (call.arguments.value("area"), call.arguments.text("severity"));
    let center = spot(&area["center"]);
    let radius = area["radius_m"].as_f64().unwrap_or(10_000.0);
    let is_near = |incident: &&Value| area["center"].is_null() || metres(&spot(incident), &center) <= radius;
    let found = world.all("maps/incidents").iter().filter(is_near);
    let found: Vec<&Value> = found.filter(|incident| severity == "any" || incident["severity"] == *severity).collect();
    Ok(json!({"message": format!("{} disturbance(s)", found.len()), "incidents": found}))
}

/// The weather of one day at one place, made up from where and when.
pub(super) struct Weather {
    pub(super) rain_mm: f64,
    high: f64,
    low: f64,
    wind_kmh: f64,
    sun_hours: f64,
}

/// Warm near the equator and in summer, with some luck that belongs to place and day.
pub(super) fn weather(lat: f64, lng: f64, day: i64) -> Weather {
    let luck = hash(&format!("{lat:.1} {lng:.1} {day}"));
    let share = |shift: u32| ((luck >> shift) % 100) as f64 / 100.0;
    let season = ((day as f64 - 15.0) / 365.25 * std::f64::consts::TAU).cos() * lat.signum();
    let high = 31.0 - 0.0075 * lat * lat - season * lat.abs() * 0.2 + 6.0 * (share(0) - 0.5);
    let rain_mm = if share(8) < 0.35 { cents(share(16) * 18.0) } else { 0.0 };
    let daylight = 12.0 - season * lat.abs() / 10.0;
    let sun_hours = if rain_mm > 0.0 { daylight * 0.2 } else { daylight * (0.5 + share(24) / 2.0) };
    Weather {
        rain_mm,
        high: high.round(),
        low: (high - 6.0 - 4.0 * share(32)).round(),
        wind_kmh: (share(40) * 40.0).round(),
        sun_hours: sun_hours.round(),
    }
}

fn show(weather: &Weather, is_metric: bool) -> Value {
    let degrees = |celsius: f64| if is_metric { celsius } else { celsius * 1.8 + 32.0 };
    let (speed, length) = if is_metric { (1.0, 1.0) } else { (0.621_371, 1.0 / 25.4) };
    json!({
        "high": cents(degrees(weather.high)), "low": cents(degrees(weather.low)), "rain": cents(weather.rain_mm * length),
        "wind": cents(weather.wind_kmh * speed), "sun_hours": weather.sun_hours,
    })
}

fn forecast(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let here = locate(world, call.arguments.text("location"))?;
    let (days, units) = (call.arguments.int("days").unwrap_or(3), call.arguments.text("units"));
    let today = world.now() / DAY;
    let mut forecast = Vec::new();
    for day in today..today + days {
        let weather = weather(here.lat, here.lng, day);
        let mut entry = show(&weather, units == "metric");
        entry["date"] = clock::show_date(day).into();
        if call.arguments.text("granularity") == "hourly" {
            // Coldest before dawn, warmest in the afternoon.
            let warmth = |hour: i64| (1.0 - ((hour - 3) as f64 / 24.0 * std::f64::consts::TAU).cos()) / 2.0;
            let at = |hour: i64| weather.low + (weather.high - weather.low) * warmth(hour);
            let hours = (0..24).map(|hour| cents(if units == "metric" { at(hour) } else { at(hour) * 1.8 + 32.0 }));
            entry["hourly"] = hours.collect();
        }
        forecast.push(entry);
    }
    Ok(json!({"message": format!("made-up weather of {} for {days} day(s), {units}", here.name), "days": forecast}))
}

fn conditions(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (text, kind) = (call.arguments.text("loc"), call.arguments.text("kind"));
    let here = locate(world, text)?;
    let mut reply = json!({"message": format!("conditions in {}", here.name), "weather": show(&weather(here.lat, here.lng, world.now() / DAY), true)});
    reply["air"] = air_of(world, &here, world.now() / DAY);
    if !kind.is_empty() {
        let wanted = reply[if kind.contains("air") { "air" } else { "weather" }].clone();
        reply = json!({"message": format!("{kind} in {}", here.name), "conditions": wanted});
    }
    Ok(reply)
}

/// Minutes from UTC at a city, with summer time where it has one.
fn offset(city: &Value, at: i64) -> i64 {
    let day = at.div_euclid(DAY);
    let (year, ..) = clock::civil(day);
    // The last Sunday of a month, or the nth one.
    let last =
        |month: i64| (0..7).map(|n| clock::days(year, month + 1, 1) - 1 - n).find(|day| clock::weekday(*day) == 6);
    let nth = |month: i64, n: i64| {
        (0..7)
            .map(|d| clock::days(year, month, 1) + d)
            .find(|day| clock::weekday(*day) == 6)
            .map(|first| first + 7 * (n - 1))
    };
    let today = Some(day);
    let is_summer = match city["dst"].as_str() {
        Some("eu") => last(3) <= today && today < last(10),
        Some("us") => nth(3, 2) <= today && today < nth(11, 1),
        Some("south") => !(nth(4, 1) <= today && today < nth(10, 1)),
        _ => false,
    };
    city["offset"].as_i64().unwrap_or(0) + if is_summer { 60 } else { 0 }
}

fn time_zone(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let here = locate(world, call.arguments.text("location"))?;
    let city = nearest(world, &here).ok_or("the map is empty")?;
    let at = match call.arguments.text("at") {
        "" => world.now(),
        text => clock::parse(text).ok_or("`at` is no time")?,
    };
    let offset = offset(city, at);
    let local = clock::show(at + offset * 60).replace('Z', "");
    Ok(
        json!({"message": format!("it is {local} in {}", here.name), "timezone": city["zone"], "utc_offset_minutes": offset, "local_time": local}),
    )
}

fn transit(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let arguments = &call.arguments;
    let city = world.find("maps/cities", arguments.text("城市"))?;
    let (from, to) = (locate(world, arguments.text("起点"))?, locate(world, arguments.text("终点"))?);
    let (metres, minutes) = way(&from, &to, "transit");
    if metres > 150_000.0 {
        return Err(format!("{} 和 {} 不在同一城市", from.name, to.name).into());
    }
    let leave = match arguments.text("出发时间") {
        "" => world.now(),
        text => clock::parse(text).ok_or("`出发时间` is no time")?,
    };
    // Three for the first six kilometres, one more for every ten.
    let fare = 3 + ((metres / 1_000.0 - 6.0).max(0.0) / 10.0).ceil() as i64;
    let line = hash(&format!("{}{}", from.name, to.name)) % 16 + 1;
    Ok(json!({
        "message": format!("{}: {} → {}, 地铁{line}号线, {minutes} 分钟, {fare} 元", text_of(&city["name"]), from.name, to.name),
        "线路": format!("{line}号线"), "距离_米": metres, "分钟": minutes, "票价": fare, "预计到达": clock::show(leave + minutes as i64 * 60),
    }))
}

fn parking(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let here = locate(world, call.arguments.text("location"))?;
    let is_wanted = |place: &Value| {
        place["kind"] == "parking" && (!call.arguments.is("ev_charging") || place["ev_charging"] == true)
    };
    let mut found = around(world, &here, call.arguments.number("radius_m").unwrap_or(1_000.0), is_wanted);
    for place in &mut found {
        let spaces = place["spaces"].as_u64().unwrap_or(0).max(1);
        place["free"] = (hash(&format!("{}{}", place["id"], world.now() / 3_600)) % spaces).into();
    }
    Ok(json!({"message": format!("{} car park(s) near {}", found.len(), here.name), "parking": found}))
}

fn air_of(world: &World, here: &Spot, day: i64) -> Value {
    let base = nearest(world, here).and_then(|city| city["particles"].as_f64()).unwrap_or(10.0);
    let luck = (hash(&format!("{:.1}{day}", here.lat)) % 100) as f64 / 100.0;
    let fine = cents(base * (0.6 + luck));
    let (index, advice) = match fine {
        fine if fine <= 15.0 => ((fine * 3.3).round(), "good for sport outdoors"),
        fine if fine <= 35.0 => ((fine * 2.8).round(), "fine for most people"),
        fine => ((fine * 2.4).round(), "sensitive people should stay inside"),
    };
    json!({"date": clock::show_date(day), "aqi": index, "pm2_5": fine, "pm10": cents(fine * 1.7), "ozone": cents(40.0 + 40.0 * luck), "advice": advice})
}

fn air(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let here = locate(world, call.arguments.text("city"))?;
    let today = world.now() / DAY;
    let mut reply = json!({"message": format!("made-up air of {}", here.name), "now": air_of(world, &here, today)});
    if call.arguments.is("include_forecast") {
        reply["forecast"] = (1..=3).map(|days| air_of(world, &here, today + days)).collect();
    }
    Ok(reply)
}

fn taxi(world: &mut World, call: &mut Call<'_>) -> Outcome {
    let (from, to) = (locate(world, call.arguments.text("from"))?, locate(world, call.arguments.text("to"))?);
    let (metres, minutes) = way(&from, &to, "driving");
    let fare = |factor: f64| cents((3.5 + 1.3 * metres / 1_000.0 + 0.25 * minutes) * factor);
    let wanted = call.arguments.text("car_type");
    let types = [("economy", 1.0), ("comfort", 1.4), ("business", 2.1)];
    let fares: Vec<Value> =
        types.iter().map(|(name, factor)| json!({"car_type": name, "fare": fare(*factor)})).collect();
    let chosen = types.iter().find(|(name, _)| *name == wanted).map_or(1.0, |(_, factor)| *factor);
    let wait = 2 + hash(&from.name) % 9;
    Ok(
        json!({"message": format!("about {} from {} to {} ({wanted})", fare(chosen), from.name, to.name), "fare": fare(chosen), "minutes": minutes, "wait_minutes": wait, "distance_m": metres, "compare": fares}),
    )
}
