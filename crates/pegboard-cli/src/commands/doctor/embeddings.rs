//! The embeddings endpoint.

use pegboard_llm::embeddings::{Embeddings, EndpointSettings};
use pegboard_upstream::with_causes;

use super::finding::{Check, Finding};

/// What it is asked for; any text would do.
const PROBE: &str = "send a message";

/// Whether the endpoint answers, with what is to be expected. Searches go on without it, so
/// nothing of this is an error.
pub(super) async fn look(settings: &EndpointSettings) -> Option<Finding> {
    let client = match Embeddings::new(settings.clone()) {
        Ok(client) => client,
        Err(error) => return Some(warning(&with_causes(&error), None)),
    };
    let error = client.embed(&[format!("{}{PROBE}", settings.query_prefix)]).await.err()?;
    Some(warning(&with_causes(&error), error.hint()))
}

fn warning(reason: &str, hint: Option<&str>) -> Finding {
    let message = format!("`pegboard.embeddings` does not work, so searches do not use it: {reason}");
    Finding::warning(Check::Embeddings, message, hint.unwrap_or("correct the section, or remove it"))
}
