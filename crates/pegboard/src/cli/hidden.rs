//! The arguments of the commands that the program calls itself with; no help lists them.

use std::ffi::OsString;

use clap::Args;
use pegboard_agent::shell::confine::Part;

#[derive(Debug, Args)]
pub(crate) struct SuperviseArgs {
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

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

impl ConfineArgs {
    pub(crate) fn part(self) -> Part {
        match (self.inside, self.namespaces, self.root) {
            (true, ..) => Part::Inside,
            (_, Some(layout), _) => Part::Namespaces(layout),
            (_, _, Some(layout)) => Part::Root(layout),
            _ => Part::Outside,
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
