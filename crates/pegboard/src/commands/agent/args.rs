//! What can be said on the command line of `pegboard agent`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};
use pegboard_agent::{Approval, Mode, Prices, shell::SandboxPolicy};
use pegboard_discovery::HostTool;
use pegboard_llm::{Delivery, Provider};

use crate::{
    cli::options::{Dialect, LogArgs, ShownArgs},
    rankers::RankerName,
};

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The configuration, if this is a file or ends in `.json` or `.jsonc`, or if a PROMPT
    /// follows [default: `pegboard.json` in this folder or above, else your own, else the demo]
    /// [env: PEGBOARD_CONFIG]
    #[arg(value_name = "CONFIG")]
    pub(crate) first: Option<OsString>,

    /// What to say to the model; `-`, or nothing where input is piped, reads it from standard
    /// input; nothing on a terminal asks for it, line by line
    #[arg(value_name = "PROMPT")]
    pub(crate) second: Option<OsString>,

    /// Use the demo, whatever configuration there is
    #[arg(long)]
    pub(crate) demo: bool,

    /// Who is asked, such as `anthropic/claude-haiku-4-5`; providers are anthropic, openai,
    /// openai-responses, gemini, minimax and minimax-chat
    #[arg(long, value_name = "PROVIDER/MODEL", env = "PEGBOARD_MODEL")]
    pub(crate) model: Option<String>,

    /// How the model gets at its tools [default: auto; tool-search with `--dialect`]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ModeName>,

    /// The family of meta-tools [default: the configuration's, or bridge]
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect: Option<Dialect>,

    /// How to rank, instead of the dialect's own way
    #[arg(long, value_name = "RANKER", env = "PEGBOARD_RANKER")]
    pub(crate) ranker: Option<RankerName>,

    /// How the model is told of tools that were found [default: the best way that it knows]
    #[arg(long, value_name = "DELIVERY")]
    pub(crate) delivery: Option<DeliveryName>,

    #[command(flatten)]
    pub(crate) shown: ShownArgs,

    /// What the prompt says there is, instead of what the catalog tells
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) prompt_categories: Vec<String>,

    /// An option of the dialect, such as `maxToolsLimit=20`
    #[arg(long, value_name = "KEY=JSON")]
    pub(crate) set: Vec<String>,

    /// Send no `cache_control` breakpoints to providers that cache only what is marked
    #[arg(long)]
    pub(crate) no_prompt_cache: bool,

    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Keep the conversation in this file, step by step, and go on with what is in it
    #[arg(long, value_name = "FILE")]
    pub(crate) transcript: Option<PathBuf>,

    /// Which calls need your consent
    #[arg(long, value_name = "CALLS", default_value = "destructive")]
    pub(crate) approve: ApprovalName,

    /// Calls that need no further consent, such as `github:create_issue` or `files:read_*`
    #[arg(long, value_name = "SERVER:TOOL", value_delimiter = ',', value_parser = parse_grant)]
    pub(crate) allow: Vec<String>,

    /// Allow every call; the same as `--approve never`
    #[arg(long, conflicts_with = "approve")]
    pub(crate) yes: bool,

    /// Turns that the model may take for one prompt [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,

    /// Tokens, read and written, that the conversation may take
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<u64>,

    /// What the conversation may cost, in the currency of `--prices`
    #[arg(long, value_name = "COST", requires = "prices", value_parser = parse_amount)]
    pub(crate) max_cost: Option<f64>,

    /// What a million tokens cost: read, written, and read from the cache
    #[arg(long, value_name = "INPUT,OUTPUT[,CACHED]", value_parser = parse_prices)]
    pub(crate) prices: Option<Prices>,

    /// Sum the conversation up when a request has become larger than this
    #[arg(long, value_name = "TOKENS")]
    pub(crate) compact_above: Option<u64>,

    /// Put outputs that are larger than this into files, from which the model reads what it
    /// needs; 0 keeps everything in the conversation
    #[arg(long, value_name = "TOKENS", default_value_t = 10_000)]
    pub(crate) offload_above: usize,

    /// Where these files are [default: `pegboard/outputs` in your folder for state]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) outputs: Option<PathBuf>,

    /// Where commands run, in code execution mode [default: `pegboard/work` in your folder
    /// for state]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) work_folder: Option<PathBuf>,

    /// Where logins to remote servers are kept; `none` uses none [default: `pegboard` in your
    /// folder for state]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(crate) state: Option<String>,

    /// Whether these commands have to run in a sandbox
    #[arg(long, value_name = "POLICY", default_value = "require")]
    pub(crate) sandbox: SandboxName,

    /// Show what the model thinks, where it tells
    #[arg(long)]
    pub(crate) show_thinking: bool,

    /// How to print what happens
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: AgentFormat,

    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// How a run is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentFormat {
    /// The answer, and the rest on standard error
    Text,
    /// One JSON object for each event, a line each
    Json,
}

/// A mode by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Search when there are many tools or they cost much
    Auto,
    /// All tools are visible
    Normal,
    /// Tools are found by searching
    ToolSearch,
    /// Tools are an HTTP API for commands that the model writes
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

/// Which calls need consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalName {
    /// None
    Never,
    /// Those that may delete or overwrite as far as they do not say otherwise, and commands
    Destructive,
    /// Those that do not say that they change nothing
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

/// Whether commands have to run in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxName {
    /// Commands run in the best sandbox that works on this machine; without one the agent does
    /// not start
    Require,
    /// Like `require`, but where no sandbox works, commands run WITHOUT one (fail open)
    Auto,
    /// Commands run without a sandbox, with all that this user may do
    Off,
}

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
            Delivery::Inject => "Found tools join the list of the next request",
            Delivery::Reference => "A search is answered with references, which leaves the provider's cache whole",
            Delivery::Native => "All tools are sent, and the provider searches",
            Delivery::ClientNative => "The provider's own search, carried out here",
            Delivery::Constant => "The list never changes",
        };
        Some(clap::builder::PossibleValue::new(self.0.as_str()).help(help))
    }
}

/// The names of the providers, for people.
pub(super) fn providers() -> String {
    Provider::ALL.map(Provider::as_str).join(", ")
}

/// Only commands have no server.
fn parse_grant(text: &str) -> Result<String, String> {
    let is_command = text == HostTool::ExecuteShellCommand.name();
    match text.split_once(':') {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => Ok(text.to_owned()),
        None if is_command => Ok(text.to_owned()),
        _ => Err("SERVER:TOOL is expected, where `*` stands for any text; or `execute_shell_command`".to_owned()),
    }
}

fn parse_amount(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("a number that is not negative is expected".to_owned()),
    }
}

/// Without a price of its own, what comes from the cache costs as much as the rest.
fn parse_prices(text: &str) -> Result<Prices, String> {
    let amounts: Vec<f64> = text.split(',').map(parse_amount).collect::<Result<_, _>>()?;
    match amounts[..] {
        [input, output] => Ok(Prices { input, cached: input, output }),
        [input, output, cached] => Ok(Prices { input, cached, output }),
        _ => Err("two or three numbers are expected, such as `3,15,0.3`".to_owned()),
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
