//! OpenAPI 3 descriptions as catalogs: every operation becomes a tool.
//!
//! Only searching needs this form: a tool has the name, description and arguments of its
//! operation, and nothing here sends a request. The document is outside input. References are
//! expanded within bounds on depth, bytes per schema and work per document, so that a schema
//! that contains itself, or doubles with every reference, costs no more than a large one.

mod arguments;
mod document;
mod naming;
mod prose;
mod schema;

use std::rc::Rc;

use serde_json::value::RawValue;

use self::{
    arguments::Inputs,
    document::Document,
    schema::{Expander, MAX_LEVELS},
};
use super::{Fields, Lines, LoadLimits, Loaded, is_tool};
use crate::{
    Origin,
    catalog::{Warning, WarningKind},
    text,
    tool::{Annotations, Location, RawTool},
};

/// Bytes of an expanded input schema. More than a model can use, and a nested schema that is
/// left out accepts every value.
const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// Bytes of a tool's description.
const MAX_DESCRIPTION_BYTES: usize = 2 << 10;

/// Bytes of the server's description. Introductions to whole APIs are long, and are searched
/// with every tool.
const MAX_SERVER_DESCRIPTION_BYTES: usize = 512;

/// Schema levels to keep, in the order in which they are tried until the schema is small enough.
const LEVELS: [usize; 6] = [MAX_LEVELS, 6, 4, 3, 2, 1];

/// Methods of a path that are operations, and what they say about effects. Everything else
/// beside them (`parameters`, `servers`, `x-…`) is not one.
const METHODS: [(&str, Annotations); 9] = [
    ("get", READ_ONLY),
    ("head", READ_ONLY),
    ("options", READ_ONLY),
    ("trace", READ_ONLY),
    ("query", READ_ONLY),
    ("put", Annotations { idempotent: Some(true), ..NO_HINTS }),
    ("delete", Annotations { destructive: Some(true), ..NO_HINTS }),
    ("post", NO_HINTS),
    ("patch", NO_HINTS),
];
const NO_HINTS: Annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
const READ_ONLY: Annotations = Annotations { read_only: Some(true), ..NO_HINTS };

/// Why an API description is not usable as a catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// A description in the format before OpenAPI 3.
    #[error("Swagger `{version}` is not supported, only OpenAPI 3")]
    Swagger {
        /// Its version.
        version: String,
    },
    /// A version that does not begin with `3.`.
    #[error("OpenAPI version `{version}` is not supported, only 3.x")]
    Version {
        /// Its version.
        version: String,
    },
    /// A description in YAML.
    #[error("the file is YAML, and only JSON is supported")]
    Yaml,
    /// `paths` that is not an object.
    #[error("`paths` is not an object")]
    InvalidPaths {
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A description without operations.
    #[error("no operations in `paths`")]
    NoOperations,
}

impl OpenApiError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Swagger { .. } => {
                "convert it to OpenAPI 3, for example with `npx swagger2openapi swagger.json -o openapi.json`"
            }
            Self::Version { .. } => "convert it to OpenAPI 3.0 or 3.1",
            Self::Yaml => "convert it to JSON, for example with `yq -o=json openapi.yaml > openapi.json`",
            Self::InvalidPaths { .. } | Self::NoOperations => {
                "`paths` holds one object for each path, with a method such as `get` in it"
            }
        }
    }
}

/// Whether these are the top-level fields of an API description.
pub(super) fn is_description(fields: &Fields<'_>) -> bool {
    !is_tool(fields) && !fields.contains_key("tools") && version_of(fields).is_some()
}

/// Whether `text` is an API description in YAML.
pub(super) fn is_yaml(text: &str) -> bool {
    let is_version = |line: &str| {
        let key = line.trim_start_matches(['"', '\'']);
        let rest = key.strip_prefix("openapi").or_else(|| key.strip_prefix("swagger"));
        rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    !text.trim_start().starts_with(['{', '[']) && text.lines().any(is_version)
}

/// The version, under the name of its format.
fn version_of(fields: &Fields<'_>) -> Option<(&'static str, String)> {
    let version = |key: &'static str| Some((key, document::text_of(fields, key)?));
    version("openapi").or_else(|| version("swagger"))
}

fn check_version(fields: &Fields<'_>) -> Result<(), OpenApiError> {
    let brief = |version: &str| text::brief(version, 40);
    match version_of(fields) {
        Some(("swagger", version)) => Err(OpenApiError::Swagger { version: brief(&version) }),
        Some((_, version)) if !version.starts_with("3.") => Err(OpenApiError::Version { version: brief(&version) }),
        _ => Ok(()),
    }
}

/// Turns the operations of a description into tools, in the order of the document.
pub(super) fn convert<'a>(
    fields: Fields<'a>,
    lines: &mut Lines<'a>,
    limits: &LoadLimits,
) -> Result<Loaded, OpenApiError> {
    check_version(&fields)?;
    let mut document = Document::new(fields).map_err(|source| OpenApiError::InvalidPaths { source })?;
    let operations = operations(&mut document);
    if operations.is_empty() {
        return Err(OpenApiError::NoOperations);
    }
    let names = naming::tool_names(&operations, limits.name_bytes);
    let info = document.info();
    let server = naming::server_name(info.title.as_deref().unwrap_or_default(), &lines.source, limits.name_bytes);
    let mut loaded = Loaded::default();
    for (operation, name) in operations.iter().zip(names.iter()) {
        let location = lines.locate(operation.place);
        let mut converter = Converter { document: &mut document, limits, location, warnings: &mut loaded.warnings };
        let mut tool = converter.tool(operation, name);
        tool.server = Some(server.clone());
        loaded.tools.push(tool);
    }
    if document.is_exhausted() {
        let message = "the schemas of the file are too large; some tools are left without theirs".to_owned();
        let location = Some(lines.locate(lines.text));
        loaded.warnings.push(Warning { kind: WarningKind::TooLong, message, location });
    }
    // A catalog takes a server's description from the first tool that has one.
    let most = MAX_SERVER_DESCRIPTION_BYTES.min(limits.text_bytes);
    let description = info.description.map(|description| prose::first_paragraph(&description, most));
    loaded.tools[0].server_description = description.filter(|description| !description.is_empty());
    Ok(loaded)
}

/// One method of one path.
struct Operation<'a> {
    method: &'static str,
    annotations: Annotations,
    path: Rc<str>,
    raw: &'a RawValue,
    /// The text to name in messages: of the operation, or of the path that refers to it. The
    /// places of operations are in the order of the document, which makes finding their lines cheap.
    place: &'a str,
    /// The parameters of all operations of the path.
    shared: Option<&'a RawValue>,
}

impl<'a> Operation<'a> {
    fn fields(&self) -> Fields<'a> {
        serde_json::from_str(self.raw.get()).unwrap_or_default()
    }
}

fn operations<'a>(document: &mut Document<'a>) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    for (path, item) in document.paths() {
        let item_text = item.get();
        let item = document.path_item(item);
        for (key, raw) in document::in_order(&item) {
            let method = METHODS.iter().find(|(method, _)| *method == key);
            if let Some((method, annotations)) = method.filter(|_| raw.get().starts_with('{')) {
                let shared = item.get("parameters").copied();
                let path = Rc::clone(&path);
                let is_inside = item_text.as_bytes().as_ptr_range().contains(&raw.get().as_ptr());
                let place = if is_inside { raw.get() } else { item_text };
                operations.push(Operation { method, annotations: *annotations, path, raw, place, shared });
            }
        }
    }
    operations
}

/// Turns one operation into a tool.
struct Converter<'c, 'a> {
    document: &'c mut Document<'a>,
    limits: &'c LoadLimits,
    location: Location,
    warnings: &'c mut Vec<Warning>,
}

impl<'a> Converter<'_, 'a> {
    fn tool(&mut self, operation: &Operation<'a>, name: &str) -> RawTool {
        let fields = operation.fields();
        let inputs = self.inputs(operation, &fields);
        let tags = fields.get("tags").and_then(|tags| serde_json::from_str::<Vec<String>>(tags.get()).ok());
        let tag = tags.and_then(|tags| tags.into_iter().next()).filter(|tag| !tag.trim().is_empty());
        RawTool {
            name: name.to_owned(),
            description: prose::description(
                &document::text_of(&fields, "summary").unwrap_or_default(),
                &document::text_of(&fields, "description").unwrap_or_default(),
                fields.get("deprecated").is_some_and(|deprecated| deprecated.get() == "true"),
                MAX_DESCRIPTION_BYTES.min(self.limits.text_bytes),
            ),
            input_schema: self.input_schema(name, &inputs),
            annotations: operation.annotations,
            origin: Origin::File,
            category: tag.map(|tag| text::brief(&tag, naming::MAX_NAME_BYTES.min(self.limits.text_bytes))),
            location: Some(self.location.clone()),
            ..RawTool::default()
        }
    }

    fn inputs(&mut self, operation: &Operation<'a>, fields: &Fields<'a>) -> Inputs {
        let mut inputs = Inputs::default();
        for raw in [operation.shared, fields.get("parameters").copied()].into_iter().flatten() {
            // Operations share them, so that a small document can ask for much.
            if !self.document.spend(raw.get().len()) {
                break;
            }
            match serde_json::from_str(raw.get()) {
                Ok(parameters) => inputs.add_parameters(&parameters, self.document),
                Err(error) => self.ignored("parameters", &error),
            }
        }
        if let Some(raw) = fields.get("requestBody") {
            match serde_json::from_str(raw.get()) {
                Ok(body) => inputs.set_body(&body, self.document),
                Err(error) => self.ignored("requestBody", &error),
            }
        }
        inputs
    }

    /// The schema with as many levels as fit within the bounds.
    fn input_schema(&mut self, name: &str, inputs: &Inputs) -> Option<Box<RawValue>> {
        if self.document.is_exhausted() {
            return None;
        }
        let most = MAX_SCHEMA_BYTES.min(self.limits.schema_bytes);
        let found = LEVELS.into_iter().find_map(|levels| Some((levels, self.expanded(inputs, levels, most)?)));
        for reference in self.document.take_unresolved() {
            let message = format!("`$ref` `{}` cannot be resolved; ignored", text::brief(&reference, 200));
            self.warn(WarningKind::UnresolvedReference, message);
        }
        let outcome = match found {
            Some((MAX_LEVELS, _)) => None,
            Some((levels, _)) => Some(format!("is over the limit of {most} bytes; cut to {levels} levels")),
            // Said once, of the whole document.
            None if self.document.is_exhausted() => None,
            None => Some(format!("is over the limit of {most} bytes; ignored")),
        };
        if let Some(outcome) = outcome {
            self.warn(WarningKind::TooLong, format!("the input schema of `{name}` {outcome}"));
        }
        found.map(|(_, schema)| schema)
    }

    fn expanded(&mut self, inputs: &Inputs, levels: usize, most: usize) -> Option<Box<RawValue>> {
        let schema = inputs.to_schema(&mut Expander::new(self.document, levels, most)).ok()?;
        serde_json::value::to_raw_value(&schema).ok().filter(|raw| raw.get().len() <= most)
    }

    fn ignored(&mut self, key: &str, error: &serde_json::Error) {
        self.warn(WarningKind::WrongType, format!("`{key}` cannot be read and is ignored: {error}"));
    }

    fn warn(&mut self, kind: WarningKind, message: String) {
        self.warnings.push(Warning { kind, message, location: Some(self.location.clone()) });
    }
}

#[cfg(test)]
mod tests;
