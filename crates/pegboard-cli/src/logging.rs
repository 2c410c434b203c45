//! The log on standard error, as text or as JSON.

mod buffer;
mod layer;
mod line;

use std::{
    io::{IsTerminal, Write as _},
    sync::Arc,
};

use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

pub(crate) use self::buffer::LogBuffer;
use self::{
    layer::LogLayer,
    line::{LineFormat, Style},
};
use crate::{
    cli::options::{LogArgs, LogFormat},
    error::CliError,
    progress,
    telemetry::Telemetry,
};

/// The target of the lines that servers write to standard error.
const SERVER_OUTPUT: &str = "pegboard::server";

/// Starts logging for this process, at the level `usual` unless a flag sets another, and passes
/// spans to `telemetry`.
pub(crate) fn start(args: &LogArgs, usual: &str, telemetry: Option<&Telemetry>) -> Result<(), CliError> {
    start_with(args, usual, telemetry, None)
}

/// [`start`] that also buffers the most recent lines in memory, from the level `info` even if the
/// log shows less.
pub(crate) fn start_with(
    args: &LogArgs,
    usual: &str,
    telemetry: Option<&Telemetry>,
    buffer: Option<&Arc<LogBuffer>>,
) -> Result<(), CliError> {
    let level = args.log_level.as_deref().filter(|level| !level.trim().is_empty()).unwrap_or(usual);
    let filter = filter(level).ok_or_else(|| {
        CliError::new(format!("`{level}` is not a log level"))
            .hint("use off, error, warn, info, debug or trace, or a list such as `warn,pegboard_upstream=debug`")
    })?;
    let is_coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let form = match args.log_format {
        LogFormat::Text => LineFormat::Text(if is_coloured { Style::Coloured } else { Style::Plain }),
        LogFormat::Json => LineFormat::Json,
    };
    let log = LogLayer::new(form, |line: &str, _| {
        // A closed standard error is not a reason to stop.
        let _ = progress::print_above(|| std::io::stderr().write_all(line.as_bytes()));
    });
    let kept = buffer.map(|buffer| {
        let buffer = Arc::clone(buffer);
        let keep = move |line: &str, server: Option<String>| buffer.push(server, line.trim_end().to_owned());
        let filter = filter.clone().with_default(buffer_level(&filter));
        // The output of a server before it is ready is the reason if it does not become ready.
        LogLayer::new(LineFormat::Text(Style::Plain), keep)
            .with_filter(filter.with_target(SERVER_OUTPUT, LevelFilter::DEBUG))
    });
    let started = tracing_subscriber::registry()
        .with(log.with_filter(filter))
        .with(kept)
        .with(telemetry.map(Telemetry::layer))
        .try_init();
    started.map_err(|error| CliError::new(format!("cannot start logging: {error}")))
}

/// Returns the level of the buffered lines: that of the log, or `info` if that is lower.
fn buffer_level(filter: &Targets) -> LevelFilter {
    filter.default_level().unwrap_or(LevelFilter::OFF).max(LevelFilter::INFO)
}

/// Parses a filter. A bare word must be a level: the filter would take it for the name of a part of
/// the program that does not exist, and log nothing.
fn filter(level: &str) -> Option<Targets> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_fine = |part: &str| part.contains('=') || LEVELS.contains(&part.trim().to_lowercase().as_str());
    if !level.split(',').all(is_fine) {
        return None;
    }
    level.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        for good in ["info", "WARN", "off", "warn,pegboard_upstream=debug"] {
            assert!(filter(good).is_some(), "{good}");
        }
        for bad in ["nonsense", "info,nonsense", "a=b"] {
            assert!(filter(bad).is_none(), "{bad}");
        }
    }
}
