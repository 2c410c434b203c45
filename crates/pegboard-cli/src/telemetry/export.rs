//! Export of spans and metrics to a collector over OTLP.
//!
//! The SDK collects spans and sends them in batches from a thread of its own. Pegboard defines the
//! content: names of the semantic conventions, both kinds of telemetry over the HTTP client that is
//! linked already, and the numbers of `/metrics` unchanged. The SDK's exporter crate would bring a
//! client, metrics and settings of its own beside these.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider},
};
use pegboard_gateway::Gateway;
use tokio::runtime::Handle;
use tracing::{Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::{
    Layer,
    filter::{FilterFn, Filtered, filter_fn},
    registry::LookupSpan,
};

use super::{
    TelemetryOff,
    collector::{Collector, SpanSender},
    metrics::MetricsSnapshot,
    settings::Settings,
};
use crate::config::telemetry::TelemetryConfig;

/// The name of the instrumentation scope.
pub(super) const SCOPE: &str = "pegboard";

/// Maximum number of spans that wait to be sent; further ones are dropped.
const QUEUE: usize = 8192;

/// Timeout of the last export at the end of the program.
const LAST: Duration = Duration::from_secs(3);

/// The exporter of telemetry to a collector.
#[derive(Debug)]
pub(crate) struct Telemetry {
    provider: SdkTracerProvider,
    collector: Arc<Collector>,
    resource: Resource,
    metrics_interval: Duration,
    began: SystemTime,
}

/// The layer that passes spans to the exporter.
pub(crate) type SpanLayer<S> = Filtered<OpenTelemetryLayer<S, SdkTracer>, FilterFn, S>;

impl Telemetry {
    /// Starts the exporter with the settings of the environment and the configuration.
    ///
    /// # Errors
    /// If telemetry is off or its settings are invalid.
    pub(crate) fn new(config: &TelemetryConfig, runtime: &Handle) -> Result<Self, TelemetryOff> {
        let settings = Settings::resolve(config, &|name| std::env::var(name).ok())?;
        let collector = Arc::new(Collector::new(&settings, runtime)?);
        let resource = Resource::builder()
            .with_service_name(settings.service_name)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let batches = BatchConfigBuilder::default().with_max_queue_size(QUEUE).build();
        let spans = BatchSpanProcessor::builder(SpanSender::new(&collector)).with_batch_config(batches).build();
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sampling_ratio)));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_sampler(sampler)
            .with_span_processor(spans)
            .build();
        let metrics_interval = settings.metrics_interval;
        Ok(Self { provider, collector, resource, metrics_interval, began: SystemTime::now() })
    }

    /// Returns the layer that collects the spans. Events are for the log: they may contain
    /// anything.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> SpanLayer<S> {
        let is_ours: fn(&Metadata<'_>) -> bool = |metadata| metadata.is_span() && metadata.target().starts_with(SCOPE);
        OpenTelemetryLayer::new(self.provider.tracer(SCOPE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_ours))
    }

    /// Exports the metrics of a gateway at intervals, for as long as it exists.
    pub(crate) fn export_metrics(&self, gateway: &Arc<Gateway>) {
        if self.metrics_interval.is_zero() {
            return;
        }
        let (gateway, collector) = (Arc::downgrade(gateway), Arc::clone(&self.collector));
        let (resource, began, interval) = (self.resource.clone(), self.began, self.metrics_interval);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(gateway) = gateway.upgrade() else { return };
                let families = gateway.metric_families();
                drop(gateway);
                collector.send_metrics(&MetricsSnapshot { resource: &resource, began, families: &families }).await;
            }
        });
    }

    /// Exports what is left, with a short timeout.
    pub(crate) async fn stop(self, gateway: Option<&Arc<Gateway>>) {
        let Self { provider, collector, resource, metrics_interval, began } = self;
        let spans = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST));
        let numbers = async {
            let Some(gateway) = gateway.filter(|_| !metrics_interval.is_zero()) else { return };
            let families = gateway.metric_families();
            let reading = MetricsSnapshot { resource: &resource, began, families: &families };
            let _ = tokio::time::timeout(LAST, collector.send_metrics(&reading)).await;
        };
        // A collector that is away was warned of; what it misses is lost.
        let _ = tokio::join!(spans, numbers);
    }
}
