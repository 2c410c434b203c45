//! The log: standard error, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

use crate::{
    cli::{LogArgs, LogFormat},
    error::CliError,
};

/// Starts logging for this process, at `usual` unless the user says otherwise.
pub(crate) fn start(args: &LogArgs, usual: &str) -> Result<(), CliError> {
    let level = args.log_level.as_deref().filter(|level| !level.trim().is_empty()).unwrap_or(usual);
    let filter = filter(level).ok_or_else(|| {
        CliError::new(format!("`{level}` is not a log level"))
            .hint("one of off, error, warn, info, debug and trace, or such as `warn,pegboard_upstream=debug`")
    })?;
    let is_coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match args.log_format {
        LogFormat::Text => builder.with_ansi(is_coloured).with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| CliError::new(format!("cannot start the log: {error}")))
}

/// A bare word must be a level: the filter would take it for the name of a part of us that
/// does not exist, and log nothing.
fn filter(level: &str) -> Option<EnvFilter> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_fine = |part: &str| part.contains('=') || LEVELS.contains(&part.trim().to_lowercase().as_str());
    if !level.split(',').all(is_fine) {
        return None;
    }
    EnvFilter::try_new(level).ok()
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
