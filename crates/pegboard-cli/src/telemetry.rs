//! Telemetry: spans and metrics for a collector. Without the feature `telemetry` nothing is sent, and a configured
//! collector is reported as an error in the log.

#[cfg(not(feature = "telemetry"))]
mod absent;
#[cfg(feature = "telemetry")]
mod collector;
#[cfg(feature = "telemetry")]
mod export;
#[cfg(feature = "telemetry")]
mod names;
#[cfg(feature = "telemetry")]
mod numbers;
mod settings;

#[cfg(not(feature = "telemetry"))]
pub(crate) use self::absent::Telemetry;
#[cfg(feature = "telemetry")]
pub(crate) use self::export::Telemetry;
pub(crate) use self::settings::Off;
