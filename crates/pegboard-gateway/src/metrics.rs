//! Metrics of the gateway.
//!
//! The usual crate keeps one registry for the whole process; these metrics belong to one gateway,
//! and a program may have several. Counting costs a few atomic additions; all other work is done
//! when the metrics are read.

/// Returns all metrics, in a fixed order.
mod families;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pegboard_core::vectors::VectorSourceStatus;
use pegboard_upstream::ConnectionCounts;

use self::families::labelled;
pub(crate) use self::families::render;
pub use self::families::{Family, Histogram, Kind, Point, Value};

/// The path of the metrics, in the text format of Prometheus.
pub const METRICS: &str = "/metrics";

/// The upper bounds of the histogram buckets, in microseconds.
pub(crate) const BUCKETS: [u64; 14] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 5_000_000, 30_000_000, 300_000_000];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    classes: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Durations {
    pub(crate) fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(class) = BUCKETS.iter().position(|end| micros <= *end) {
            self.classes[class].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn histogram(&self) -> Histogram {
        let counts: Vec<u64> = self.classes.iter().map(|class| class.load(Ordering::Relaxed)).collect();
        // Others go on counting meanwhile; no class may have more than there are in all.
        let count = self.count().max(counts.iter().sum());
        Histogram { counts, count, sum: self.micros.load(Ordering::Relaxed) as f64 / 1e6 }
    }

    /// Returns a quantile, estimated from the buckets by linear interpolation. `None` if there are
    /// no durations.
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = share * count as f64;
        let (mut below, mut start) = (0.0, 0);
        for (class, end) in self.classes.iter().zip(BUCKETS) {
            let inside = class.load(Ordering::Relaxed) as f64;
            if inside > 0.0 && below + inside >= wanted {
                let part = ((wanted - below) / inside).clamp(0.0, 1.0);
                return Some(Duration::from_micros(start + ((end - start) as f64 * part) as u64));
            }
            (below, start) = (below + inside, end);
        }
        // Longer than every class.
        (count > 0).then(|| Duration::from_micros(start))
    }
}

/// The call metrics of one server.
#[derive(Debug, Default)]
pub(crate) struct ServerCalls {
    pub(crate) times: Durations,
    /// Calls that the server rejected or did not answer.
    pub(crate) failed: AtomicU64,
    /// Results that report a failure of the tool.
    pub(crate) errors: AtomicU64,
}

/// The reason why a call was not made, or its result not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// The arguments are invalid.
    Arguments,
    /// The arguments are too large.
    ArgumentBytes,
    /// The result is too large.
    ResultBytes,
    /// The server has reached its concurrency limit.
    ServerBusy,
    /// The caller has reached its concurrency limit.
    CallerBusy,
    /// The caller has reached its rate limit.
    Rate,
    /// The circuit breaker of the server is open.
    Breaker,
}

impl RejectReason {
    const ALL: [(Self, &str); 7] = [
        (Self::Arguments, "arguments"),
        (Self::ArgumentBytes, "argument_bytes"),
        (Self::ResultBytes, "result_bytes"),
        (Self::ServerBusy, "server_busy"),
        (Self::CallerBusy, "caller_busy"),
        (Self::Rate, "rate"),
        (Self::Breaker, "breaker"),
    ];
}

/// All metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) searches: Durations,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) lists: AtomicU64,
    /// Tokens (estimated) of definitions that were omitted from lists.
    pub(crate) tokens_saved: AtomicU64,
    /// In the order of [`RejectReason`].
    refused: [AtomicU64; RejectReason::ALL.len()],
    servers: RwLock<BTreeMap<Arc<str>, Arc<ServerCalls>>>,
}

/// The current values of the gauges.
#[derive(Clone, Debug, Default)]
pub(crate) struct GaugeValues {
    pub(crate) sessions: usize,
    pub(crate) tools: usize,
    /// How many servers there are in each state.
    pub(crate) servers: BTreeMap<&'static str, usize>,
    /// The connections of each server.
    pub(crate) connections: BTreeMap<String, ConnectionCounts>,
    pub(crate) uptime: Duration,
    /// The status of the external embedding model, if there is one.
    pub(crate) vectors: Option<VectorSourceStatus>,
}

impl Metrics {
    /// Returns the call metrics of one server.
    pub(crate) fn server_calls(&self, name: &str) -> Arc<ServerCalls> {
        let known = self.servers.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(name).cloned();
        known.unwrap_or_else(|| {
            let mut servers = self.servers.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            Arc::clone(servers.entry(name.into()).or_default())
        })
    }

    /// Counts a rejected call.
    pub(crate) fn count_rejection(&self, why: RejectReason) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a search.
    pub(crate) fn count_search(&self, is_hit: bool, time: Duration) {
        self.searches.add(time);
        let counter = if is_hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the tokens that a list saved compared with all tools.
    pub(crate) fn count_tokens_saved(&self, all: u64, shown: u64) {
        self.tokens_saved.fetch_add(all.saturating_sub(shown), Ordering::Relaxed);
    }

    /// All numbers, in a fixed order.
    pub(crate) fn families(&self, gauges: &GaugeValues) -> Vec<Family> {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let found =
            |counter: &AtomicU64, outcome: &str| labelled([("outcome", outcome)], Value::Number(number(counter)));
        let states = gauges.servers.iter();
        let mut families = vec![
            Family::one(
                "pegboard_uptime_seconds",
                Kind::Gauge,
                "Time since the gateway started",
                gauges.uptime.as_secs(),
            ),
            Family::one("pegboard_sessions", Kind::Gauge, "Sessions in memory", gauges.sessions as u64),
            Family::one("pegboard_tools", Kind::Gauge, "Tools of all servers", gauges.tools as u64),
            Family {
                name: "pegboard_servers",
                kind: Kind::Gauge,
                help: "Servers by state",
                points: states
                    .map(|(state, count)| labelled([("state", state)], Value::Number(*count as u64)))
                    .collect(),
            },
            Family {
                name: "pegboard_connections",
                kind: Kind::Gauge,
                help: "Connections to servers beside the one that their lists come from, by server and kind",
                points: connections(&gauges.connections),
            },
            Family {
                name: "pegboard_searches_total",
                kind: Kind::Counter,
                help: "Searches by outcome",
                points: vec![found(&self.hits, "hit"), found(&self.misses, "miss")],
            },
            Family {
                name: "pegboard_search_seconds",
                kind: Kind::Histogram,
                help: "Duration of searches",
                points: vec![labelled([], Value::Histogram(self.searches.histogram()))],
            },
            Family::one("pegboard_lists_total", Kind::Counter, "Tool lists sent to clients", number(&self.lists)),
            Family::one(
                "pegboard_tokens_saved_total",
                Kind::Counter,
                "Estimated tokens of tool definitions omitted from lists",
                number(&self.tokens_saved),
            ),
        ];
        let refused = |(why, reason): (RejectReason, &str)| {
            labelled([("reason", reason)], Value::Number(number(&self.refused[why as usize])))
        };
        families.push(Family {
            name: "pegboard_calls_refused_total",
            kind: Kind::Counter,
            help: "Calls that were rejected or not answered, by reason",
            points: RejectReason::ALL.into_iter().map(refused).collect(),
        });
        families.extend(self.calls());
        families.extend(gauges.vectors.iter().flat_map(embeddings));
        families
    }

    fn calls(&self) -> [Family; 2] {
        let servers = self.servers.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let (mut outcomes, mut times) = (Vec::new(), Vec::new());
        for (name, calls) in &servers {
            let (failed, errors) = (calls.failed.load(Ordering::Relaxed), calls.errors.load(Ordering::Relaxed));
            let fine = calls.times.count().saturating_sub(failed + errors);
            for (outcome, count) in [("ok", fine), ("error", errors), ("failed", failed)] {
                outcomes.push(labelled([("server", name), ("outcome", outcome)], Value::Number(count)));
            }
            times.push(labelled([("server", name)], Value::Histogram(calls.times.histogram())));
        }
        [
            Family {
                name: "pegboard_calls_total",
                kind: Kind::Counter,
                help: "Tool calls by server and outcome",
                points: outcomes,
            },
            Family {
                name: "pegboard_call_seconds",
                kind: Kind::Histogram,
                help: "Duration of tool calls",
                points: times,
            },
        ]
    }
}

/// Returns the number of connections by server and kind.
fn connections(servers: &BTreeMap<String, ConnectionCounts>) -> Vec<Point> {
    let of_server = |(server, counts): (&String, &ConnectionCounts)| {
        [("shared", counts.shared), ("own", counts.own)]
            .map(|(kind, count)| labelled([("server", server), ("kind", kind)], Value::Number(count as u64)))
    };
    servers.iter().flat_map(of_server).collect()
}

/// Returns the metrics of the external embedding model.
fn embeddings(vectors: &VectorSourceStatus) -> [Family; 2] {
    let outcomes = [
        ("fetched", vectors.fetched),
        ("known", vectors.known),
        ("failed", vectors.failed),
        ("skipped", vectors.skipped),
    ];
    let count = |(outcome, count): (&str, u64)| labelled([("outcome", outcome)], Value::Number(count));
    [
        Family {
            name: "pegboard_embedding_queries_total",
            kind: Kind::Counter,
            help: "Query embeddings by outcome",
            points: outcomes.into_iter().map(count).collect(),
        },
        Family::one(
            "pegboard_embedded_tools",
            Kind::Gauge,
            "Tools embedded by the embeddings endpoint",
            vectors.embedded as u64,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_in_their_class() {
        let times = Durations::default();
        assert_eq!(times.quantile(0.5), None);
        (0..90).for_each(|_| times.add(Duration::from_micros(80)));
        (0..10).for_each(|_| times.add(Duration::from_millis(30)));
        let micros = |share| times.quantile(share).map(|time| time.as_micros());
        assert_eq!(micros(0.5), Some(77));
        assert_eq!(micros(0.9), Some(100));
        assert_eq!(micros(0.99), Some(46_000));
        times.add(Duration::from_secs(1_000));
        assert_eq!(micros(1.0), Some(300_000_000));
    }

    #[test]
    fn the_text_form() {
        let metrics = Metrics::default();
        metrics.count_search(true, Duration::from_micros(80));
        metrics.count_search(false, Duration::from_micros(80));
        let calls = metrics.server_calls("we\"ird\n");
        calls.times.add(Duration::from_millis(2));
        calls.times.add(Duration::from_millis(2));
        calls.errors.fetch_add(1, Ordering::Relaxed);
        metrics.count_rejection(RejectReason::Rate);
        assert!(RejectReason::ALL.iter().enumerate().all(|(at, (why, _))| *why as usize == at));
        metrics.count_tokens_saved(5_000, 200);
        metrics.count_tokens_saved(5_000, 200);
        metrics.count_tokens_saved(100, 200);
        let vectors = VectorSourceStatus { embedded: 7, failed: 2, ..VectorSourceStatus::default() };
        let gauges = GaugeValues {
            sessions: 3,
            tools: 40,
            servers: [("ready", 2)].into(),
            vectors: Some(vectors),
            ..GaugeValues::default()
        };
        let text = render(&metrics.families(&gauges));
        for line in [
            "pegboard_sessions 3",
            "pegboard_servers{state=\"ready\"} 2",
            "pegboard_searches_total{outcome=\"miss\"} 1",
            "pegboard_search_seconds_bucket{le=\"0.00005\"} 0",
            "pegboard_search_seconds_bucket{le=\"0.0001\"} 2",
            "pegboard_search_seconds_bucket{le=\"+Inf\"} 2",
            "pegboard_search_seconds_count 2",
            "pegboard_tokens_saved_total 9600",
            "pegboard_embedding_queries_total{outcome=\"failed\"} 2",
            "pegboard_embedded_tools 7",
            "pegboard_calls_refused_total{reason=\"arguments\"} 0",
            "pegboard_calls_refused_total{reason=\"rate\"} 1",
            "pegboard_calls_total{server=\"we\\\"ird\\n\",outcome=\"ok\"} 1",
            "pegboard_calls_total{server=\"we\\\"ird\\n\",outcome=\"error\"} 1",
            "pegboard_call_seconds_count{server=\"we\\\"ird\\n\"} 2",
        ] {
            assert!(text.lines().any(|one| one == line), "no `{line}` in:\n{text}");
        }
    }
}
