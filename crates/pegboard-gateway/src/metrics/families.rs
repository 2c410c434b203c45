//! Metric families, for exporters.

use std::fmt::{self, Write as _};

use super::BUCKETS;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It goes up.
    Counter,
    /// It counts by classes.
    Histogram,
}

/// A metric with its values for each set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// What it is called.
    pub name: &'static str,
    /// What it does over time.
    pub kind: Kind,
    /// What it is, for people.
    pub help: &'static str,
    /// The numbers.
    pub points: Vec<Point>,
}

/// One value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What it is the number of.
    pub labels: Vec<(&'static str, String)>,
    /// The number itself.
    pub value: Value,
}

/// A number or a histogram.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Number(u64),
    /// Times, by classes.
    Histogram(Histogram),
}

/// A histogram of durations in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// How many there were in each class of [`bounds`](Self::bounds).
    pub counts: Vec<u64>,
    /// How many there were in all; the rest is beyond the last class.
    pub count: u64,
    /// All times together.
    pub sum: f64,
}

impl Histogram {
    /// Returns the upper bounds of the buckets, in seconds.
    pub fn bounds() -> impl Iterator<Item = f64> {
        BUCKETS.iter().map(|end| *end as f64 / 1e6)
    }
}

impl Family {
    /// A family with a single number.
    pub(super) fn one(name: &'static str, kind: Kind, help: &'static str, value: u64) -> Self {
        Self { name, kind, help, points: vec![labelled([], Value::Number(value))] }
    }
}

pub(super) fn labelled<const N: usize>(labels: [(&'static str, &str); N], value: Value) -> Point {
    Point { labels: labels.into_iter().map(|(key, text)| (key, text.to_owned())).collect(), value }
}

/// Returns the metrics in the text format of Prometheus.
pub(crate) fn render(families: &[Family]) -> String {
    let mut text = String::with_capacity(4096);
    for family in families {
        // Writing to a string does not fail.
        let _ = write(family, &mut text);
    }
    text
}

fn write(family: &Family, text: &mut String) -> fmt::Result {
    let (name, kind) = (family.name, family.kind);
    let kind = match kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
        Kind::Histogram => "histogram",
    };
    writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", family.help)?;
    for Point { labels, value } in &family.points {
        let labels: Vec<String> = labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escaped(text))).collect();
        let labels = labels.join(",");
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        match value {
            Value::Number(number) => writeln!(text, "{name}{braces} {number}")?,
            Value::Histogram(histogram) => write_histogram(name, &labels, &braces, histogram, text)?,
        }
    }
    Ok(())
}

fn write_histogram(name: &str, labels: &str, braces: &str, times: &Histogram, text: &mut String) -> fmt::Result {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut seen = 0;
    for (count, end) in times.counts.iter().zip(Histogram::bounds()) {
        seen += count;
        writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {seen}")?;
    }
    let count = times.count;
    writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}")?;
    writeln!(text, "{name}_sum{braces} {}", times.sum)?;
    writeln!(text, "{name}_count{braces} {count}")
}

/// Returns a text escaped for the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
