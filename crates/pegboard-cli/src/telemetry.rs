//! Telemetry: spans and metrics for a collector. Without the feature `telemetry` nothing is sent, and a configured
//! collector is reported as an error in the log.

#[cfg(feature = "telemetry")]
mod collector;
#[cfg(feature = "telemetry")]
mod conventions;
#[cfg(not(feature = "telemetry"))]
mod disabled;
#[cfg(feature = "telemetry")]
mod export;
#[cfg(feature = "telemetry")]
mod metrics;
mod settings;

#[cfg(not(feature = "telemetry"))]
pub(crate) use self::disabled::Telemetry;
#[cfg(feature = "telemetry")]
pub(crate) use self::export::Telemetry;
pub(crate) use self::settings::TelemetryOff;
