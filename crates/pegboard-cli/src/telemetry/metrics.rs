//! The metrics of `/metrics` in the format of OpenTelemetry.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::{
    tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
        metrics::v1::{
            AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
            ScopeMetrics, Sum, metric, number_data_point,
        },
        resource::v1::Resource as ResourceMessage,
    },
    transform::common::tonic::ResourceAttributesWithSchema,
};
use opentelemetry_sdk::Resource;
use pegboard_gateway::metrics::{self, Family, Kind, Point, Value};

use super::export::SCOPE;

/// All metrics at one moment.
#[derive(Debug)]
pub(super) struct MetricsSnapshot<'a> {
    pub(super) resource: &'a Resource,
    /// When counting began.
    pub(super) began: SystemTime,
    pub(super) families: &'a [Family],
}

pub(super) fn request(reading: &MetricsSnapshot<'_>) -> ExportMetricsServiceRequest {
    let resource = ResourceAttributesWithSchema::from(reading.resource);
    let span = (nanos(reading.began), nanos(SystemTime::now()));
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let metrics = reading.families.iter().filter(|family| !family.points.is_empty());
    let metrics = metrics.map(|family| metric(family, span)).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(ResourceMessage { attributes: resource.attributes.0, ..ResourceMessage::default() }),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }],
            schema_url: resource.schema_url.unwrap_or_default(),
        }],
    }
}

fn metric(family: &Family, span: (u64, u64)) -> Metric {
    let numbers = || family.points.iter().filter_map(|point| number(point, span)).collect();
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        Kind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers() }),
        Kind::Counter => metric::Data::Sum(Sum { data_points: numbers(), aggregation_temporality, is_monotonic: true }),
        Kind::Histogram => {
            let data_points = family.points.iter().filter_map(|point| histogram(point, span)).collect();
            metric::Data::Histogram(Histogram { data_points, aggregation_temporality })
        }
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: if family.name.ends_with("_seconds") { "s" } else { "1" }.to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    }
}

fn number(point: &Point, (began, now): (u64, u64)) -> Option<NumberDataPoint> {
    let Value::Number(number) = point.value else { return None };
    Some(NumberDataPoint {
        attributes: attributes(point),
        start_time_unix_nano: began,
        time_unix_nano: now,
        value: Some(number_data_point::Value::AsInt(i64::try_from(number).unwrap_or(i64::MAX))),
        ..NumberDataPoint::default()
    })
}

fn histogram(point: &Point, (began, now): (u64, u64)) -> Option<HistogramDataPoint> {
    let Value::Histogram(times) = &point.value else { return None };
    let beyond = times.count.saturating_sub(times.counts.iter().sum());
    Some(HistogramDataPoint {
        attributes: attributes(point),
        start_time_unix_nano: began,
        time_unix_nano: now,
        count: times.count,
        sum: Some(times.sum),
        bucket_counts: times.counts.iter().copied().chain([beyond]).collect(),
        explicit_bounds: metrics::Histogram::bounds().collect(),
        ..HistogramDataPoint::default()
    })
}

fn attributes(point: &Point) -> Vec<KeyValue> {
    let attribute = |(key, text): &(&str, String)| KeyValue {
        key: (*key).to_owned(),
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(text.clone())) }),
        ..KeyValue::default()
    };
    point.labels.iter().map(attribute).collect()
}

fn nanos(time: SystemTime) -> u64 {
    let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
