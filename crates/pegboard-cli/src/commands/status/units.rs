//! Formatting of durations and counts.

use std::time::Duration;

use crate::output::count;

/// Formats a long duration, in its two largest units.
pub(super) fn format_long(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Formats a short duration.
pub(super) fn format_short(us: u64) -> String {
    let time = Duration::from_micros(us);
    match us {
        0..1000 => format!("{us} µs"),
        1000..10_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        10_000..1_000_000 => format!("{} ms", time.as_millis()),
        1_000_000..60_000_000 => format!("{:.1} s", time.as_secs_f64()),
        _ => format!("{} min", us / 60_000_000),
    }
}

/// Formats a count with its noun.
pub(super) fn format_count(number: u64, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {several}", count(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(format_long(0), "0 s");
        check(format_long(61_000), "1 min 1 s");
        check(format_long(7_260_000), "2 h 1 min");
        check(format_long(90_000_000), "1 d 1 h");
        check(format_short(80), "80 µs");
        check(format_short(1_240), "1.2 ms");
        check(format_short(46_000), "46 ms");
        check(format_short(2_500_000), "2.5 s");
        check(format_short(300_000_000), "5 min");
        check(format_count(1, "tool", "tools"), "1 tool");
        check(format_count(1_234_567, "tool", "tools"), "1,234,567 tools");
    }
}
