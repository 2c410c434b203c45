//! Errors for people and models.

use std::error::Error;

/// An error with everything that led to it, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).iter().fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Everything that led to an error, the nearest first, each told once.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(mut error) = cause {
        if error.is::<reqwest::Error>() {
            // One layer below the other says that it failed, and the last one says why.
            while let Some(below) = error.source() {
                error = below;
            }
        }
        let below = error.to_string();
        // Some errors repeat what is below them.
        if !text.ends_with(&below) {
            causes.push(below.clone());
            text = below;
        }
        cause = error.source();
    }
    causes
}

#[cfg(test)]
mod tests {
    use std::{fmt, net::TcpListener};

    use super::*;

    #[derive(Debug)]
    struct Chain(&'static str, Option<Box<dyn Error>>);

    impl fmt::Display for Chain {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Chain {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref()
        }
    }

    fn chain(text: &'static str, below: impl Error + 'static) -> Chain {
        Chain(text, Some(Box::new(below)))
    }

    #[test]
    fn what_is_repeated_is_told_once() {
        let error = chain("cannot begin: no key", chain("no key", chain("not set", Chain("not set", None))));
        assert_eq!(causes(&error), ["not set"]);
        assert_eq!(with_causes(&error), "cannot begin: no key: not set");
        assert_eq!(with_causes(&Chain("alone", None)), "alone");
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_has_one_cause() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let refused = reqwest::get(format!("http://{address}/")).await.expect_err("nobody listens");
        let causes = causes(&chain("no gateway answers", refused));
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert!(causes[0].starts_with("Connection refused"), "{causes:?}");
    }
}
