//! Check of the embeddings endpoint.

use pegboard_llm::embeddings::{Embeddings, EndpointSettings};
use pegboard_upstream::with_causes;

use super::finding::{Check, Finding};

/// The text to embed; any would do.
const PROBE: &str = "send a message";

/// Checks that the endpoint answers with valid vectors. Searches work without it, so there are no
/// errors.
pub(super) async fn check_endpoint(settings: &EndpointSettings) -> Option<Finding> {
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
