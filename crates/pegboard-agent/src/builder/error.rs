//! Why an agent cannot be built.

#[cfg(feature = "code-execution")]
use pegboard_http::ListenError;
use pegboard_llm::{ConversationError, client::ClientError};
use pegboard_upstream::config::file::ConfigFileError;

#[cfg(feature = "code-execution")]
use crate::shell::ShellError;
use crate::{approval::AmbiguousGrant, conversation_state::ResumeError, custom::RegisterError, outputs::OutputError};

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The server configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    /// A custom tool cannot be registered.
    #[error(transparent)]
    Tool(#[from] RegisterError),
    /// The client of the provider cannot be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The conversation cannot be created.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// The folder for outputs cannot be used.
    #[error(transparent)]
    Outputs(#[from] OutputError),
    /// The shell of code execution mode cannot be used.
    #[cfg(feature = "code-execution")]
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The tool API of code execution mode cannot be started.
    #[cfg(feature = "code-execution")]
    #[error(transparent)]
    Api(#[from] ListenError),
    /// Code execution mode is not compiled in.
    #[cfg(not(feature = "code-execution"))]
    #[error("this program was built without the feature `code-execution`")]
    NoCodeExecution,
    /// The name of an allowed call is ambiguous.
    #[error(transparent)]
    Grant(#[from] AmbiguousGrant),
    /// The saved conversation cannot be continued.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// A background task panicked.
    #[error("building the agent failed unexpectedly")]
    Panicked,
    /// A cost limit is set, but prices are not.
    #[error("a cost limit needs prices")]
    NoPrices,
    /// The ranker of the dialect is not a known one.
    #[error("unknown ranker `{0}`")]
    UnknownRanker(&'static str),
    /// No random identifier can be generated for the conversation.
    #[error("no random numbers available from the system")]
    Random(#[source] getrandom::Error),
}

impl BuildError {
    /// Returns what the user can do about the error, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoPrices => Some("set them with `prices`".to_owned()),
            #[cfg(feature = "code-execution")]
            Self::Shell(error) => error.hint().map(str::to_owned),
            Self::Resume(error) => error.hint().map(str::to_owned),
            Self::Outputs(error) => error.hint().map(str::to_owned),
            Self::Grant(error) => error.candidates.first().map(|name| format!("name one of them, such as `{name}`")),
            #[cfg(feature = "code-execution")]
            Self::Api(error) => Some(error.hint().to_owned()),
            _ => None,
        }
    }
}
