//! Options that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValue};
use pegboard_discovery::{DialectName, Settings};
use serde_json::Value;

use crate::{error::CliError, source::ConfigArgs};

/// Where tools come from.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// Catalog file: an MCP `tools/list` result, a JSON array of tools, JSON Lines, or OpenAPI 3
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) catalog: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// Maximum size of a catalog file
    #[arg(long, value_name = "BYTES", default_value_t = pegboard_core::LoadLimits::default().file_bytes)]
    pub(crate) max_catalog_bytes: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model file for the `hybrid` ranker [default: the built-in model]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

/// Options that restrict which tools a model sees.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Show the tools of these servers; without this and `--tools`, all tools are shown
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,

    /// Show these tools, in addition to `--servers`: `server:tool`, `server:*` or a name
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,

    /// Hide these servers or tools
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) deny: Vec<String>,

    /// Tools that are visible from the start
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) pre_discovered: Vec<String>,
}

/// A dialect by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect(pub(crate) DialectName);

impl ValueEnum for Dialect {
    fn value_variants<'a>() -> &'a [Self] {
        const NAMES: [Dialect; DialectName::ALL.len()] = {
            let mut names = [Dialect(DialectName::ALL[0]); DialectName::ALL.len()];
            let mut at = 0;
            while at < names.len() {
                names[at] = Dialect(DialectName::ALL[at]);
                at += 1;
            }
            names
        };
        &NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            DialectName::Explicit => "Search, then add by name",
            DialectName::Gateway => "A few tools up front, and a search that exposes its hits",
            DialectName::Select => "A search that loads its matches",
            DialectName::Ranked => "A search that only ranks",
            DialectName::Schema => "A search that loads and returns schemas",
            DialectName::Bridge => "Ready-to-call signatures and one call tool",
            DialectName::Code => "HTTP API specs, and a shell to call the API from",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Output format [default: text on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT", env = "PEGBOARD_FORMAT")]
    pub(crate) format: Option<Format>,
}

/// [`OutputArgs`] of commands that print text by default even if the output is piped.
#[derive(Debug, Args)]
pub(crate) struct PlainOutputArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", env = "PEGBOARD_FORMAT", default_value = "text")]
    format: Format,
}

impl PlainOutputArgs {
    /// Returns the requested format, or text.
    pub(crate) fn format(&self) -> Format {
        self.format
    }
}

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON document
    Json,
    /// Human-readable text
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log level: off, error, warn, info, debug, trace, or a list such as
    /// `warn,pegboard::server=info` [default: info; error for `catalog`,
    /// `error,pegboard_llm::embeddings=warn` for `agent`, off for `doctor`]
    #[arg(long, value_name = "LEVEL", env = "PEGBOARD_LOG")]
    pub(crate) log_level: Option<String>,

    /// Log format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// Output format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}

/// Sets options of the dialects from `KEY=JSON` pairs; a value that is not JSON is a string.
pub(crate) fn set_all(settings: &mut Settings, pairs: &[String]) -> Result<(), CliError> {
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CliError::new(format!("`{pair}` is not in the form KEY=JSON"))
                .hint("for example `--set maxToolsLimit=20`"));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        settings.set(key, &value).map_err(|error| CliError::new(error.to_string()))?;
    }
    Ok(())
}
