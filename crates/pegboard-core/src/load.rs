//! Readers for catalog files in every supported format.
//!
//! The form is guessed from the content: an MCP `tools/list` result (bare, or inside its
//! JSON-RPC reply), an array of tools, JSON Lines, or an OpenAPI 3 description. A tool names
//! its schema `inputSchema`, `input_schema` or `parameters`, or is an OpenAI function in either
//! of its two shapes.

mod openapi;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, value::RawValue};

pub use self::openapi::OpenApiError;
use crate::{
    catalog::{Warning, WarningKind},
    tool::{Annotations, Location, RawTool},
};

/// Limits on the size of a catalog file and its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// A whole file. Default 64 MiB.
    pub file_bytes: usize,
    /// A tool's name. Default 1 KiB.
    pub name_bytes: usize,
    /// A description, hint or other text. Default 64 KiB.
    pub text_bytes: usize,
    /// A schema. Default 1 MiB.
    pub schema_bytes: usize,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, name_bytes: 1 << 10, text_bytes: 64 << 10, schema_bytes: 1 << 20 }
    }
}

/// The tools of one file, and the warnings about them.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The usable tools, in file order.
    pub tools: Vec<RawTool>,
    /// What had to be left out.
    pub warnings: Vec<Warning>,
}

/// The reason why a catalog file is not usable at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// More bytes than [`LoadLimits::file_bytes`].
    #[error("{location}: the catalog is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Where the limit is reached.
        location: Location,
        /// The limit.
        limit: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("{location}: invalid UTF-8")]
    NotUtf8 {
        /// Where the first bad byte is.
        location: Location,
        /// What the decoder said.
        source: std::str::Utf8Error,
    },
    /// A file that is not JSON.
    #[error("{location}: not JSON")]
    NotJson {
        /// Where it stops being JSON.
        location: Location,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// JSON without tools in any known form.
    #[error("{location}: no tools found, but {found}")]
    NotACatalog {
        /// Where the document begins.
        location: Location,
        /// What was found instead.
        found: &'static str,
    },
    /// An API description that cannot be turned into tools.
    #[error("{location}: cannot read the API description")]
    OpenApi {
        /// Where the document begins.
        location: Location,
        /// What is wrong with it.
        source: OpenApiError,
    },
    /// A file without content.
    #[error("{location}: the file is empty")]
    Empty {
        /// The file.
        location: Location,
    },
}

impl LoadError {
    /// Returns what the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "split the catalog, or raise `--max-catalog-bytes`",
            Self::NotUtf8 { .. } => "convert the file to UTF-8",
            Self::NotJson { .. } | Self::NotACatalog { .. } | Self::Empty { .. } => {
                "a catalog is an MCP `tools/list` result, a JSON array of tools, one tool per line, or OpenAPI 3 in JSON"
            }
            Self::OpenApi { source, .. } => source.hint(),
        }
    }
}

/// Reads the tools of a catalog file; `source` is its name for messages.
///
/// # Errors
/// When nothing in the file is usable; see [`LoadError`]. What is wrong with single tools
/// is a warning.
pub fn parse(source: &str, bytes: &[u8], limits: &LoadLimits) -> Result<Loaded, LoadError> {
    let source: Arc<str> = source.into();
    let at = |offset: usize| Location { source: Arc::clone(&source), line: line_of(bytes, offset) };
    if bytes.len() > limits.file_bytes {
        return Err(LoadError::TooLarge { location: at(limits.file_bytes), limit: limits.file_bytes });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| LoadError::NotUtf8 { location: at(error.valid_up_to()), source: error })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(LoadError::Empty { location: at(0) });
    }
    if openapi::is_yaml(text) {
        return Err(LoadError::OpenApi { location: at(0), source: OpenApiError::Yaml });
    }
    let mut reader = Reader { lines: Lines::new(Arc::clone(&source), text), limits, loaded: Loaded::default() };
    if is_json_lines(text) {
        reader.read_lines(text)?;
    } else {
        reader.read_document(text)?;
    }
    Ok(reader.loaded)
}

/// Returns whether a text is JSON Lines: several lines with a whole JSON value on the first, or on
/// a later one if the first is damaged and the text is not a JSON document either.
fn is_json_lines(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_whole = |line: &str| serde_json::from_str::<&RawValue>(line).is_ok();
    let Some(first) = lines.next() else { return false };
    if is_whole(first) {
        return lines.next().is_some();
    }
    let is_array = first.trim_start().starts_with('[');
    let is_object = |line: &str| line.starts_with('{') && is_whole(line);
    !is_array && lines.any(is_object) && !is_whole(text)
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    1 + bytes[..offset.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// Line numbers of positions that are queried from front to back.
struct Lines<'a> {
    source: Arc<str>,
    text: &'a str,
    offset: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(source: Arc<str>, text: &'a str) -> Self {
        Self { source, text, offset: 0, line: 1 }
    }

    /// Returns the position of `part`, a slice of the text.
    fn locate(&mut self, part: &str) -> Location {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len());
        let (from, to) = (self.offset.min(offset), self.offset.max(offset));
        let between = self.text.as_bytes()[from..to].iter().filter(|byte| **byte == b'\n').count();
        self.line = if offset >= self.offset { self.line + between } else { self.line - between };
        self.offset = offset;
        Location { source: Arc::clone(&self.source), line: self.line }
    }
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

struct Reader<'a> {
    lines: Lines<'a>,
    limits: &'a LoadLimits,
    loaded: Loaded,
}

impl<'a> Reader<'a> {
    fn read_lines(&mut self, text: &'a str) -> Result<(), LoadError> {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str::<&RawValue>(line) {
                Ok(value) => {
                    if self.read_value(value).is_err() {
                        let location = self.lines.locate(line);
                        self.warn(WarningKind::NotATool, "line skipped: not a tool".into(), Some(location));
                    }
                }
                Err(error) => {
                    let location = self.lines.locate(line);
                    // The parser saw this line alone; its own line number would mislead.
                    let reason = error.to_string().replace(" at line 1 column ", " at column ");
                    let message = format!("line skipped: not JSON: {reason}");
                    self.warn(WarningKind::MalformedLine, message, Some(location));
                }
            }
        }
        if self.loaded.tools.is_empty() {
            return Err(LoadError::NotACatalog { location: self.lines.locate(text), found: "lines without a tool" });
        }
        Ok(())
    }

    fn read_document(&mut self, text: &'a str) -> Result<(), LoadError> {
        let value = serde_json::from_str::<&RawValue>(text).map_err(|source| LoadError::NotJson {
            location: Location { source: Arc::clone(&self.lines.source), line: source.line() },
            source,
        })?;
        let read = match serde_json::from_str::<Fields<'a>>(value.get()) {
            Ok(fields) if openapi::is_description(&fields) => return self.read_description(value, fields),
            Ok(fields) => self.read_object(value, fields),
            Err(_) => self.read_list(value),
        };
        read.map_err(|found| LoadError::NotACatalog { location: self.lines.locate(value.get()), found })
    }

    fn read_description(&mut self, value: &'a RawValue, fields: Fields<'a>) -> Result<(), LoadError> {
        let location = self.lines.locate(value.get());
        self.loaded = openapi::convert(fields, &mut self.lines, self.limits)
            .map_err(|source| LoadError::OpenApi { location, source })?;
        Ok(())
    }

    /// Reads the tools of a list, a reply or a single tool; `Err` describes what the value is
    /// instead.
    fn read_value(&mut self, value: &'a RawValue) -> Result<(), &'static str> {
        match serde_json::from_str::<Fields<'a>>(value.get()) {
            Ok(fields) => self.read_object(value, fields),
            Err(_) => self.read_list(value),
        }
    }

    fn read_object(&mut self, value: &'a RawValue, fields: Fields<'a>) -> Result<(), &'static str> {
        if is_tool(&fields) {
            self.read_tool(value, fields);
            return Ok(());
        }
        // A `tools/list` result, bare or inside its JSON-RPC reply; nothing deeper.
        let result = fields.get("result").and_then(|result| serde_json::from_str::<Fields<'a>>(result.get()).ok());
        let tools = fields.get("tools").or_else(|| result.as_ref()?.get("tools"));
        match tools {
            Some(tools) => self.read_list(tools),
            None => Err("an object without `tools` and without `name`"),
        }
    }

    fn read_list(&mut self, value: &'a RawValue) -> Result<(), &'static str> {
        let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else {
            return Err("a JSON value that is neither a tool nor a list of tools");
        };
        tools.into_iter().for_each(|tool| self.read_element(tool));
        Ok(())
    }

    fn read_element(&mut self, value: &'a RawValue) {
        match serde_json::from_str::<Fields<'a>>(value.get()) {
            Ok(fields) if is_tool(&fields) => self.read_tool(value, fields),
            _ => {
                let location = self.lines.locate(value.get());
                self.warn(WarningKind::NotATool, "value skipped: not a tool".into(), Some(location));
            }
        }
    }

    fn read_tool(&mut self, value: &'a RawValue, mut fields: Fields<'a>) {
        let location = self.lines.locate(value.get());
        if let Some(function) = fields.remove("function")
            && let Ok(inner) = serde_json::from_str::<Fields<'a>>(function.get())
        {
            fields.extend(inner);
        }
        let mut tool = ToolFields { fields, limits: self.limits, location: &location, warnings: Vec::new() };
        let raw = tool.read(value);
        let warnings = std::mem::take(&mut tool.warnings);
        self.loaded.warnings.extend(warnings);
        self.loaded.tools.push(RawTool { location: Some(location), ..raw });
    }

    fn warn(&mut self, kind: WarningKind, message: String, location: Option<Location>) {
        self.loaded.warnings.push(Warning { kind, message, location });
    }
}

fn is_tool(fields: &Fields<'_>) -> bool {
    fields.contains_key("name") || fields.contains_key("function")
}

/// The fields of one tool while they become a [`RawTool`].
struct ToolFields<'a> {
    fields: Fields<'a>,
    limits: &'a LoadLimits,
    location: &'a Location,
    warnings: Vec<Warning>,
}

impl ToolFields<'_> {
    fn read(&mut self, original: &RawValue) -> RawTool {
        let meta = self.json("_meta", Value::is_object);
        let hint_of_meta = meta.as_ref().and_then(|meta| meta.get("anthropic/searchHint")?.as_str().map(str::to_owned));
        let hint_of_meta = hint_of_meta.map(|hint| self.bounded("_meta", hint, self.limits.text_bytes));
        let always_load = meta.as_ref().and_then(|meta| meta.get("anthropic/alwaysLoad")?.as_bool());
        let annotations = self.json("annotations", Value::is_object).unwrap_or_default();
        let hint = |name: &str| annotations.get(name).and_then(Value::as_bool);
        let text_bytes = self.limits.text_bytes;
        RawTool {
            id: self.text("id", self.limits.name_bytes),
            name: self.text("name", self.limits.name_bytes).unwrap_or_default(),
            upstream_name: None,
            bare_name: None,
            title: self.text("title", text_bytes).or_else(|| {
                let title = annotations.get("title").and_then(Value::as_str)?.to_owned();
                Some(self.bounded("annotations", title, text_bytes))
            }),
            description: self.text("description", text_bytes).unwrap_or_default(),
            input_schema: ["inputSchema", "input_schema", "parameters"].iter().find_map(|key| self.schema(key)),
            output_schema: ["outputSchema", "output_schema"].iter().find_map(|key| self.schema(key)),
            annotations: Annotations {
                read_only: hint("readOnlyHint"),
                destructive: hint("destructiveHint"),
                idempotent: hint("idempotentHint"),
                open_world: hint("openWorldHint"),
            },
            server: self.text("server", self.limits.name_bytes),
            server_description: self.text("server_description", text_bytes),
            origin: crate::Origin::File,
            category: self.text("category", text_bytes),
            search_hint: self.text("search_hint", text_bytes).or(hint_of_meta),
            prompt_instructions: self.text("prompt_instructions", text_bytes),
            aliases: self.aliases(),
            deferred: self
                .json("deferred", Value::is_boolean)
                .and_then(|deferred| deferred.as_bool())
                .or(always_load.map(|always| !always)),
            original: Some(original.to_owned().into()),
            location: None,
        }
    }

    /// Returns a field as JSON if it is present, not `null` and of the right type.
    fn json(&mut self, key: &str, right_type: impl Fn(&Value) -> bool) -> Option<Value> {
        let raw = self.fields.get(key)?;
        let value = serde_json::from_str::<Value>(raw.get()).ok();
        if value.as_ref().is_some_and(Value::is_null) {
            return None;
        }
        let value = value.filter(right_type);
        if value.is_none() {
            self.warn(WarningKind::WrongType, format!("`{key}` has the wrong type and is ignored"));
        }
        value
    }

    fn text(&mut self, key: &str, limit: usize) -> Option<String> {
        let Value::String(text) = self.json(key, Value::is_string)? else { return None };
        Some(self.bounded(key, text, limit))
    }

    fn bounded(&mut self, key: &str, mut text: String, limit: usize) -> String {
        if text.len() > limit {
            self.warn(WarningKind::TooLong, format!("`{key}` is {} bytes; cut to {limit}", text.len()));
            text.truncate(text.floor_char_boundary(limit));
        }
        text
    }

    fn aliases(&mut self) -> Vec<String> {
        let aliases = self.json("aliases", Value::is_array).unwrap_or_default();
        let mut names = Vec::new();
        for alias in aliases.as_array().into_iter().flatten() {
            match alias.as_str() {
                Some(name) => names.push(self.bounded("aliases", name.to_owned(), self.limits.name_bytes)),
                None => self.warn(WarningKind::WrongType, "an alias that is not a string is ignored".to_owned()),
            }
        }
        names
    }

    fn schema(&mut self, key: &str) -> Option<Box<RawValue>> {
        let raw = *self.fields.get(key)?;
        let text = raw.get();
        if text == "null" {
            return None;
        }
        if !text.starts_with('{') {
            let message = format!("`{key}` is not an object; the tool is kept without it");
            self.warn(WarningKind::SchemaNotObject, message);
            return None;
        }
        if text.len() > self.limits.schema_bytes {
            let limit = self.limits.schema_bytes;
            let message = format!("`{key}` is {} bytes, over the limit of {limit}; ignored", text.len());
            self.warn(WarningKind::TooLong, message);
            return None;
        }
        Some(raw.to_owned())
    }

    fn warn(&mut self, kind: WarningKind, message: String) {
        self.warnings.push(Warning { kind, message, location: Some(self.location.clone()) });
    }
}

#[cfg(test)]
mod tests;
