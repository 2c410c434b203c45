//! Tools that the host itself carries out: their names, definitions and texts. The host implements
//! them.

pub mod arguments;
pub mod code;
pub mod offers;
pub mod outputs;
pub mod results;

use pegboard_core::{Annotations, Origin, RawTool, Tool};
use serde_json::{Value, value::to_raw_value};

use crate::outcome::ToolDefinition;

/// A tool that the host carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostTool {
    /// Reads, searches or queries an offloaded output.
    SearchLargeOutput,
    /// Reads a range of an offloaded output.
    ReadLargeOutput,
    /// Queries an offloaded JSON output.
    QueryLargeOutput,
    /// Describes the tools as an HTTP API.
    GetApiSpec,
    /// Runs a command that may call that API.
    ExecuteShellCommand,
    /// Fetches a prompt of a server.
    GetPrompt,
    /// Reads a resource of a server.
    GetResource,
    /// Asks the person.
    AskHuman,
}

impl HostTool {
    /// All host tools.
    pub const ALL: [Self; 8] = [
        Self::SearchLargeOutput,
        Self::ReadLargeOutput,
        Self::QueryLargeOutput,
        Self::GetApiSpec,
        Self::ExecuteShellCommand,
        Self::GetPrompt,
        Self::GetResource,
        Self::AskHuman,
    ];

    /// The tools that read offloaded outputs.
    pub const OUTPUTS: [Self; 3] = [Self::SearchLargeOutput, Self::ReadLargeOutput, Self::QueryLargeOutput];

    /// The tools that fetch prompts and resources of servers.
    pub const OFFERS: [Self; 2] = [Self::GetPrompt, Self::GetResource];

    /// Returns the name that models call it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::SearchLargeOutput => "search_large_output",
            Self::ReadLargeOutput => "read_large_output",
            Self::QueryLargeOutput => "query_large_output",
            Self::GetApiSpec => "get_api_spec",
            Self::ExecuteShellCommand => "execute_shell_command",
            Self::GetPrompt => "get_prompt",
            Self::GetResource => "get_resource",
            Self::AskHuman => "ask_human",
        }
    }

    /// Returns the tool with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Returns whether a tool of the catalog is one of [`OUTPUTS`](Self::OUTPUTS).
    pub fn is_reader(tool: &Tool) -> bool {
        tool.is_own() && Self::OUTPUTS.iter().any(|reader| reader.name() == tool.name())
    }

    /// Returns whether a tool of the catalog is a host tool rather than the user's.
    pub fn is_host_tool(tool: &Tool) -> bool {
        tool.is_own() && Self::from_name(tool.name()).is_some()
    }

    /// Returns the definition for models.
    pub fn definition(self) -> ToolDefinition {
        let (description, input_schema) = self.wording();
        ToolDefinition { name: self.name().to_owned(), description: description.to_owned(), input_schema }
    }

    /// Returns the tool for the catalog, for host tools that are searched or listed like others.
    pub fn to_raw(self) -> RawTool {
        let (description, schema) = self.wording();
        let read_only = !matches!(self, Self::ExecuteShellCommand);
        RawTool {
            name: self.name().to_owned(),
            description: description.to_owned(),
            input_schema: to_raw_value(&schema).ok(),
            annotations: Annotations { read_only: Some(read_only), ..Annotations::default() },
            origin: Origin::Host,
            category: (self == Self::AskHuman).then(|| "human".to_owned()),
            ..RawTool::default()
        }
    }

    fn wording(self) -> (&'static str, Value) {
        match self {
            Self::SearchLargeOutput => outputs::search(),
            Self::ReadLargeOutput => outputs::read(),
            Self::QueryLargeOutput => outputs::query(),
            Self::GetApiSpec => code::api_spec(),
            Self::ExecuteShellCommand => code::shell(),
            Self::GetPrompt => offers::prompt(),
            Self::GetResource => offers::resource(),
            Self::AskHuman => offers::ask(),
        }
    }
}
