//! The saved conversation that an agent continues.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;

use super::BuildError;
use crate::conversation_state::{self, ResumeError, TranscriptWriter};

/// The identifier, content and transcript of a conversation before it starts.
pub(super) struct SavedConversation {
    /// The unique identifier.
    pub(super) id: String,
    /// The saved conversation, if there is one.
    pub(super) saved: Option<Value>,
    /// The transcript file that every turn is written to.
    pub(super) writer: Option<Arc<TranscriptWriter>>,
}

impl SavedConversation {
    /// Opens the saved conversation or the transcript, or creates a new conversation.
    pub(super) async fn open(saved: Option<Value>, transcript: Option<PathBuf>) -> Result<Self, BuildError> {
        let (writer, existing) = match transcript {
            Some(path) => open_transcript(path).await?,
            None => (None, None),
        };
        let saved = match (saved, existing) {
            (Some(_), Some((path, _))) => return Err(ResumeError::TwoSources { path }.into()),
            (saved, existing) => saved.or(existing.map(|(_, saved)| saved)),
        };
        let id = match saved.as_ref().and_then(conversation_state::saved_id) {
            Some(id) => id,
            None => random_id().map_err(BuildError::Random)?,
        };
        Ok(Self { id, saved, writer })
    }
}

/// Locks a transcript and reads its content, on a blocking thread.
async fn open_transcript(
    path: PathBuf,
) -> Result<(Option<Arc<TranscriptWriter>>, Option<(PathBuf, Value)>), BuildError> {
    let opened = tokio::task::spawn_blocking(move || {
        let saved = conversation_state::read_saved(&path)?;
        let writer = Arc::new(TranscriptWriter::new(path.clone())?);
        Ok::<_, ResumeError>((Some(writer), saved.map(|saved| (path, saved))))
    });
    Ok(opened.await.map_err(|_| BuildError::Panicked)??)
}

/// Returns a random identifier for a conversation.
fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; conversation_state::ID_DIGITS / 2];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
