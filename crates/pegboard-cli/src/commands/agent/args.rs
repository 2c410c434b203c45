//! Arguments of `pegboard agent`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};
#[cfg(feature = "code-execution")]
use pegboard_agent::shell::SandboxPolicy;
use pegboard_agent::{Approval, Mode, Prices};
use pegboard_llm::{Delivery, Provider};

use crate::{
    cli::options::{Dialect, LogArgs, ShownArgs},
    rankers::RankerName,
};

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Configuration file; a single argument is one if the file exists or ends in `.json` or
    /// `.jsonc` [default: `pegboard.json` in this folder or above, else your user configuration,
    /// else the demo]
    /// [env: PEGBOARD_CONFIG]
    #[arg(value_name = "CONFIG")]
    pub(crate) first: Option<OsString>,

    /// Prompt for the model; read from standard input if it is `-`, or if it is omitted and input
    /// is piped; if omitted on a terminal, starts a conversation
    #[arg(value_name = "PROMPT")]
    pub(crate) second: Option<OsString>,

    /// Words of a prompt that is not in quotes, for a better message
    #[arg(hide = true)]
    pub(crate) rest: Vec<OsString>,

    /// Configuration file, as a flag; a single argument is then the prompt
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    pub(crate) config: Option<PathBuf>,

    /// Use the demo instead of a configuration; a single argument is then the prompt
    #[arg(long)]
    pub(crate) demo: bool,

    /// Provider and model; the help lists the providers
    #[arg(long, value_name = "PROVIDER/MODEL", env = "PEGBOARD_MODEL", help = model_help())]
    pub(crate) model: Option<String>,

    /// How the model accesses its tools [default: auto; tool-search with `--dialect`]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ModeName>,

    /// Set of meta-tools, with which the model finds and calls tools [default: the configuration's, or bridge]
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Option<Dialect>,

    /// Ranker to use [default: the dialect's own]
    #[arg(long, value_name = "RANKER", env = "PEGBOARD_RANKER")]
    pub(crate) ranker: Option<RankerName>,

    /// How found tools are delivered to the model [default: the best that it supports]
    #[arg(long, value_name = "DELIVERY")]
    pub(crate) delivery: Option<DeliveryName>,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    /// Tool categories to list in the prompt, instead of those of the catalog
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) prompt_categories: Vec<String>,

    /// Set an option of the dialect, such as `maxToolsLimit=20`
    #[arg(long, value_name = "KEY=JSON")]
    pub(crate) set: Vec<String>,

    /// Do not send `cache_control` breakpoints to providers that need them for prompt caching
    #[arg(long)]
    pub(crate) no_prompt_cache: bool,

    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Save the conversation to this file after each step, and continue it if the file exists
    #[arg(long, value_name = "FILE")]
    pub(crate) transcript: Option<PathBuf>,

    /// Calls that need your approval
    #[arg(long, value_name = "CALLS", default_value = "destructive")]
    pub(crate) approve: ApprovalName,

    /// Calls that need no further approval, such as `github___create_issue`, `create_issue` or
    /// `files:read_*`
    #[arg(long, value_name = "TOOL", value_delimiter = ',', value_parser = parse_grant)]
    pub(crate) allow: Vec<String>,

    /// Allow every call; the same as `--approve never`
    #[arg(long, conflicts_with = "approve")]
    pub(crate) yes: bool,

    /// Maximum number of model turns per prompt [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Maximum number of tokens for the conversation, input and output
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<u64>,

    /// Maximum cost of the conversation, in the currency of `--prices`
    #[arg(long, value_name = "COST", requires = "prices", value_parser = parse_amount)]
    pub(crate) max_cost: Option<f64>,

    /// Price of a million tokens: input, output and cached input
    #[arg(long, value_name = "INPUT,OUTPUT[,CACHED]", value_parser = parse_prices)]
    pub(crate) prices: Option<Prices>,

    /// Summarize the conversation when a request exceeds this size
    #[arg(long, value_name = "TOKENS")]
    pub(crate) compact_above: Option<u64>,

    /// Write larger tool outputs to files, from which the model reads the parts it needs; 0 keeps
    /// all outputs in the conversation
    #[arg(long, value_name = "TOKENS", default_value_t = 10_000)]
    pub(crate) offload_above: usize,

    /// Folder for these files [default: `pegboard/outputs` in the user's state folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) outputs: Option<PathBuf>,

    /// Folder in which commands run in code execution mode [default: `pegboard/work` in the
    /// user's state folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) work_folder: Option<PathBuf>,

    /// State folder with the logins to remote servers; `none` uses no logins
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    /// Sandbox policy for commands in code execution mode
    #[arg(long, value_name = "POLICY", default_value = "require")]
    pub(crate) sandbox: SandboxName,

    /// Show the model's thinking, if the provider returns it
    #[arg(long)]
    pub(crate) show_thinking: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: AgentFormat,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Output format of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentFormat {
    /// The answer on standard output, everything else on standard error
    Text,
    /// One JSON object per line for each event
    Json,
}

/// A mode by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Use tool search if there are many tools or they need many tokens
    Auto,
    /// Show all tools to the model
    Normal,
    /// The model searches for tools
    ToolSearch,
    /// The model writes commands that call the tools over an HTTP API
    CodeExecution,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Auto => Self::Auto,
            ModeName::Normal => Self::Normal,
            ModeName::ToolSearch => Self::ToolSearch,
            ModeName::CodeExecution => Self::CodeExecution,
        }
    }
}

/// The calls that need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalName {
    /// None
    Never,
    /// Tools that are not annotated as read-only or non-destructive, and commands
    Destructive,
    /// Tools that are not annotated as read-only, and commands
    Writing,
    /// All
    Always,
}

impl From<ApprovalName> for Approval {
    fn from(name: ApprovalName) -> Self {
        match name {
            ApprovalName::Never => Self::Never,
            ApprovalName::Destructive => Self::Destructive,
            ApprovalName::Writing => Self::Writing,
            ApprovalName::Always => Self::Always,
        }
    }
}

/// The sandbox policy for commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxName {
    /// Run commands in the best sandbox available on this machine; if there is none, the agent
    /// does not start
    Require,
    /// Like `require`, but run commands WITHOUT a sandbox if none is available (fail open)
    Auto,
    /// Run commands without a sandbox, with all permissions of this user
    Off,
}

#[cfg(feature = "code-execution")]
impl From<SandboxName> for SandboxPolicy {
    fn from(name: SandboxName) -> Self {
        match name {
            SandboxName::Auto => Self::Auto,
            SandboxName::Require => Self::Require,
            SandboxName::Off => Self::Off,
        }
    }
}

/// A delivery by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryName(pub(crate) Delivery);

impl ValueEnum for DeliveryName {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                Self(Delivery::Inject),
                Self(Delivery::Reference),
                Self(Delivery::Native),
                Self(Delivery::ClientNative),
                Self(Delivery::Constant),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let help = match self.0 {
            Delivery::Inject => "Add found tools to the tool list of the next request",
            Delivery::Reference => "Answer a search with tool references, which keeps the provider's cache valid",
            Delivery::Native => "Send all tools and let the provider search",
            Delivery::ClientNative => "Use the provider's search protocol, but search locally",
            Delivery::Constant => "Never change the tool list",
        };
        Some(clap::builder::PossibleValue::new(self.0.as_str()).help(help))
    }
}

/// Returns the names of the providers, for messages.
pub(super) fn providers() -> String {
    Provider::ALL.map(Provider::as_str).join(", ")
}

/// Returns the help of `--model`.
fn model_help() -> String {
    let names = Provider::ALL.map(Provider::as_str);
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("Provider and model, such as `anthropic/claude-haiku-4-5`; providers are {} and {last}", others.join(", "))
}

/// Parses an allowed call. A pattern must name its server, so that it does not cover unexpected
/// tools.
fn parse_grant(text: &str) -> Result<String, String> {
    match text.split_once(':').or_else(|| text.split_once("___")) {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => Ok(text.to_owned()),
        None if !text.is_empty() && !text.contains('*') => Ok(text.to_owned()),
        _ => Err("expected the name of a tool, or SERVER:TOOL, where `*` matches any text".to_owned()),
    }
}

fn parse_amount(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("expected a non-negative number".to_owned()),
    }
}

/// Parses prices. Without a price of its own, cached input costs as much as other input.
fn parse_prices(text: &str) -> Result<Prices, String> {
    let amounts: Vec<f64> = text.split(',').map(parse_amount).collect::<Result<_, _>>()?;
    match amounts[..] {
        [input, output] => Ok(Prices { input, cached: input, output }),
        [input, output, cached] => Ok(Prices { input, cached, output }),
        _ => Err("expected two or three numbers, such as `3,15,0.3`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delivery_can_be_named() {
        let names: Vec<Delivery> = DeliveryName::value_variants().iter().map(|name| name.0).collect();
        assert_eq!(names, Delivery::ALL);
    }

    #[test]
    fn grants_name_a_tool_or_a_server_and_a_pattern() {
        for text in ["files:read_*", "files___read_*", "files___delete_file", "delete_file", "*:*"] {
            assert_eq!(parse_grant(text).as_deref(), Ok(text));
        }
        for text in ["", "*", "read_*", ":read", "files:", "files___"] {
            assert!(parse_grant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prices() {
        let check = |text: &str, expected: Option<(f64, f64, f64)>| {
            let prices = parse_prices(text).ok().map(|prices| (prices.input, prices.cached, prices.output));
            assert_eq!(prices, expected, "{text}");
        };
        check("3,15", Some((3.0, 3.0, 15.0)));
        check("3, 15, 0.3", Some((3.0, 0.3, 15.0)));
        check("0,0", Some((0.0, 0.0, 0.0)));
        for wrong in ["", "3", "3,15,1,2", "3,-15", "NaN,1", "inf,1", "a,b"] {
            check(wrong, None);
        }
    }
}
