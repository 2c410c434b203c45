//! The collector, and the requests to it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{SpanData, SpanExporter},
};
use prost::Message as _;
use reqwest::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use tokio::runtime::Handle;

use super::{
    conventions,
    metrics::{self, MetricsSnapshot},
    settings::{Settings, TelemetryOff},
};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An error of a request to the collector.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("cannot reach the collector")]
    Unreachable(#[source] reqwest::Error),
    #[error("the collector answered with HTTP status {0}")]
    Refused(StatusCode),
}

/// The collector that receives the telemetry.
pub(super) struct Collector {
    client: reqwest::Client,
    endpoint: String,
    headers: HeaderMap,
    /// The SDK sends from a thread of its own, on which no request can be made.
    runtime: Handle,
    /// Whether the last request failed.
    is_unreachable: AtomicBool,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Collector {
    pub(super) fn new(settings: &Settings, runtime: &Handle) -> Result<Self, TelemetryOff> {
        // Chosen once for the process; a second choice of the same is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let wrong = || TelemetryOff::Header(name.clone());
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.append(key, value);
        }
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // Headers may hold secrets, which are for this address alone.
            .redirect(Policy::none())
            .user_agent(concat!("pegboard/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(TelemetryOff::Http)?;
        let endpoint = settings.endpoint.trim_end_matches('/').to_owned();
        Ok(Self { client, endpoint, headers, runtime: runtime.clone(), is_unreachable: AtomicBool::new(false) })
    }

    /// Sends metrics.
    pub(super) async fn send_metrics(&self, reading: &MetricsSnapshot<'_>) {
        let body = metrics::request(reading).encode_to_vec();
        self.send("/v1/metrics", body).await;
    }

    /// Sends a request and returns whether it was accepted. Data that is not accepted is dropped:
    /// an unreachable collector must not cost memory, and is logged once.
    async fn send(&self, path: &str, body: Vec<u8>) -> bool {
        let request = self.client.post(format!("{}{path}", self.endpoint)).headers(self.headers.clone());
        let sent = request.header(CONTENT_TYPE, "application/x-protobuf").body(body).send().await;
        let outcome = match sent {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(SendError::Refused(response.status())),
            // An address may hold a secret.
            Err(error) => Err(SendError::Unreachable(error.without_url())),
        };
        let was_away = self.is_unreachable.swap(outcome.is_err(), Ordering::Relaxed);
        match &outcome {
            Ok(()) if was_away => tracing::info!("telemetry export recovered"),
            Err(error) if !was_away => {
                tracing::warn!(error = pegboard_upstream::with_causes(error), "telemetry export failed, batch dropped");
            }
            _ => {}
        }
        outcome.is_ok()
    }
}

/// The exporter of spans.
#[derive(Debug)]
pub(super) struct SpanSender {
    collector: Arc<Collector>,
    resource: ResourceAttributesWithSchema,
}

impl SpanSender {
    pub(super) fn new(collector: &Arc<Collector>) -> Self {
        Self { collector: Arc::clone(collector), resource: ResourceAttributesWithSchema::default() }
    }
}

impl SpanExporter for SpanSender {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.into_iter().map(conventions::to_conventions).collect();
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let collector = Arc::clone(&self.collector);
        let sending = self.collector.runtime.spawn(async move { collector.send("/v1/traces", body).await });
        match sending.await {
            Ok(true) => Ok(()),
            _ => Err(OTelSdkError::InternalFailure("not sent".to_owned())),
        }
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}
