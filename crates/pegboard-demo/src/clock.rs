//! Dates and instants without a clock: the demo's time is counted, not read.

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// When every demo world begins: Monday, 2 March 2026, nine in the morning, UTC.
pub(super) const START: i64 = 20_514 * DAY + 9 * 3_600;

/// The days of the week from Monday on.
pub(super) const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Returns the days since 1970 of a date of the Gregorian calendar.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day of the date `days` after 1970 began.
pub(super) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the day of the week: 0 for Monday to 6 for Sunday.
pub(super) fn weekday(days: i64) -> usize {
    usize::try_from((days + 3).rem_euclid(7)).unwrap_or(0)
}

/// Parses `2026-03-02` or `2026-03-02T09:30`, with or without seconds and zone, as seconds since
/// 1970. The default zone is UTC.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.splitn(3, '-').map(|part| part.parse().ok().filter(|part| (0..=9_999).contains(part)));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let date = days(year, month, day);
    if civil(date) != (year, month, day) {
        return None;
    }
    let (time, zone) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => match time.rfind(['+', '-']) {
            Some(at) => (&time[..at], time_of_day(&time[at + 1..])? * if time[at..].starts_with('-') { -1 } else { 1 }),
            None => (time, 0),
        },
    };
    Some(date * DAY + time_of_day(time)? - zone)
}

/// Parses `HH:MM` or `HH:MM:SS` as seconds since midnight.
pub(super) fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split('.').next()?.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let is_time = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    (is_time && parts.next().is_none()).then_some(hour * 3_600 + minute * 60 + second)
}

/// Formats `seconds` since 1970 as `2026-03-02T09:30:00Z`.
pub(super) fn show(seconds: i64) -> String {
    let time = seconds.rem_euclid(DAY);
    format!("{}T{:02}:{:02}:{:02}Z", show_date(seconds.div_euclid(DAY)), time / 3_600, time / 60 % 60, time % 60)
}

/// Formats `days` since 1970 as `2026-03-02`.
pub(super) fn show_date(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}
