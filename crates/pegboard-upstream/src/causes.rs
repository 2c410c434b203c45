//! The causes of errors. Those of the HTTP client have several layers.

use std::error::Error;

use pegboard_core::error_chain;

/// Returns the error with its causes in one line.
pub fn with_causes(error: &dyn Error) -> String {
    error_chain::with_causes(error, is_layered)
}

/// Returns the causes of an error, the nearest first, each one once.
pub fn causes(error: &dyn Error) -> Vec<String> {
    error_chain::causes(error, is_layered)
}

fn is_layered(error: &(dyn Error + 'static)) -> bool {
    error.is::<reqwest::Error>()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no gateway answers")]
    struct Unanswered(#[source] reqwest::Error);

    #[tokio::test]
    async fn a_refused_connection_has_one_cause() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let refused = reqwest::get(format!("http://{address}/")).await.expect_err("no listener");
        let causes = causes(&Unanswered(refused));
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert!(causes[0].starts_with("Connection refused"), "{causes:?}");
    }
}
