//! The layer that writes log lines with the fields of the surrounding spans.

use std::fmt;

use pegboard_core::plain_line;
use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    fmt::{
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    layer::Context,
    registry::LookupSpan,
};

use super::line::{Line, LineFormat};

/// The only target with multi-line messages, all written by Pegboard.
const SEARCHES: &str = "pegboard::search";

/// Fields that lines take over from the surrounding spans, in this order: those that identify a
/// request. The other fields of spans are for collectors, or repeated by the line itself.
const CONTEXT: [&str; 9] = ["request", "session", "client", "era", "method", "model", "server", "tool", "trace"];

/// Writes a line for every event, with the fields of the surrounding spans, so that all lines of a
/// request carry its number.
pub(super) struct LogLayer<W> {
    form: LineFormat,
    write: W,
}

impl<W: Fn(&str, Option<String>) + 'static> LogLayer<W> {
    pub(super) fn new(form: LineFormat, write: W) -> Self {
        Self { form, write }
    }
}

impl<S, W> Layer<S> for LogLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str, Option<String>) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut around = SpanFields::default();
        attributes.record(&mut around.reader());
        // Another log may have noted the same already.
        span.extensions_mut().replace(around);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(around) = span.extensions_mut().get_mut::<SpanFields>() {
            values.record(&mut around.reader());
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let (mut message, mut fields) = (String::new(), Vec::new());
        let take = |key: &'static str, value: Value| match value {
            Value::String(text) if key == "message" => text.trim().clone_into(&mut message),
            value => fields.push((key, value)),
        };
        event.record(&mut Reader { keeps_lines: metadata.target() == SEARCHES, take });
        let mut around = SpanFields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(inner) = span.extensions().get::<SpanFields>() {
                around.override_with(inner);
            }
        }
        // The event's own fields take precedence, and appear once.
        let around: Vec<(&str, &Value)> =
            around.fields().filter(|(key, _)| fields.iter().all(|(known, _)| known != key)).collect();
        let line = Line {
            time: &now(),
            level: *metadata.level(),
            target: metadata.target(),
            message: &message,
            around: &around,
            fields: &fields,
        };
        let server = around.iter().copied().chain(fields.iter().map(|(key, value)| (*key, value)));
        let server = server.filter(|(key, _)| *key == "server").find_map(|(_, value)| value.as_str());
        (self.write)(&line.render(self.form), server.map(str::to_owned));
    }
}

fn now() -> String {
    let mut time = String::with_capacity(27);
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

/// The values of [`CONTEXT`] of a span.
#[derive(Debug, Default)]
struct SpanFields([Option<Value>; CONTEXT.len()]);

impl SpanFields {
    fn reader(&mut self) -> Reader<impl FnMut(&'static str, Value)> {
        let take = |key: &'static str, value: Value| {
            if let Some(at) = CONTEXT.iter().position(|known| *known == key) {
                self.0[at] = Some(value);
            }
        };
        Reader { keeps_lines: false, take }
    }

    /// Takes over the values of an inner span, which takes precedence.
    fn override_with(&mut self, inner: &Self) {
        for (slot, value) in self.0.iter_mut().zip(&inner.0) {
            if value.is_some() {
                slot.clone_from(value);
            }
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        CONTEXT.into_iter().zip(&self.0).filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }
}

/// Passes on fields as values that are safe to print.
struct Reader<F> {
    keeps_lines: bool,
    take: F,
}

impl<F: FnMut(&'static str, Value)> Reader<F> {
    fn text(&mut self, field: &Field, text: &str) {
        // Text of a server or a client must not look like a line of the log.
        let text = match self.keeps_lines {
            true => text.lines().map(plain_line).collect::<Vec<_>>().join("\n"),
            false => plain_line(text).into_owned(),
        };
        (self.take)(field.name(), text.into());
    }
}

impl<F: FnMut(&'static str, Value)> Visit for Reader<F> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        (self.take)(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        (self.take)(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        (self.take)(field.name(), value.into());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        (self.take)(field.name(), u64::try_from(value).unwrap_or(u64::MAX).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        (self.take)(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::{super::line::Style, *};

    /// Returns what `work` logs, without times.
    fn logged(form: LineFormat, work: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&lines);
        let log = LogLayer::new(form, move |line: &str, _: Option<String>| {
            let mut lines = written.lock().unwrap_or_else(PoisonError::into_inner);
            let at = line.find(|c: char| c.is_ascii_digit()).expect("a time");
            lines.push_str(&line.replacen(&line[at..at + now().len()], "TIME", 1));
        });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), work);
        lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn one_request() {
        let request = tracing::error_span!(
            "request",
            request = 7,
            session = tracing::field::Empty,
            bytes = 9,
            otel.kind = "server"
        );
        let _entered = request.enter();
        request.record("session", 2);
        tracing::info!("before");
        tracing::error_span!("call", server = "gh", tool = "create issue").in_scope(|| {
            tracing::warn!(ms = 12_u128, error = %"it \"broke\"", "call failed");
            tracing::debug!(server = "other", "said");
        });
    }

    #[test]
    fn text_has_the_fields_of_spans_in_front() {
        insta::assert_snapshot!(logged(LineFormat::Text(Style::Plain), one_request));
        let coloured = logged(LineFormat::Text(Style::Coloured), one_request);
        assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    }

    #[test]
    fn json_has_them_flat() {
        insta::assert_snapshot!(logged(LineFormat::Json, one_request));
    }

    #[test]
    fn nobody_can_forge_a_line() {
        let attack = "fine\r\n2026-01-01T00:00:00Z ERROR forged request=1\u{1b}[2K\u{1b}]0;owned\u{7}\u{2028}x";
        let work = || {
            tracing::error_span!("server", server = attack).in_scope(|| {
                tracing::info!(target: "pegboard::server", "{attack}");
                tracing::info!(reason = attack, error = %attack, level = attack, "a server failed");
            });
        };
        let text = logged(LineFormat::Text(Style::Plain), work);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        let json = logged(LineFormat::Json, work);
        for line in json.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let all = line.to_string();
            assert_eq!(line["level"], "INFO", "{all}");
            assert!(!all.contains("\\n") && !all.contains("\\u001b") && !all.contains('\u{2028}'), "{all}");
        }
    }

    #[test]
    fn a_search_has_several_lines() {
        let text =
            logged(LineFormat::Text(Style::Plain), || tracing::info!(target: "pegboard::search", "a\n   b\u{7}"));
        assert_eq!(text, "TIME  INFO a\n   b\n");
    }
}
