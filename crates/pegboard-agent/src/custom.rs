//! Tools of the host program.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use pegboard_core::{Annotations, Origin, RawTool};
use pegboard_discovery::HostTool;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::to_raw_value};

/// Maximum length of a tool name that every provider accepts.
const MAX_NAME: usize = 64;

/// Maximum number of registered tools.
const MAX_TOOLS: usize = 10_000;

/// The error of a tool; its text is shown to the model.
pub type ToolError = Box<dyn Error + Send + Sync>;

/// The output of a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutput {
    /// Plain text.
    Text(String),
    /// A JSON value; the model reads it as JSON text.
    Json(Value),
}

impl ToolOutput {
    /// Returns the text for the model.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Json(Value::String(text)) => text,
            Self::Json(value) => value.to_string(),
        }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

/// The future of a tool's output.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// Runs a tool. Closures from arguments to a future are handlers.
pub trait ToolHandler: Send + Sync + 'static {
    /// Runs the tool with these arguments.
    fn call(&self, arguments: Value) -> ToolFuture;
}

impl<F, Fut, R> ToolHandler for F
where
    F: Fn(Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    R: Into<ToolOutput>,
{
    fn call(&self, arguments: Value) -> ToolFuture {
        let answering = self(arguments);
        Box::pin(async move { answering.await.map(Into::into) })
    }
}

/// The definition of a tool for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDef {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
}

impl ToolDef {
    /// Creates a definition with this schema of the arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self { name: name.into(), description: description.into(), input_schema }
    }

    /// Creates a definition with the schema of type `A`.
    pub fn of<A: JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, description, schema_of::<A>())
    }
}

/// Returns the schema of a type, without the fields that a model does not need.
fn schema_of<A: JsonSchema>() -> Value {
    let mut schema = schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<A>();
    schema.remove("$schema");
    schema.remove("title");
    let mut schema = schema.to_value();
    if schema.get("type").and_then(Value::as_str) == Some("null") {
        // `()` and similar types have no arguments.
        schema = json!({"type": "object", "properties": {}});
    }
    schema
}

/// When and how a tool is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolMeta {
    /// Whether the tool is hidden until it is searched for; `None` leaves that to the dialect.
    pub deferred: Option<bool>,
    /// A phrase by which the tool is found in addition to its description.
    pub hint: Option<String>,
    /// When to use the tool, for models that search.
    pub prompt_instructions: Option<String>,
    /// The category. `structured_output` and `human` tools are always visible.
    pub category: Option<String>,
    /// The annotations: whether the tool is read-only or destructive.
    pub annotations: Annotations,
    /// Whether a successful call ends the run.
    pub ends_run: bool,
}

impl ToolMeta {
    /// Makes the tool visible from the start.
    pub fn eager() -> Self {
        Self { deferred: Some(false), ..Self::default() }
    }

    /// Hides the tool until it is searched for.
    pub fn deferred() -> Self {
        Self { deferred: Some(true), ..Self::default() }
    }

    /// Hides the tool until it is searched for; `hint` also finds it.
    pub fn deferred_with_hint(hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..Self::deferred() }
    }

    /// Puts the tool into a category.
    pub fn in_category(category: impl Into<String>) -> Self {
        Self { category: Some(category.into()), ..Self::default() }
    }
}

/// A tool of the host program: its definition, its visibility and its handler.
#[derive(Clone)]
pub struct CustomTool {
    pub(crate) def: ToolDef,
    pub(crate) meta: ToolMeta,
    /// `None` if the user answers instead.
    pub(crate) handler: Option<Arc<dyn ToolHandler>>,
}

impl CustomTool {
    /// Creates a tool that `handler` runs.
    pub fn new(def: ToolDef, handler: impl ToolHandler) -> Self {
        Self { def, meta: ToolMeta::default(), handler: Some(Arc::new(handler)) }
    }

    /// Creates a tool whose arguments are deserialized into an `A`; the schema is derived from the
    /// type.
    ///
    /// ```
    /// use pegboard_agent::{CustomTool, schemars::JsonSchema};
    ///
    /// #[derive(JsonSchema, serde::Deserialize)]
    /// #[schemars(crate = "pegboard_agent::schemars")]
    /// struct Place {
    ///     /// The city
    ///     city: String,
    /// }
    ///
    /// let tool = CustomTool::typed("get_weather", "The weather of a city", async |place: Place| {
    ///     Ok(format!("sunny in {}", place.city))
    /// })
    /// .with_hint("forecast")
    /// .with_prompt_instructions("Only for the next seven days.");
    /// ```
    pub fn typed<A, R, F, Fut>(name: impl Into<String>, description: impl Into<String>, work: F) -> Self
    where
        A: JsonSchema + DeserializeOwned,
        R: Into<ToolOutput>,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let handler = move |arguments: Value| -> ToolFuture {
            match serde_json::from_value(arguments) {
                Ok(arguments) => {
                    let answering = work(arguments);
                    Box::pin(async move { answering.await.map(Into::into) })
                }
                Err(error) => Box::pin(async move { Err(format!("invalid arguments: {error}").into()) }),
            }
        };
        Self::new(ToolDef::of::<A>(name, description), handler)
    }

    /// Creates a tool that asks the user and returns the answer. It is only offered if there is a
    /// user to ask.
    pub fn human(def: ToolDef) -> Self {
        Self { def, meta: ToolMeta::in_category("human"), handler: None }
    }

    /// Sets when and how the tool is shown.
    #[must_use]
    pub fn with_meta(mut self, meta: ToolMeta) -> Self {
        self.meta = meta;
        self
    }

    /// Puts the tool into a category.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.meta.category = Some(category.into());
        self
    }

    /// Adds a phrase by which the tool is found.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.meta.hint = Some(hint.into());
        self
    }

    /// Adds instructions on when to use the tool, for models that search.
    #[must_use]
    pub fn with_prompt_instructions(mut self, text: impl Into<String>) -> Self {
        self.meta.prompt_instructions = Some(text.into());
        self
    }

    /// Makes the tool visible from the start.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.meta.deferred = Some(false);
        self
    }

    /// Hides the tool until it is searched for.
    #[must_use]
    pub fn deferred(mut self) -> Self {
        self.meta.deferred = Some(true);
        self
    }

    /// Marks the tool as read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.meta.annotations.read_only = Some(true);
        self
    }

    /// Marks the tool as destructive: it may delete or overwrite.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.meta.annotations.destructive = Some(true);
        self
    }

    fn to_raw(&self) -> RawTool {
        RawTool {
            name: self.def.name.clone(),
            description: self.def.description.clone(),
            input_schema: to_raw_value(&self.def.input_schema).ok(),
            annotations: self.meta.annotations,
            origin: Origin::Host,
            category: self.meta.category.clone(),
            search_hint: self.meta.hint.clone(),
            prompt_instructions: self.meta.prompt_instructions.clone(),
            deferred: self.meta.deferred,
            ..RawTool::default()
        }
    }
}

impl fmt::Debug for CustomTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CustomTool");
        shown.field("def", &self.def).field("meta", &self.meta).finish_non_exhaustive()
    }
}

/// Why a tool cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is not accepted by every provider.
    #[error(
        "`{name}` is not a valid tool name: use up to {MAX_NAME} letters, digits, `_` and `-`, beginning with a \
         letter or `_`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The name belongs to a built-in tool of the agent.
    #[error("`{name}` is the name of a built-in tool of the agent")]
    Reserved {
        /// The name.
        name: String,
    },
    /// The schema is not an object schema.
    #[error("the schema of `{name}` is not an object schema")]
    Schema {
        /// The tool.
        name: String,
    },
    /// Too many tools are registered.
    #[error("too many tools: the limit is {MAX_TOOLS}")]
    TooMany,
}

/// The tools of the host program. Clones share the tools; a tool that is registered later is also
/// found in running conversations.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The tools in the order of their registration.
    tools: RwLock<BTreeMap<u64, CustomTool>>,
    /// Incremented with every change.
    version: AtomicU64,
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a tool. The dialect decides whether it is visible at once.
    ///
    /// # Errors
    /// If the definition is invalid or there are too many tools.
    pub fn register(&self, def: ToolDef, handler: impl ToolHandler) -> Result<(), RegisterError> {
        self.add(CustomTool::new(def, handler))
    }

    /// Registers a tool with settings on when and how it is shown.
    ///
    /// # Errors
    /// If the definition is invalid or there are too many tools.
    pub fn register_with_meta(
        &self,
        def: ToolDef,
        handler: impl ToolHandler,
        meta: ToolMeta,
    ) -> Result<(), RegisterError> {
        self.add(CustomTool::new(def, handler).with_meta(meta))
    }

    /// Registers a tool. It replaces a tool of the same name and keeps its position.
    ///
    /// # Errors
    /// If the definition is invalid or there are too many tools.
    pub fn add(&self, mut tool: CustomTool) -> Result<(), RegisterError> {
        check(&tool.def)?;
        // Providers require the field, even in an empty schema.
        if let Value::Object(schema) = &mut tool.def.input_schema {
            schema.entry("type").or_insert_with(|| "object".into());
        }
        let mut tools = self.inner.tools.write().unwrap_or_else(PoisonError::into_inner);
        let before = tools.iter().find(|(_, other)| other.def.name == tool.def.name).map(|(place, _)| *place);
        if before.is_none() && tools.len() >= MAX_TOOLS {
            return Err(RegisterError::TooMany);
        }
        let place = before.unwrap_or_else(|| tools.last_key_value().map_or(0, |(last, _)| last + 1));
        tools.insert(place, tool);
        self.inner.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a tool; `false` if there is none with this name.
    pub fn remove(&self, name: &str) -> bool {
        let mut tools = self.inner.tools.write().unwrap_or_else(PoisonError::into_inner);
        let before = tools.len();
        tools.retain(|_, tool| tool.def.name != name);
        let is_gone = tools.len() < before;
        if is_gone {
            self.inner.version.fetch_add(1, Ordering::Release);
        }
        is_gone
    }

    /// Returns the names of the tools, in the order of their registration.
    pub fn names(&self) -> Vec<String> {
        self.read(|tools| tools.values().map(|tool| tool.def.name.clone()).collect())
    }

    pub(crate) fn version(&self) -> u64 {
        self.inner.version.load(Ordering::Acquire)
    }

    pub(crate) fn find(&self, name: &str) -> Option<CustomTool> {
        self.read(|tools| tools.values().find(|tool| tool.def.name == name).cloned())
    }

    /// Returns the tools for the catalog; questions only if there is a user to ask.
    pub(crate) fn to_raw(&self, has_human: bool) -> Vec<RawTool> {
        let is_offered = |tool: &&CustomTool| tool.handler.is_some() || has_human;
        self.read(|tools| tools.values().filter(is_offered).map(CustomTool::to_raw).collect())
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<u64, CustomTool>) -> T) -> T {
        look(&self.inner.tools.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn check(def: &ToolDef) -> Result<(), RegisterError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = || -> Cow<'_, str> { def.name.chars().take(MAX_NAME + 1).collect() };
    let is_begun = def.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_begun || def.name.len() > MAX_NAME || !def.name.chars().all(is_safe) {
        return Err(RegisterError::Name { name: name().into_owned() });
    }
    if HostTool::from_name(&def.name).is_some() {
        return Err(RegisterError::Reserved { name: def.name.clone() });
    }
    let kind = def.input_schema.get("type");
    if !def.input_schema.is_object() || kind.is_some_and(|kind| kind != "object") {
        return Err(RegisterError::Schema { name: def.name.clone() });
    }
    Ok(())
}
