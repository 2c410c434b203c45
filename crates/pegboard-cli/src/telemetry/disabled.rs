//! Telemetry in a build without the feature `telemetry`.

use std::{convert::Infallible, sync::Arc};

use pegboard_gateway::Gateway;
use tokio::runtime::Handle;
use tracing_subscriber::layer::Identity;

use super::{TelemetryOff, settings::Settings};
use crate::config::telemetry::TelemetryConfig;

/// The exporter, of which there is never an instance.
#[derive(Debug)]
pub(crate) struct Telemetry(Infallible);

impl Telemetry {
    /// Returns why nothing is sent.
    pub(crate) fn new(config: &TelemetryConfig, _runtime: &Handle) -> Result<Self, TelemetryOff> {
        Settings::resolve(config, &|name| std::env::var(name).ok())?;
        Err(TelemetryOff::NotBuilt)
    }

    pub(crate) fn layer(&self) -> Identity {
        match self.0 {}
    }

    pub(crate) fn export_metrics(&self, _gateway: &Arc<Gateway>) {
        match self.0 {}
    }

    pub(crate) async fn stop(self, _gateway: Option<&Arc<Gateway>>) {
        match self.0 {}
    }
}
