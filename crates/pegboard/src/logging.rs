//! The log: standard error, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

use crate::{
    cli::{LogArgs, LogFormat},
    error::CliError,
};

/// Starts logging for this process.
pub(crate) fn start(args: &LogArgs) -> Result<(), CliError> {
    let filter = EnvFilter::try_new(&args.log_level).map_err(|error| {
        CliError::new(format!("`{}` is not a log level", args.log_level))
            .because(error)
            .hint("one of error, warn, info, debug and trace, or such as `warn,pegboard_upstream=debug`")
    })?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match args.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| CliError::new(format!("cannot start the log: {error}")))
}
