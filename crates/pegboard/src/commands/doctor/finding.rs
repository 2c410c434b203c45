//! What was found, in a form that people and programs can use.

use serde::{Serialize, Serializer};

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

/// What was looked for. The names stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    Configuration,
    NoServers,
    UnsetVariable,
    EmptyVariable,
    UnexpandedVariable,
    PlaceholderValue,
    MissingFile,
    ReadableSecret,
    PlainSecret,
    PortTaken,
    ListenAddress,
    PublicAddress,
    StateFolder,
    MissingCommand,
    NotExecutable,
    MissingFolder,
    RelativePath,
    DockerFlags,
    ServesItself,
    PlainHttp,
    DuplicateServer,
    StartFailed,
    StartTimeout,
    SlowStart,
    StdoutNoise,
    Login,
    WrongPath,
    HttpStatus,
    UnknownHost,
    Unreachable,
    Tls,
    ProtocolVersion,
    NoTools,
    BrokenList,
    RefusedName,
    RefusedSchema,
    MissingDescription,
    LongDescription,
    DuplicateTools,
    NameClash,
    TooManyTools,
}

impl Check {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::NoServers => "no-servers",
            Self::UnsetVariable => "unset-variable",
            Self::EmptyVariable => "empty-variable",
            Self::UnexpandedVariable => "unexpanded-variable",
            Self::PlaceholderValue => "placeholder-value",
            Self::MissingFile => "missing-file",
            Self::ReadableSecret => "readable-secret",
            Self::PlainSecret => "plain-secret",
            Self::PortTaken => "port-taken",
            Self::ListenAddress => "listen-address",
            Self::PublicAddress => "public-address",
            Self::StateFolder => "state-folder",
            Self::MissingCommand => "missing-command",
            Self::NotExecutable => "not-executable",
            Self::MissingFolder => "missing-folder",
            Self::RelativePath => "relative-path",
            Self::DockerFlags => "docker-flags",
            Self::ServesItself => "serves-itself",
            Self::PlainHttp => "plain-http",
            Self::DuplicateServer => "duplicate-server",
            Self::StartFailed => "start-failed",
            Self::StartTimeout => "start-timeout",
            Self::SlowStart => "slow-start",
            Self::StdoutNoise => "stdout-noise",
            Self::Login => "login",
            Self::WrongPath => "wrong-path",
            Self::HttpStatus => "http-status",
            Self::UnknownHost => "unknown-host",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::ProtocolVersion => "protocol-version",
            Self::NoTools => "no-tools",
            Self::BrokenList => "broken-list",
            Self::RefusedName => "refused-name",
            Self::RefusedSchema => "refused-schema",
            Self::MissingDescription => "missing-description",
            Self::LongDescription => "long-description",
            Self::DuplicateTools => "duplicate-tools",
            Self::NameClash => "name-clash",
            Self::TooManyTools => "too-many-tools",
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
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
