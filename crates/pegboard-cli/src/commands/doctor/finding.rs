//! Findings, and the checks that produce them.

use clap::ValueEnum;
use serde::Serialize;

pub(super) use crate::output::pluralize as count;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// It cannot work.
    Error,
    /// It works, but probably not as intended.
    Warning,
    /// It is good to know.
    Note,
}

/// A check. Its name is stable, and `docs/doctor.md` is made of its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    /// The file is not valid JSON with comments, or a key is wrong
    Configuration,
    /// Pegboard reads a setting but does not apply it as written
    UnusedSetting,
    /// No server is enabled
    NoServers,
    /// A variable that the configuration refers to is not set
    UnsetVariable,
    /// A variable that the configuration refers to is empty
    EmptyVariable,
    /// `~`, `$NAME` or `%NAME%` is used where no shell expands it
    UnexpandedVariable,
    /// A placeholder such as `YOUR_API_KEY` was not replaced
    PlaceholderValue,
    /// A file does not exist: an `envFile`, or a script to run
    MissingFile,
    /// A file with secrets is readable by other users of this machine
    ReadableSecret,
    /// The configuration contains a secret in plain text
    PlainSecret,
    /// Another program uses the listen address of the gateway
    PortTaken,
    /// The listen address is invalid, does not belong to this machine, or is not permitted
    ListenAddress,
    /// The gateway would be reachable from other machines without a token
    PublicAddress,
    /// The state folder is not usable
    StateFolder,
    /// Tools of a server are held until they are approved
    HeldTools,
    /// The embeddings endpoint does not work; searches work without it
    Embeddings,
    /// `usageLearning` is enabled, but the ranker does not support it
    UsageLearning,
    /// The program of a server was not found
    MissingCommand,
    /// The program of a server is not executable
    NotExecutable,
    /// The working directory of a server does not exist
    MissingFolder,
    /// A relative path depends on the folder in which Pegboard is started
    RelativePath,
    /// `docker run` without `-i`, or with `-t`
    DockerFlags,
    /// A server is Pegboard itself with the same configuration
    ServesItself,
    /// Credentials are sent to another machine over unencrypted `http://`
    PlainHttp,
    /// Two entries have the same program or address
    DuplicateServer,
    /// A server exits or rejects the connection during the start; shows its last output
    StartFailed,
    /// A server fails, and a variable that it may need is set but not passed to it
    WithheldVariable,
    /// A server is not ready within its timeout
    StartTimeout,
    /// A server takes more than ten seconds to start
    SlowStart,
    /// A server writes something other than MCP messages to standard output
    StdoutNoise,
    /// A remote server requires credentials, or rejects the configured ones
    Login,
    /// There is no MCP server at the path of the URL
    WrongPath,
    /// A remote server answers with an HTTP error status
    HttpStatus,
    /// The host of a URL cannot be resolved
    UnknownHost,
    /// A remote server cannot be reached
    Unreachable,
    /// The TLS certificate of a remote server is invalid, or the server does not support TLS
    Tls,
    /// A server speaks an unsupported version of MCP
    ProtocolVersion,
    /// A server is ready but offers no tools
    NoTools,
    /// A list of a server has an invalid entry; Pegboard repairs or skips it
    BrokenList,
    /// Providers reject the name of a tool; Pegboard renames it
    RefusedName,
    /// Providers reject the schema of a tool; Pegboard passes it on unchanged
    RefusedSchema,
    /// A tool has no description
    MissingDescription,
    /// The description of a tool is longer than 4,000 bytes
    LongDescription,
    /// Settings of a single tool have no effect: the server has no such tool; or the new name hides another tool
    ToolOverride,
    /// A server asks for its tools to be listed always, which its settings do not allow
    AlwaysLoad,
    /// Two servers offer the same tools
    DuplicateTools,
    /// Several servers have a tool of the same name, and names have no server prefix
    NameClash,
    /// More tools are shown at once than a provider accepts
    TooManyTools,
    /// `maxToolsLimit` is outside the recommended range for this number of tools
    ToolLimit,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Check {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Renders all checks as a table in Markdown.
pub(crate) fn reference() -> String {
    let row = |check: &Check| {
        let value = check.to_possible_value()?;
        Some(format!("| `{}` | {} |\n", value.get_name(), value.get_help()?))
    };
    Check::value_variants().iter().filter_map(row).collect()
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: Check,
    pub(super) severity: Severity,
    /// The server that it concerns; `None` for the configuration or the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    /// The problem, in a sentence.
    pub(super) message: String,
    /// Evidence: output lines, tools, places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<String>,
    /// How to fix it.
    pub(super) hint: String,
}

impl Finding {
    fn new(severity: Severity, check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, severity, server: None, message: message.into(), details: Vec::new(), hint: hint.into() }
    }

    pub(super) fn error(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Severity::Error, check, message, hint)
    }

    pub(super) fn warning(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, message, hint)
    }

    pub(super) fn note(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, message, hint)
    }

    pub(super) fn of(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }

    pub(super) fn details(mut self, details: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.details = details.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns all texts, for masking.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.message, &mut self.hint].into_iter().chain(&mut self.details)
    }
}

/// Maximum number of listed names; the rest is counted.
const MOST_NAMES: usize = 5;

/// Joins names: `` `a`, `b` and 3 more ``.
pub(super) fn join_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
