//! `telemetry`: the export of traces and metrics.

use std::time::Duration;

use pegboard_config::{
    keys::{Key, Kind, Section, Shape},
    web::{HEADERS, URL, read_header_map, read_url},
};
use pegboard_core::Secret;

/// The only supported export protocol.
pub(crate) const PROTOCOL: &str = "http/protobuf";

/// The telemetry settings of the file; environment variables take precedence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TelemetryConfig {
    /// The collector; without one nothing is exported.
    pub(crate) endpoint: Option<String>,
    /// The headers of every export request.
    pub(crate) headers: Vec<(String, Secret)>,
    /// The service name of the exported data.
    pub(crate) service_name: String,
    /// The sampled share of the traces that begin here.
    pub(crate) sampling_ratio: f64,
    /// The interval of metrics exports; zero exports none.
    pub(crate) metrics_interval: Duration,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: Vec::new(),
            service_name: "pegboard".to_owned(),
            sampling_ratio: 1.0,
            metrics_interval: Duration::from_secs(60),
        }
    }
}

pub(super) fn shape() -> Shape {
    SECTION.shape()
}

pub(super) static SECTION: Section<TelemetryConfig> = Section::new(
    "telemetry",
    "Export of traces and metrics with OpenTelemetry (OTLP). The standard environment variables take precedence: \
     `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER_ARG`, \
     `OTEL_METRIC_EXPORT_INTERVAL`, and `OTEL_SDK_DISABLED=true`, which disables the export. Arguments, results and \
     queries are never sent.",
    KEYS,
);

const KEYS: &[Key<TelemetryConfig>] = &[
    Key::new(
        "endpoint",
        URL,
        "URL of the collector, such as `http://127.0.0.1:4318`; `/v1/traces` and `/v1/metrics` are appended. Without \
         it, nothing is exported.",
        |node, telemetry: &mut TelemetryConfig, scope| telemetry.endpoint = read_url(node, scope).map(|url| url.text),
    ),
    Key::new("protocol", Kind::OneOf(&[PROTOCOL]), "OTLP protocol.", |node, _, scope| {
        let _ = node.as_one_of(&[PROTOCOL], scope.problems);
    })
    .default("\"http/protobuf\""),
    Key::new(
        "headers",
        HEADERS,
        "Headers to send with every request to the collector; use `${VARIABLE}` to keep secrets out of the file.",
        |node, telemetry: &mut TelemetryConfig, scope| {
            telemetry.headers = read_header_map(node, &mut Vec::new(), scope);
        },
    )
    .default("{}"),
    Key::new(
        "serviceName",
        Kind::Word,
        "Service name of Pegboard in traces and metrics.",
        |node, telemetry: &mut TelemetryConfig, scope| {
            if let Some(name) = node.as_non_blank(scope.problems) {
                telemetry.service_name = name.to_owned();
            }
        },
    )
    .default("\"pegboard\""),
    Key::new(
        "samplingRatio",
        Kind::Share,
        "Share of traces to export, for traces that start here; for others, the client's sampling decision applies.",
        |node, telemetry: &mut TelemetryConfig, scope| {
            telemetry.sampling_ratio = node.as_fraction(scope.problems).unwrap_or(telemetry.sampling_ratio);
        },
    )
    .default("1"),
    Key::new(
        "metricsInterval",
        Kind::Duration { may_be_zero: true },
        "Interval at which the metrics of `/metrics` are exported; 0 disables it.",
        |node, telemetry: &mut TelemetryConfig, scope| {
            let time = node.as_duration(true, scope.problems);
            telemetry.metrics_interval = time.unwrap_or(telemetry.metrics_interval);
        },
    )
    .default("\"60s\""),
];
