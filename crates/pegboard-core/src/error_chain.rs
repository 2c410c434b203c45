//! The causes of an error, in one line for people and models.

use std::error::Error;

/// Returns the error with its causes in one line. See [`causes`].
pub fn with_causes(error: &dyn Error, is_layered: fn(&(dyn Error + 'static)) -> bool) -> String {
    causes(error, is_layered).iter().fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns the causes of an error, the nearest first, each one once.
///
/// Of an error that `is_layered` only the innermost cause is returned: HTTP clients wrap one failure in several
/// layers that each say no more than that they failed.
pub fn causes(error: &dyn Error, is_layered: fn(&(dyn Error + 'static)) -> bool) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(mut error) = cause {
        if is_layered(error) {
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
    use std::fmt;

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
    fn repeated_causes_are_returned_once() {
        let error = chain("cannot begin: no key", chain("no key", chain("not set", Chain("not set", None))));
        assert_eq!(causes(&error, |_| false), ["not set"]);
        assert_eq!(with_causes(&error, |_| false), "cannot begin: no key: not set");
        assert_eq!(with_causes(&Chain("alone", None), |_| false), "alone");
    }

    #[test]
    fn of_layers_only_the_innermost_cause_is_returned() {
        let error = chain("no answer", chain("request failed", chain("connect failed", Chain("refused", None))));
        assert_eq!(causes(&error, |_| false), ["request failed", "connect failed", "refused"]);
        assert_eq!(causes(&error, |error| error.to_string() == "request failed"), ["refused"]);
    }
}
