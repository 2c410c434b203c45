//! Formatting of tokens, costs, durations and sizes.

use std::time::Duration;

use pegboard_agent::Usage;

use crate::output::{count, pluralize};

/// The resources that a run used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunCost {
    pub(super) turns: u32,
    pub(super) usage: Usage,
    /// The cost, if prices are known.
    pub(super) cost: Option<f64>,
    pub(super) took: Duration,
}

impl RunCost {
    /// Formats everything on one line; the cost only if it is known.
    pub(super) fn text(&self) -> String {
        let turns = pluralize(self.turns as usize, "turn");
        let cost = self.cost.map_or_else(String::new, |known| format!("{}, ", cost(Some(known))));
        format!("{turns}, {}, {cost}{}", tokens(self.usage), time(self.took))
    }
}

/// Formats input and output tokens.
pub(super) fn tokens(usage: Usage) -> String {
    let cached = if usage.cached > 0 { format!(" ({} cached)", count(usage.cached)) } else { String::new() };
    let input = pluralize(usize::try_from(usage.input).unwrap_or(usize::MAX), "token");
    format!("{input} in{cached}, {} out", count(usage.output))
}

/// Formats a cost, in the currency of the prices.
pub(super) fn cost(cost: Option<f64>) -> String {
    match cost {
        // Fractions of a cent are what single runs cost.
        Some(cost) if cost < 1.0 => format!("cost {cost:.4}"),
        Some(cost) => format!("cost {cost:.2}"),
        None => "cost unknown (--prices)".to_owned(),
    }
}

/// Formats a duration.
pub(super) fn time(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match took.as_secs() {
        0 => format!("{} ms", took.as_millis()),
        1..60 => format!("{seconds:.1} s"),
        all => format!("{} min {} s", all / 60, all % 60),
    }
}

/// Formats a size.
pub(super) fn size(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        ..1e3 => format!("{bytes} B"),
        1e3..1e6 => format!("{:.1} kB", bytes / 1e3),
        _ => format!("{:.1} MB", bytes / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 999, 1000, 2_500_000].map(size), ["0 B", "999 B", "1.0 kB", "2.5 MB"]);
        assert_eq!([17, 1_500, 125_000].map(|ms| time(Duration::from_millis(ms))), ["17 ms", "1.5 s", "2 min 5 s"]);
        assert_eq!([None, Some(0.00123), Some(2.5)].map(cost), ["cost unknown (--prices)", "cost 0.0012", "cost 2.50"]);
        let spent = RunCost {
            turns: 1,
            usage: Usage { input: 1200, cached: 1000, output: 5, ..Usage::default() },
            took: Duration::from_millis(5),
            ..RunCost::default()
        };
        assert_eq!(spent.text(), "1 turn, 1,200 tokens in (1,000 cached), 5 out, 5 ms");
        let priced = RunCost { cost: Some(0.5), ..spent };
        assert_eq!(priced.text(), "1 turn, 1,200 tokens in (1,000 cached), 5 out, cost 0.5000, 5 ms");
    }
}
