//! Why an agent cannot be built.

#[cfg(feature = "code-execution")]
use pegboard_http::ListenError;
use pegboard_llm::{ConversationError, client::ClientError};
use pegboard_upstream::config::file::FileError;

#[cfg(feature = "code-execution")]
use crate::shell::ShellError;
use crate::{approval::AmbiguousGrant, conversation_state::ResumeError, custom::RegisterError, outputs::OutputError};

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration of the servers.
    #[error(transparent)]
    Config(#[from] FileError),
    /// A tool.
    #[error(transparent)]
    Tool(#[from] RegisterError),
    /// The provider.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The conversation.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// The folder for outputs.
    #[error(transparent)]
    Outputs(#[from] OutputError),
    /// The commands of code execution mode.
    #[cfg(feature = "code-execution")]
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The API of code execution mode.
    #[cfg(feature = "code-execution")]
    #[error(transparent)]
    Api(#[from] ListenError),
    /// Code execution mode in a program without it.
    #[cfg(not(feature = "code-execution"))]
    #[error("this program was built without the feature `code-execution`")]
    NoCodeExecution,
    /// A name of an allowed call.
    #[error(transparent)]
    Grant(#[from] AmbiguousGrant),
    /// The conversation to go on with.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// Something failed that never should.
    #[error("building the agent failed unexpectedly")]
    Broken,
    /// A limit on the cost of what has no price.
    #[error("a cost limit needs prices")]
    NoPrices,
    /// A name of the conversation that cannot be made.
    #[error("no random numbers available from the system")]
    Random(#[source] getrandom::Error),
}

impl BuildError {
    /// What can be done about it.
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
