//! One line of the log.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style as Ansi};
use serde_json::{Map, Value};
use tracing::Level;

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFormat {
    /// Text for people.
    Text(Style),
    /// One JSON object per line.
    Json,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

/// The parts of a line. All texts in it are sanitized.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) time: &'a str,
    pub(super) level: Level,
    pub(super) target: &'a str,
    pub(super) message: &'a str,
    /// Fields of the surrounding spans, from the outermost on.
    pub(super) around: &'a [(&'static str, &'a Value)],
    /// Fields of the event itself.
    pub(super) fields: &'a [(&'static str, Value)],
}

impl Line<'_> {
    /// Renders the line with its line break.
    pub(super) fn render(&self, form: LineFormat) -> String {
        match form {
            LineFormat::Text(style) => self.text(style),
            LineFormat::Json => self.json(),
        }
    }

    /// Renders time, level, the fields of the spans, a colon, the message, and its own fields. In
    /// this order, because a message may contain a server's own text: nothing in it can come before
    /// the parts that Pegboard writes.
    fn text(&self, style: Style) -> String {
        let colour = |ansi: Ansi| if style == Style::Coloured { ansi } else { Ansi::new() };
        let (dim, level) = (colour(Ansi::new().dimmed()), colour(level_style(self.level)));
        let mut text = format!("{dim}{}{dim:#} {level}{:>5}{level:#}", self.time, self.level);
        // Writing to a string does not fail.
        for (key, value) in self.around {
            let _ = write!(text, " {dim}{key}={dim:#}{}", quote(value));
        }
        if !self.around.is_empty() {
            text.push(':');
        }
        if !self.message.is_empty() {
            let _ = write!(text, " {}", self.message);
        }
        for (key, value) in self.fields {
            let _ = write!(text, " {dim}{key}={dim:#}{}", quote(value));
        }
        text.push('\n');
        text
    }

    fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("timestamp".to_owned(), self.time.into());
        object.insert("level".to_owned(), self.level.as_str().into());
        object.insert("target".to_owned(), self.target.into());
        object.insert("message".to_owned(), self.message.into());
        const OURS: [&str; 4] = ["timestamp", "level", "target", "message"];
        let fields = self.fields.iter().map(|(key, value)| (key, value));
        for (key, value) in self.around.iter().map(|(key, value)| (key, *value)).chain(fields) {
            // The keys that every line has keep their meaning.
            let key = if OURS.contains(key) { format!("field_{key}") } else { (*key).to_owned() };
            object.insert(key, value.clone());
        }
        let mut text = Value::Object(object).to_string();
        text.push('\n');
        text
    }
}

/// Quotes texts, so that none of them can end early.
fn quote(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        value => value.to_string(),
    }
}

fn level_style(level: Level) -> Ansi {
    let colour = match level {
        Level::ERROR => AnsiColor::Red,
        Level::WARN => AnsiColor::Yellow,
        Level::INFO => AnsiColor::Green,
        Level::DEBUG => AnsiColor::Blue,
        Level::TRACE => AnsiColor::Magenta,
    };
    colour.on_default()
}
