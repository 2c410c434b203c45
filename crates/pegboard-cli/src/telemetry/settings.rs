//! Settings of telemetry from environment variables and the configuration.

use std::time::Duration;

use pegboard_config::{keys::Lookup, web::is_url};
use pegboard_core::Secret;

use crate::config::telemetry::{PROTOCOL, TelemetryConfig};

const DISABLED: &str = "OTEL_SDK_DISABLED";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const FORM: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
const METRIC_INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";

/// The reason why nothing is exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryOff {
    /// Telemetry is not configured.
    #[error("no collector is configured")]
    Unwanted,
    /// A variable asks for something that is not supported.
    #[error("`{variable}` is `{value}`, which must be {fits}")]
    Variable { variable: &'static str, value: String, fits: &'static str },
    /// A header is invalid; only its name is shown.
    #[error("`{0}` is not a valid header name, or its value is invalid")]
    Header(String),
    #[cfg(feature = "telemetry")]
    #[error("cannot create an HTTP client")]
    Http(#[source] reqwest::Error),
    #[cfg(not(feature = "telemetry"))]
    #[error("this program was built without the feature `telemetry`")]
    NotBuilt,
}

impl TelemetryOff {
    /// Logs the reason, unless telemetry is not configured.
    pub(crate) fn log(&self) {
        if !matches!(self, Self::Unwanted) {
            tracing::warn!(error = pegboard_upstream::with_causes(self), "telemetry disabled");
        }
    }
}

/// The settings that apply.
#[derive(Debug)]
#[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "checked, but not used"))]
pub(super) struct Settings {
    pub(super) endpoint: String,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) service_name: String,
    pub(super) sampling_ratio: f64,
    pub(super) metrics_interval: Duration,
}

impl Settings {
    /// Combines variables and the file; variables take precedence, and empty ones are ignored.
    ///
    /// # Errors
    /// If nothing is to be exported, or a variable is invalid.
    pub(super) fn resolve(config: &TelemetryConfig, variable: Lookup<'_>) -> Result<Self, TelemetryOff> {
        let find = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if find(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Err(TelemetryOff::Unwanted);
        }
        let endpoint = find(ENDPOINT).or_else(|| config.endpoint.clone()).ok_or(TelemetryOff::Unwanted)?;
        if !is_url(&endpoint) {
            let fits = "a URL that begins with `http://` or `https://`";
            return Err(TelemetryOff::Variable { variable: ENDPOINT, value: endpoint, fits });
        }
        if let Some(value) = find(FORM).filter(|form| form != PROTOCOL) {
            return Err(TelemetryOff::Variable { variable: FORM, value, fits: "`http/protobuf`" });
        }
        let headers = match find(HEADERS) {
            Some(text) => read_headers(&text)?,
            None => config.headers.clone(),
        };
        let sampling_ratio = read(&find, SAMPLER_ARG, "a number from 0 to 1", |text| {
            text.parse().ok().filter(|share| (0.0..=1.0).contains(share))
        })?;
        let metrics_interval = read(&find, METRIC_INTERVAL, "a whole number of milliseconds", |text| {
            text.parse().ok().map(Duration::from_millis)
        })?;
        Ok(Self {
            endpoint,
            headers,
            service_name: find(SERVICE_NAME).unwrap_or_else(|| config.service_name.clone()),
            sampling_ratio: sampling_ratio.unwrap_or(config.sampling_ratio),
            metrics_interval: metrics_interval.unwrap_or(config.metrics_interval),
        })
    }
}

/// Parses a variable that is set and not empty.
fn read<T>(
    find: &impl Fn(&str) -> Option<String>,
    variable: &'static str,
    fits: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, TelemetryOff> {
    let Some(value) = find(variable) else { return Ok(None) };
    match parse(&value) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(TelemetryOff::Variable { variable, value, fits }),
    }
}

/// Parses `name=value,name=value`, with percent-encoded values.
fn read_headers(text: &str) -> Result<Vec<(String, Secret)>, TelemetryOff> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let read = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        let value = pair.split_once('=').map(|(_, value)| percent_decode(value.trim()));
        // A part without a name may be the secret itself.
        let value =
            value.flatten().filter(|_| !name.is_empty()).ok_or_else(|| TelemetryOff::Header(HEADERS.to_owned()))?;
        Ok((name.to_owned(), Secret::new(value)))
    };
    pairs.map(read).collect()
}

/// Decodes percent-encoding: `%41` is `A`.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let escaped = (*first == b'%').then(|| behind.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        if escaped.is_some() {
            rest = &behind[2..];
        }
        bytes.push(escaped.unwrap_or(*first));
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: &str) {
        let config = TelemetryConfig {
            headers: vec![("from".to_owned(), Secret::new("file".to_owned()))],
            ..TelemetryConfig::default()
        };
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let shown = match Settings::resolve(&config, &find) {
            Ok(settings) => {
                let headers: Vec<String> =
                    settings.headers.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
                let (ratio, interval) = (settings.sampling_ratio, settings.metrics_interval);
                format!("{} {headers:?} {} {ratio} {interval:?}", settings.endpoint, settings.service_name)
            }
            Err(off) => off.to_string(),
        };
        assert_eq!(shown, expected, "{variables:?}");
    }

    #[test]
    fn variables_count_more_than_the_file() {
        let endpoint = (ENDPOINT, "http://collector:4318");
        check(&[], "no collector is configured");
        check(&[(ENDPOINT, " ")], "no collector is configured");
        check(&[endpoint], "http://collector:4318 [\"from=file\"] pegboard 1 60s");
        check(&[endpoint, (DISABLED, "TRUE")], "no collector is configured");
        check(
            &[
                endpoint,
                (HEADERS, "a=b%20c, authorization=Bearer x=y,,"),
                (SERVICE_NAME, "gate"),
                (SAMPLER_ARG, "0.25"),
                (METRIC_INTERVAL, "1500"),
            ],
            "http://collector:4318 [\"a=b c\", \"authorization=Bearer x=y\"] gate 0.25 1.5s",
        );
        check(
            &[(ENDPOINT, "collector:4318")],
            "`OTEL_EXPORTER_OTLP_ENDPOINT` is `collector:4318`, which must be a URL that begins with `http://` or \
             `https://`",
        );
        check(&[endpoint, (FORM, "grpc")], "`OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`, which must be `http/protobuf`");
        check(&[endpoint, (SAMPLER_ARG, "2")], "`OTEL_TRACES_SAMPLER_ARG` is `2`, which must be a number from 0 to 1");
        check(
            &[endpoint, (HEADERS, "secret")],
            "`OTEL_EXPORTER_OTLP_HEADERS` is not a valid header name, or its value is invalid",
        );
    }

    #[test]
    fn percent_signs() {
        for (text, expected) in
            [("a%41%e4%bd%a0", Some("aA你")), ("50%", Some("50%")), ("%zz", Some("%zz")), ("%ff", None)]
        {
            assert_eq!(percent_decode(text).as_deref(), expected, "{text}");
        }
    }
}
