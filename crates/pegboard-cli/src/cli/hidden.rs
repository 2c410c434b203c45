//! Hidden commands that the program calls itself with.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};
#[cfg(feature = "code-execution")]
use pegboard_agent::shell::confine::ConfinePart;
use pegboard_process::supervise::{self, ProcessNamespace};

/// The command line of the hidden commands. It is separate, so that help, completions, tips for
/// mistyped commands and the reference do not list them.
#[derive(Debug, Parser)]
#[command(name = "pegboard", disable_help_subcommand = true)]
pub(crate) struct HelperCli {
    #[command(subcommand)]
    pub(crate) command: Helper,
}

/// A hidden command that the program calls itself with.
#[derive(Debug, Subcommand)]
pub(crate) enum Helper {
    /// Run a server and leave no process behind
    Supervise(SuperviseArgs),
    /// Run a shell command within limits, as ordered on standard input
    #[cfg(feature = "code-execution")]
    Confine(ConfineArgs),
    /// Run a jq filter over standard input within limits
    QueryOutput(QueryOutputArgs),
}

impl Helper {
    /// Returns whether a word is the name of a hidden command.
    pub(crate) fn is_name(word: &std::ffi::OsStr) -> bool {
        ["supervise", "confine", "query-output"].iter().any(|name| word == *name)
    }
}

#[derive(Debug, Args)]
pub(crate) struct SuperviseArgs {
    /// Run the server in a process namespace
    #[arg(long, value_name = "WHETHER", value_parser = process_namespace, default_value = "off")]
    process_namespace: ProcessNamespace,

    /// Become the server, as a child of this process
    #[arg(long, value_name = "PID")]
    child_of: Option<i32>,

    /// Be the first process of a process namespace, as a child of this process
    #[arg(long, value_name = "PID")]
    init_of: Option<i32>,

    /// The same in a user namespace
    #[arg(long, value_name = "PID")]
    user_init_of: Option<i32>,

    /// Try to set up a process namespace, as a child of this process
    #[arg(long, value_name = "PID")]
    trial_of: Option<i32>,

    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

impl SuperviseArgs {
    pub(crate) fn part(&self) -> supervise::Role {
        let parts = [
            self.child_of.map(supervise::Role::Leaf),
            self.init_of.map(supervise::Role::Init),
            self.user_init_of.map(supervise::Role::UserInit),
            self.trial_of.map(supervise::Role::Trial),
        ];
        parts.into_iter().flatten().next().unwrap_or(supervise::Role::Supervisor(self.process_namespace))
    }
}

fn process_namespace(name: &str) -> Result<ProcessNamespace, String> {
    ProcessNamespace::named(name).ok_or_else(|| format!("one of: {}", ProcessNamespace::NAMES.join(", ")))
}

#[cfg(feature = "code-execution")]
#[derive(Debug, Args)]
pub(crate) struct ConfineArgs {
    /// Be the part inside the sandbox
    #[arg(long)]
    inside: bool,

    /// Create the namespaces of a sandbox
    #[arg(long, value_name = "LAYOUT", conflicts_with = "inside")]
    namespaces: Option<String>,

    /// Build the file system of a sandbox
    #[arg(long, value_name = "LAYOUT", conflicts_with_all = ["inside", "namespaces"])]
    root: Option<String>,
}

#[cfg(feature = "code-execution")]
impl ConfineArgs {
    pub(crate) fn part(self) -> ConfinePart {
        match (self.inside, self.namespaces, self.root) {
            (true, ..) => ConfinePart::Inside,
            (_, Some(layout), _) => ConfinePart::Namespaces(layout),
            (_, _, Some(layout)) => ConfinePart::Root(layout),
            _ => ConfinePart::Outside,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct QueryOutputArgs {
    /// Print each result on one line
    #[arg(long)]
    pub(crate) compact: bool,

    /// Print strings without quotes
    #[arg(long)]
    pub(crate) raw: bool,

    /// How much memory it may take
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_bytes: u64,

    /// How much processor time it may take
    #[arg(long, value_name = "SECONDS")]
    pub(crate) cpu_seconds: u64,

    /// The filter
    #[arg(value_name = "FILTER")]
    pub(crate) filter: String,
}
