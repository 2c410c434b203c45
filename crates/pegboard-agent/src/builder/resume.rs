//! The conversation that an agent goes on with.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;

use super::BuildError;
use crate::conversation_state::{self, ResumeError, Writer};

/// What there is of a conversation before an agent holds it.
pub(super) struct History {
    /// Its name, which no other has.
    pub(super) id: String,
    /// What was said so far, as it was saved.
    pub(super) saved: Option<Value>,
    /// Where it is kept, turn by turn.
    pub(super) writer: Option<Arc<Writer>>,
}

impl History {
    /// Goes on with what was saved or is in the transcript, or begins anew.
    pub(super) async fn open(saved: Option<Value>, transcript: Option<PathBuf>) -> Result<Self, BuildError> {
        let (writer, kept) = match transcript {
            Some(path) => open_transcript(path).await?,
            None => (None, None),
        };
        let saved = match (saved, kept) {
            (Some(_), Some((path, _))) => return Err(ResumeError::Two { path }.into()),
            (saved, kept) => saved.or(kept.map(|(_, saved)| saved)),
        };
        let id = match saved.as_ref().and_then(conversation_state::saved_id) {
            Some(id) => id,
            None => random_id().map_err(BuildError::Random)?,
        };
        Ok(Self { id, saved, writer })
    }
}

/// Makes a transcript ours, and reads what is in it. Not on a thread that others wait for.
async fn open_transcript(path: PathBuf) -> Result<(Option<Arc<Writer>>, Option<(PathBuf, Value)>), BuildError> {
    let opened = tokio::task::spawn_blocking(move || {
        let saved = conversation_state::read(&path)?;
        let writer = Arc::new(Writer::new(path.clone())?);
        Ok::<_, ResumeError>((Some(writer), saved.map(|saved| (path, saved))))
    });
    Ok(opened.await.map_err(|_| BuildError::Broken)??)
}

/// A name for a conversation that no other has.
fn random_id() -> Result<String, getrandom::Error> {
    let mut bytes = [0; conversation_state::ID_DIGITS / 2];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
