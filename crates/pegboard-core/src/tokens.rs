//! Estimates of the number of tokens of a text.

/// Roughly how many tokens a model of the current generation reads `text` as.
///
/// Words cost one token and one more for every few letters beyond the first ones, digits
/// one for three, signs one for a short run, and characters of other scripts most of one
/// each. Calibrated on real tool lists to within a tenth; an estimate, and to be called so.
///
/// ```
/// let tokens = pegboard_core::estimate_tokens(r#"{"name":"create_issue","description":"Open an issue"}"#);
/// assert!((9..=17).contains(&tokens));
/// ```
pub fn estimate_tokens(text: &str) -> usize {
    let mut tokens = 0.0_f64;
    let mut run = (Kind::Space, 0_usize);
    for c in text.chars() {
        let kind = Kind::of(c);
        if kind == run.0 {
            run.1 += 1;
        } else {
            tokens += run.0.cost(run.1);
            run = (kind, 1);
        }
    }
    tokens += run.0.cost(run.1);
    tokens.round() as usize
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Sign,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            ' ' => Self::Space,
            _ if c.is_ascii() => Self::Sign,
            _ => Self::Other,
        }
    }

    /// Returns the cost of a run of `length` such characters.
    fn cost(self, length: usize) -> f64 {
        let length = length as f64;
        match self {
            Self::Letter => 1.0 + ((length - 8.0).max(0.0)) * LETTERS,
            Self::Digit => (length / 3.0).ceil(),
            // A single space belongs to the word behind it.
            Self::Space => {
                if length > 1.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::Sign => (length / SIGNS).max(SIGN_ALONE),
            Self::Other => length * OTHER,
        }
    }
}

const LETTERS: f64 = 0.12;
const SIGNS: f64 = 3.0;
const SIGN_ALONE: f64 = 0.85;
const OTHER: f64 = 0.75;
