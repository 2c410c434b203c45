//! The W3C trace context of a request: parent, state and baggage.
//!
//! Clients send it in headers or in `_meta`, and servers get it in the same way. With the feature `opentelemetry`, spans
//! join the trace of their request. Without it, a context is passed on as it came.

#[cfg(feature = "opentelemetry")]
mod spans;

#[cfg(not(feature = "opentelemetry"))]
use tracing::Span;

/// The names of the parts, as headers and in `_meta`.
pub const KEYS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Maximum number of bytes of the state, which is the minimum that vendors must support.
const MAX_STATE: usize = 512;

/// Maximum number of entries of the state, from the standard.
const MAX_MEMBERS: usize = 32;

/// Maximum number of bytes of the baggage.
const MAX_BAGGAGE: usize = 8192;
const MAX_ITEMS: usize = 64;

/// The trace context of a request. All its parts are well-formed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    parent: Option<String>,
    state: Option<String>,
    baggage: Option<String>,
}

impl TraceContext {
    /// Reads the parts that `find` returns for each of [`KEYS`], without malformed ones. A state
    /// without a parent is ignored.
    ///
    /// ```
    /// use pegboard_mcp::trace::TraceContext;
    ///
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let context = TraceContext::read(|key| (key == "traceparent").then(|| parent.into()));
    /// assert_eq!(context.trace_id(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    /// ```
    pub fn read(find: impl Fn(&str) -> Option<String>) -> Self {
        let [parent, state, baggage] = KEYS;
        let parent = find(parent).filter(|text| is_parent(text));
        let state = parent.as_ref().and_then(|_| find(state)).and_then(|text| valid_state(&text));
        Self { parent, state, baggage: find(baggage).and_then(|text| valid_baggage(&text)) }
    }

    /// Fills missing parts from `other`: a parent with its state, or baggage.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        if self.parent.is_some() && self.baggage.is_some() {
            return self;
        }
        let other = other();
        let (parent, state) =
            if self.parent.is_some() { (self.parent, self.state) } else { (other.parent, other.state) };
        Self { parent, state, baggage: self.baggage.or(other.baggage) }
    }

    /// Returns the id of the trace.
    pub fn trace_id(&self) -> Option<&str> {
        self.parent.as_deref().and_then(|parent| parent.get(3..35))
    }

    /// Returns the parts by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let texts = [&self.parent, &self.state, &self.baggage];
        KEYS.into_iter().zip(texts).filter_map(|(key, text)| Some((key, text.as_deref()?)))
    }

    /// Makes `span` a part of this trace. It must not have been entered.
    #[cfg(not(feature = "opentelemetry"))]
    pub fn adopt(&self, _span: &Span) {}

    /// Returns the context for a request that is made within `span`.
    #[cfg(not(feature = "opentelemetry"))]
    #[must_use]
    pub fn within(&self, _span: &Span) -> Self {
        self.clone()
    }
}

/// Returns whether a text is `00-TRACE-SPAN-FLAGS`; a later version may append more.
fn is_parent(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |part: &str| part.bytes().any(|byte| byte != b'0');
    const LENGTH: usize = 55;
    const LONGEST: usize = 256;
    if !text.is_ascii() || text.len() < LENGTH || text.len() > LONGEST {
        return false;
    }
    let (known, rest) = text.split_at(LENGTH);
    let mut parts = known.split('-');
    let (Some(version), Some(trace), Some(span), Some(flags), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let has_lengths = [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2];
    let has_digits = [version, trace, span, flags].into_iter().all(is_hex);
    let may_go_on = rest.is_empty() || (version != "00" && rest.starts_with('-'));
    has_lengths && has_digits && version != "ff" && is_set(trace) && is_set(span) && may_go_on
}

/// Returns the entries of a state that can be passed on: all, or as many of the newest as fit. A
/// state with a malformed entry is dropped.
fn valid_state(text: &str) -> Option<String> {
    let mut sound = String::new();
    // Empty entries are allowed, and have no meaning.
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty());
    for member in members.take(MAX_MEMBERS) {
        if !is_member(member) {
            return None;
        }
        if sound.len() + 1 + member.len() > MAX_STATE {
            break;
        }
        if !sound.is_empty() {
            sound.push(',');
        }
        sound.push_str(member);
    }
    (!sound.is_empty()).then_some(sound)
}

fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else { return false };
    let is_key_byte = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value_byte = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    let is_key = (1..=256).contains(&key.len()) && key.bytes().all(is_key_byte) && !key.starts_with(['_', '-', '*']);
    is_key && (1..=256).contains(&value.len()) && value.bytes().all(is_value_byte)
}

/// Returns the items of baggage that can be passed on, unchanged.
fn valid_baggage(text: &str) -> Option<String> {
    let mut sound = String::new();
    let items = text.split(',').map(|item| item.trim_matches([' ', '\t'])).filter(|item| !item.is_empty());
    for item in items.take(MAX_ITEMS) {
        if !is_item(item) {
            return None;
        }
        if sound.len() + 1 + item.len() > MAX_BAGGAGE {
            break;
        }
        if !sound.is_empty() {
            sound.push(',');
        }
        sound.push_str(item);
    }
    (!sound.is_empty()).then_some(sound)
}

/// Returns whether a text is `key=value`, optionally with `;properties`, in header characters.
fn is_item(item: &str) -> bool {
    let Some((key, value)) = item.split_once('=') else { return false };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_value_byte = |byte: u8| matches!(byte, b' '..=b'~' | b'\t') && byte != b'"' && byte != b'\\';
    let key = key.trim_end_matches([' ', '\t']);
    !key.is_empty() && key.bytes().all(is_token) && value.bytes().all(is_value_byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(parent: &str, state: &str, baggage: &str) -> TraceContext {
        let given = [parent, state, baggage];
        let find = |key: &str| KEYS.iter().position(|one| *one == key).map(|at| given[at].to_owned());
        TraceContext::read(find)
    }

    #[test]
    fn parents() {
        let check = |text: &str, expected: bool| assert_eq!(is_parent(text), expected, "{text}");
        check(PARENT, true);
        check("", false);
        check(&PARENT.to_uppercase(), false);
        check(&PARENT.replacen("00", "ff", 1), false);
        check(&PARENT.replacen("00", "0g", 1), false);
        check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false);
        check(&format!("{PARENT}-more"), false);
        check(&format!("{PARENT} "), false);
        check("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-holds", true);
        check("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what", false);
        check("00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01", false);
        check(&format!("cc{}-{}", &PARENT[2..], "x".repeat(500)), false);
        check("00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-0", false);
    }

    #[test]
    fn states_and_baggage() {
        let shown =
            |context: &TraceContext| context.iter().map(|(key, text)| format!("{key}: {text}")).collect::<Vec<_>>();
        let check = |state: &str, baggage: &str, expected: &[&str]| {
            assert_eq!(shown(&read(PARENT, state, baggage))[1..], *expected, "{state} {baggage}");
        };
        check("", "", &[]);
        check("a=1, b@c=x y ,,", "", &["tracestate: a=1,b@c=x y"]);
        check("A=1", "", &[]);
        check("a=1,b", "", &[]);
        check("a=1\r\nx: y", "", &[]);
        check("", "user=alice;meta, k = v", &["baggage: user=alice;meta,k = v"]);
        check("", "user=ali\nce", &[]);
        check("", "no", &[]);
        let long: Vec<String> = (0..40).map(|at| format!("k{at}={}", "v".repeat(40))).collect();
        let kept = read(PARENT, &long.join(","), "").iter().nth(1).map(|(_, state)| state.to_owned());
        assert_eq!(kept, Some(long[..11].join(",")));
        // Without a parent there is nothing that a state could belong to.
        assert_eq!(shown(&read("nonsense", "a=1", "b=2")), ["baggage: b=2"]);
    }

    #[test]
    fn one_place_completes_the_other() {
        let other = PARENT.replace("4bf9", "aaaa");
        let both = read(PARENT, "", "").or(|| read(&other, "a=1", "b=2"));
        assert_eq!(both, read(PARENT, "", "b=2"));
        assert_eq!(TraceContext::default().or(|| read(&other, "a=1", "b=2")), read(&other, "a=1", "b=2"));
    }

    proptest! {
        #[test]
        fn what_is_passed_on_fits_a_header(parent in ".{0,80}", state in "[ -~\\PC]{0,200}", baggage in "(?s).{0,200}") {
            for parent in [PARENT, &parent] {
                for (_, text) in read(parent, &state, &baggage).iter() {
                    prop_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
                    prop_assert!(text.len() <= MAX_BAGGAGE);
                }
            }
        }

        #[test]
        fn what_was_taken_over_is_taken_over_again(state in "[a-c=, 1]{0,30}", baggage in "[a-c=, ;1]{0,30}") {
            let once = read(PARENT, &state, &baggage);
            let find = |key: &str| once.iter().find(|(name, _)| *name == key).map(|(_, text)| text.to_owned());
            prop_assert_eq!(TraceContext::read(find), once.clone());
        }
    }
}
