//! One line of the log.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style as Ansi};
use serde_json::{Map, Value};
use tracing::Level;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Text(Style),
    /// One JSON object each.
    Json,
}

/// Whether there is somebody who sees colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

/// What there is to say. All texts in it are plain.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) time: &'a str,
    pub(super) level: Level,
    pub(super) target: &'a str,
    pub(super) message: &'a str,
    /// What the spans around it know, from the outermost on.
    pub(super) around: &'a [(&'static str, &'a Value)],
    /// What is said beside the message.
    pub(super) fields: &'a [(&'static str, Value)],
}

impl Line<'_> {
    /// The line with its end.
    pub(super) fn render(&self, form: Form) -> String {
        match form {
            Form::Text(style) => self.text(style),
            Form::Json => self.json(),
        }
    }

    /// Time, level, what the spans know, a colon, the message, and what is said beside it. In
    /// this order, because a message may be a server's own words: nothing in it can come before
    /// what we say ourselves.
    fn text(&self, style: Style) -> String {
        let colour = |ansi: Ansi| if style == Style::Coloured { ansi } else { Ansi::new() };
        let (dim, level) = (colour(Ansi::new().dimmed()), colour(level_style(self.level)));
        let mut text = format!("{dim}{}{dim:#} {level}{:>5}{level:#}", self.time, self.level);
        // Writing to a string does not fail.
        for (key, value) in self.around {
            let _ = write!(text, " {dim}{key}={dim:#}{}", shown(value));
        }
        if !self.around.is_empty() {
            text.push(':');
        }
        if !self.message.is_empty() {
            let _ = write!(text, " {}", self.message);
        }
        for (key, value) in self.fields {
            let _ = write!(text, " {dim}{key}={dim:#}{}", shown(value));
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
            // What every line has keeps its meaning.
            let key = if OURS.contains(key) { format!("field_{key}") } else { (*key).to_owned() };
            object.insert(key, value.clone());
        }
        let mut text = Value::Object(object).to_string();
        text.push('\n');
        text
    }
}

/// Texts in quotes, so that none of them can end before its end.
fn shown(value: &Value) -> String {
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
