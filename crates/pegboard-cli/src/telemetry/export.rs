//! Spans and metrics, sent to a collector by OpenTelemetry's protocol.
//!
//! The SDK gathers spans and sends them in batches from a thread of its own. What is sent and
//! how is ours: names as the semantic conventions have them, both kinds of telemetry over the
//! HTTP client that is here already, the numbers of `/metrics` as they are. The SDK's exporter
//! crate would bring a client, metrics and settings of its own beside these.

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
    Off,
    collector::{Collector, Spans},
    metrics::Reading,
    settings::Settings,
};
use crate::config::telemetry::TelemetryConfig;

/// What all of this is called among what is collected.
pub(super) const SCOPE: &str = "pegboard";

/// Spans that wait to be sent; further ones are dropped.
const QUEUE: usize = 8192;

/// How long the last of it may take to be sent when we end.
const LAST: Duration = Duration::from_secs(3);

/// Telemetry that is sent to a collector.
#[derive(Debug)]
pub(crate) struct Telemetry {
    provider: SdkTracerProvider,
    collector: Arc<Collector>,
    resource: Resource,
    metrics_interval: Duration,
    began: SystemTime,
}

/// Takes the spans out of what is logged.
pub(crate) type SpanLayer<S> = Filtered<OpenTelemetryLayer<S, SdkTracer>, FilterFn, S>;

impl Telemetry {
    /// Telemetry as the variables and the configuration say.
    ///
    /// # Errors
    /// When there is none, or it cannot be sent.
    pub(crate) fn new(config: &TelemetryConfig, runtime: &Handle) -> Result<Self, Off> {
        let settings = Settings::resolve(config, &|name| std::env::var(name).ok())?;
        let collector = Arc::new(Collector::new(&settings, runtime)?);
        let resource = Resource::builder()
            .with_service_name(settings.service_name)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let batches = BatchConfigBuilder::default().with_max_queue_size(QUEUE).build();
        let spans = BatchSpanProcessor::builder(Spans::new(&collector)).with_batch_config(batches).build();
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sampling_ratio)));
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_sampler(sampler)
            .with_span_processor(spans)
            .build();
        let metrics_interval = settings.metrics_interval;
        Ok(Self { provider, collector, resource, metrics_interval, began: SystemTime::now() })
    }

    /// The layer that takes the spans. Events are for the log: they may hold anything.
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

    /// Sends the numbers of a gateway now and then, for as long as it lives.
    pub(crate) fn follow(&self, gateway: &Arc<Gateway>) {
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
                collector.send_numbers(&Reading { resource: &resource, began, families: &families }).await;
            }
        });
    }

    /// Sends what is left, and does not wait for it for long.
    pub(crate) async fn stop(self, gateway: Option<&Arc<Gateway>>) {
        let Self { provider, collector, resource, metrics_interval, began } = self;
        let spans = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST));
        let numbers = async {
            let Some(gateway) = gateway.filter(|_| !metrics_interval.is_zero()) else { return };
            let families = gateway.metric_families();
            let reading = Reading { resource: &resource, began, families: &families };
            let _ = tokio::time::timeout(LAST, collector.send_numbers(&reading)).await;
        };
        // A collector that is away was warned of; what it misses is lost.
        let _ = tokio::join!(spans, numbers);
    }
}
