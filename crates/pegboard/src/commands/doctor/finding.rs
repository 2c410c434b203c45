//! What was found, in a form that people and programs can use.

use clap::ValueEnum;
use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// It cannot work.
    Error,
    /// It works, and not as somebody would want.
    Warning,
    /// It is good to know.
    Note,
}

/// What was looked for. The names stay; the reference is made of what is said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    /// The file is not JSON with comments, or a key of it is wrong
    Configuration,
    /// Pegboard reads a setting, and does not apply it as it is written
    UnusedSetting,
    /// No server is switched on
    NoServers,
    /// A variable that the configuration refers to is not set
    UnsetVariable,
    /// A variable that the configuration refers to is set, and empty
    EmptyVariable,
    /// `~`, `$NAME` or `%NAME%` stands where no shell fills it in
    UnexpandedVariable,
    /// A value out of a manual was not replaced, such as `YOUR_API_KEY`
    PlaceholderValue,
    /// A file that is named is not there: an `envFile`, a script to run
    MissingFile,
    /// A file with secrets can be read by others on this machine
    ReadableSecret,
    /// A secret stands in the configuration itself
    PlainSecret,
    /// Another program listens where the gateway is to listen
    PortTaken,
    /// The address to listen on is none of this machine, or may not be used
    ListenAddress,
    /// The gateway would listen to other machines, and asks for no token
    PublicAddress,
    /// The folder for state cannot be used
    StateFolder,
    /// Tools of a server are held until they are approved
    HeldTools,
    /// The embeddings endpoint does not answer as it should; searches go on without it
    Embeddings,
    /// It is to be learned from use, and the ranker does not learn
    UsageLearning,
    /// The program of a server is not there
    MissingCommand,
    /// The program of a server cannot be run
    NotExecutable,
    /// The folder that a server is to run in is not there
    MissingFolder,
    /// A path means another file wherever Pegboard is started
    RelativePath,
    /// `docker run` without `-i`, or with `-t`
    DockerFlags,
    /// A server is Pegboard with this very configuration
    ServesItself,
    /// Credentials go to another machine over `http://`
    PlainHttp,
    /// Two entries are the same program or address
    DuplicateServer,
    /// A server ends, or refuses, before it can be used; with what it last wrote
    StartFailed,
    /// A server fails, and a variable that it may need is set here but not passed to it
    WithheldVariable,
    /// A server is not ready in time
    StartTimeout,
    /// A server takes longer than ten seconds to get ready
    SlowStart,
    /// A server writes to standard output what is no message
    StdoutNoise,
    /// A remote server wants credentials, or refuses those it gets
    Login,
    /// There is no MCP server at the path of an address
    WrongPath,
    /// A remote server answers with a status that says nothing more
    HttpStatus,
    /// Nobody knows the host of an address
    UnknownHost,
    /// A remote server cannot be reached
    Unreachable,
    /// A remote server cannot prove who it is, or speaks no TLS
    Tls,
    /// A server speaks a version of MCP that is not known here
    ProtocolVersion,
    /// A server is ready and offers no tools
    NoTools,
    /// Something that a server lists is broken; Pegboard mends it or leaves it out
    BrokenList,
    /// Providers refuse the name of a tool; Pegboard shows another
    RefusedName,
    /// Providers refuse the schema of a tool; Pegboard hands it on as it is
    RefusedSchema,
    /// A tool has no description
    MissingDescription,
    /// A tool has a description of more than 4,000 bytes
    LongDescription,
    /// Two servers offer the same tools
    DuplicateTools,
    /// Several servers have a tool of the same name, and nothing tells them apart
    NameClash,
    /// More tools are shown at once than a provider takes
    TooManyTools,
    /// `maxToolsLimit` is not what is recommended for this number of tools
    ToolLimit,
}

impl Check {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Everything that is looked for, as a table in Markdown.
pub(crate) fn reference() -> String {
    let row = |check: &Check| {
        let value = check.to_possible_value()?;
        Some(format!("| `{}` | {} |\n", value.get_name(), value.get_help()?))
    };
    Check::value_variants().iter().filter_map(row).collect()
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: Check,
    pub(super) severity: Severity,
    /// The server it concerns; none if it is the configuration or the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    /// What is wrong, in a sentence.
    pub(super) message: String,
    /// What shows it: lines that were written, tools, places.
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

    /// All its texts, for whoever cleans them.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.message, &mut self.hint].into_iter().chain(&mut self.details)
    }
}

/// `1 tool`, `2 tools`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Names that are listed before the rest is only counted.
const MOST_NAMES: usize = 5;

/// `` `a`, `b` and 3 more ``.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
