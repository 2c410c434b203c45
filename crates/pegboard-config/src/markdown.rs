//! Reference pages in Markdown, made from tables of keys.

use std::fmt::Write;

use crate::keys::{Kind, Shape};

/// A page in Markdown with one table per object.
#[derive(Debug, Default)]
pub struct Page {
    /// The text so far.
    pub text: String,
    /// Objects that keys refer to and that have no section yet.
    waiting: Vec<Shape>,
    seen: Vec<&'static str>,
}

impl Page {
    /// Creates a page that begins with `introduction`.
    pub fn new(introduction: &str) -> Self {
        Self { text: introduction.to_owned(), ..Self::default() }
    }

    /// Writes the section of one object.
    pub fn write_section(&mut self, title: &str, shape: &Shape) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "\n{title}\n\n{}\n", shape.about);
        let _ = writeln!(self.text, "| key | value | default | description |\n| --- | --- | --- | --- |");
        for key in &shape.keys {
            let default = key.default.map(|default| format!("`{default}`")).unwrap_or_default();
            let is_needed = if shape.required.contains(&key.name) { " Required." } else { "" };
            let description = self.describe(key.kind);
            let _ = writeln!(self.text, "| `{}` | {description} | {default} | {}{is_needed} |", key.name, key.help);
        }
        if !shape.ignored.is_empty() {
            let names: Vec<String> = shape.ignored.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(self.text, "\nKeys of other clients that are ignored: {}.", names.join(", "));
        }
    }

    /// Describes a kind, with a link to the section of an object.
    fn describe(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Object(shape) => self.link(&shape(), "an object"),
            Kind::List(Kind::Object(shape)) => self.link(&shape(), "a list of objects"),
            Kind::Map(Kind::Object(shape)) => self.link(&shape(), "objects by name"),
            Kind::Map(Kind::OneOf(names)) => format!("by name, {}", Kind::OneOf(names).describe()),
            Kind::Map(Kind::Text | Kind::Scalar) => "strings by name".to_owned(),
            Kind::Map(Kind::Reference(_)) => "by name, [a list of steps](#middleware)".to_owned(),
            Kind::Reference(_) => "[a list of steps](#middleware)".to_owned(),
            Kind::Either(&[first, Kind::Object(shape)]) => {
                let object = self.link(&shape(), "an object");
                format!("{}, or {object}", self.describe(first))
            }
            kind => kind.describe(),
        }
    }

    fn link(&mut self, shape: &Shape, words: &str) -> String {
        if !self.seen.contains(&shape.name) {
            self.seen.push(shape.name);
            self.waiting.push(shape.clone());
        }
        format!("[{words}](#{})", shape.name.to_lowercase())
    }

    /// Writes the sections of all objects that earlier sections refer to.
    pub fn write_referenced(&mut self) {
        while !self.waiting.is_empty() {
            for shape in std::mem::take(&mut self.waiting) {
                self.write_section(&format!("### `{}`", shape.name), &shape);
            }
        }
    }
}
