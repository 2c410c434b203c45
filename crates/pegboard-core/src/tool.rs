//! Tools and their servers.

mod piece;

use std::{fmt, sync::Arc};

use serde_json::value::RawValue;

use self::piece::Piece;
use crate::text;

/// The kind of source of a server's tools. Rankers weigh tools of MCP upstreams differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A catalog file.
    #[default]
    File,
    /// A running MCP server.
    Mcp,
    /// The program that embeds Pegboard.
    Host,
}

/// A source of tools; its texts are searchable together with each of its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// The name under which it is configured, or that its tools carry.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// What it is for in a few words, where the user has written that; models read it in place of
    /// words that are derived from the description and the tools.
    pub summary: Option<String>,
    /// What kind of source it is.
    pub origin: Origin,
}

impl Server {
    /// Returns the server without characters that control a terminal.
    pub(crate) fn cleaned(self) -> Self {
        Self {
            name: text::line_owned(self.name),
            description: text::clean_owned(self.description),
            summary: self.summary.map(text::line_owned).filter(|summary| !summary.trim().is_empty()),
            ..self
        }
    }
}

/// The hints of a tool about its effects. Absent hints stay absent: their defaults are the caller's
/// policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may delete or overwrite.
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It reaches things outside its own system.
    pub open_world: Option<bool>,
}

/// The effect that a call may have on the outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// It changes nothing.
    Read,
    /// It adds or changes something.
    Write,
    /// It may delete or overwrite.
    Destructive,
}

impl Annotations {
    /// Returns the effect that a call may have according to the hints; without hints it may be
    /// destructive.
    pub fn risk(self) -> Risk {
        match (self.read_only, self.destructive) {
            (Some(true), _) => Risk::Read,
            (_, Some(false)) => Risk::Write,
            _ => Risk::Destructive,
        }
    }
}

/// A position in a catalog file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, as the user named it.
    pub source: Arc<str>,
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.line)
    }
}

/// A tool as a source describes it, before a [`Catalog`](crate::Catalog) takes it in.
///
/// Any value is valid except an empty `name`; texts are stored as they came and cleaned
/// when they become a [`Tool`].
#[derive(Clone, Debug, Default)]
pub struct RawTool {
    /// Identity, if the source gives one.
    pub id: Option<String>,
    /// The name that a call uses; case-sensitive.
    pub name: String,
    /// Its name at its own server, where `name` was made for models.
    pub upstream_name: Option<String>,
    /// Its name without its server, where the user has renamed it; its server keeps calling it
    /// `upstream_name`.
    pub bare_name: Option<String>,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Option<Box<RawValue>>,
    /// JSON Schema of its result.
    pub output_schema: Option<Box<RawValue>>,
    /// What it says about its effects.
    pub annotations: Annotations,
    /// The server's name.
    pub server: Option<String>,
    /// The server's description, where the source repeats it with each tool.
    pub server_description: Option<String>,
    /// What kind of source the server is.
    pub origin: Origin,
    /// A group within or across servers.
    pub category: Option<String>,
    /// A curated phrase that helps to find it.
    pub search_hint: Option<String>,
    /// When and how to use it.
    pub prompt_instructions: Option<String>,
    /// Further names that it answers to.
    pub aliases: Vec<String>,
    /// Whether it is hidden until searched for; `None` leaves it to the dialect.
    pub deferred: Option<bool>,
    /// The JSON that the tool was read from; shared with its other holders.
    pub original: Option<Arc<RawValue>>,
    /// Where it was read, for messages.
    pub location: Option<Location>,
}

/// One tool of a catalog. Immutable; shared by every snapshot that contains it.
///
/// Catalogs are mostly definitions, so that these are held once: what is a part of `original`
/// is kept as its place there.
#[derive(Debug)]
pub struct Tool {
    id: Box<str>,
    name: Box<str>,
    /// `None` where it is the name.
    upstream_name: Option<Box<str>>,
    /// `None` where it is the name at the server.
    bare_name: Option<Box<str>>,
    title: Option<Box<str>>,
    description: Piece,
    input_schema: Option<Piece>,
    output_schema: Option<Piece>,
    annotations: Annotations,
    origin: Origin,
    category: Option<Box<str>>,
    search_hint: Option<Box<str>>,
    prompt_instructions: Option<Box<str>>,
    aliases: Box<[String]>,
    deferred: Option<bool>,
    original: Option<Arc<RawValue>>,
    server: Option<Arc<Server>>,
}

impl Tool {
    /// Cleans the texts of `raw` and gives it its identity. The caller has checked that
    /// the name is not empty.
    pub(crate) fn new(raw: RawTool, server: Option<Arc<Server>>) -> Self {
        let line = |text: String| text::line_owned(text).into_boxed_str();
        let clean = |text: String| text::clean_owned(text).into_boxed_str();
        let name = line(raw.name);
        let id = match (raw.id.map(line).filter(|id| !id.is_empty()), &server) {
            (Some(id), _) => id,
            (None, Some(server)) => format!("{}/{name}", server.name).into(),
            (None, None) => name.clone(),
        };
        let original = raw.original;
        let json = |schema: Box<RawValue>| Piece::new(schema.get(), original.as_deref());
        Self {
            id,
            bare_name: raw.bare_name.map(line).filter(|bare| Some(&**bare) != raw.upstream_name.as_deref()),
            upstream_name: raw.upstream_name.filter(|upstream| **upstream != *name).map(String::into_boxed_str),
            title: raw.title.map(line),
            description: Piece::new(text::clean_owned(raw.description), original.as_deref()),
            input_schema: raw.input_schema.map(json),
            output_schema: raw.output_schema.map(json),
            annotations: raw.annotations,
            origin: raw.origin,
            category: raw.category.map(line),
            search_hint: raw.search_hint.map(clean),
            prompt_instructions: raw.prompt_instructions.map(clean),
            aliases: raw.aliases.into_iter().map(text::line_owned).collect(),
            deferred: raw.deferred,
            name,
            original,
            server,
        }
    }

    /// Returns the `id` of its source, else `server/name`, else the name. Unique in a catalog.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the name that a call uses.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name at its own server; mostly the same.
    pub fn upstream_name(&self) -> &str {
        self.upstream_name.as_deref().unwrap_or(&self.name)
    }

    /// Returns the name without its server, as users and models know it: the name at the server
    /// unless the user has renamed the tool.
    pub fn bare_name(&self) -> &str {
        self.bare_name.as_deref().unwrap_or_else(|| self.upstream_name())
    }

    /// Returns whether the user has given the tool another name than its server.
    pub fn is_renamed(&self) -> bool {
        self.bare_name.is_some()
    }

    /// Returns `server/name` with the name at its own server, or that name alone. Unlike names for
    /// clients, it does not depend on the number of servers.
    pub fn upstream_id(&self) -> String {
        match self.server_name() {
            Some(server) => format!("{server}/{}", self.upstream_name()),
            None => self.upstream_name().to_owned(),
        }
    }

    /// Returns whether [`upstream_id`](Self::upstream_id) equals `id`.
    pub fn is_upstream_id(&self, id: &str) -> bool {
        let rest = match self.server_name() {
            Some(server) => id.strip_prefix(server).and_then(|rest| rest.strip_prefix('/')),
            None => Some(id),
        };
        rest == Some(self.upstream_name())
    }

    /// Returns the display name.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the description; empty if the source has none.
    pub fn description(&self) -> &str {
        self.description.get(self.original.as_deref())
    }

    /// Returns the JSON Schema of its arguments, unchanged.
    pub fn input_schema(&self) -> Option<&str> {
        self.input_schema.as_ref().map(|schema| schema.get(self.original.as_deref()))
    }

    /// Returns the JSON Schema of its result, unchanged.
    pub fn output_schema(&self) -> Option<&str> {
        self.output_schema.as_ref().map(|schema| schema.get(self.original.as_deref()))
    }

    /// Returns the hints about its effects.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// Returns the server that the tool comes from.
    pub fn server(&self) -> Option<&Arc<Server>> {
        self.server.as_ref()
    }

    /// Returns the name of its server.
    pub fn server_name(&self) -> Option<&str> {
        self.server.as_deref().map(|server| server.name.as_str())
    }

    /// Returns the kind of its source.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns whether the host program registered the tool itself, rather than a server.
    pub fn is_own(&self) -> bool {
        self.server.is_none() || self.origin() == Origin::Host
    }

    /// Returns the category, a group within or across servers.
    pub fn category(&self) -> Option<&str> {
        self.category.as_deref()
    }

    /// Returns a curated phrase that helps to find the tool.
    pub fn search_hint(&self) -> Option<&str> {
        self.search_hint.as_deref()
    }

    /// Returns the instructions about when and how to use the tool.
    pub fn prompt_instructions(&self) -> Option<&str> {
        self.prompt_instructions.as_deref()
    }

    /// Returns further names of the tool.
    pub fn aliases(&self) -> &[String] {
        &self.aliases
    }

    /// Returns whether the tool is hidden until searched for; `None` leaves it to the dialect.
    pub fn deferred(&self) -> Option<bool> {
        self.deferred
    }

    /// Returns the JSON that the tool was read from, byte for byte.
    pub fn original(&self) -> Option<&Arc<RawValue>> {
        self.original.as_ref()
    }

    /// Returns whether `other` is indistinguishable to every caller, so that a snapshot can keep
    /// sharing the older one.
    pub(crate) fn same_content(&self, other: &Self) -> bool {
        fn json(value: &Option<Arc<RawValue>>) -> Option<&str> {
            value.as_deref().map(RawValue::get)
        }
        self.id == other.id
            && self.name == other.name
            && self.upstream_name == other.upstream_name
            && self.bare_name == other.bare_name
            && self.title == other.title
            && self.description() == other.description()
            && self.input_schema() == other.input_schema()
            && self.output_schema() == other.output_schema()
            && self.annotations == other.annotations
            && self.origin == other.origin
            && self.category == other.category
            && self.search_hint == other.search_hint
            && self.prompt_instructions == other.prompt_instructions
            && self.aliases == other.aliases
            && self.deferred == other.deferred
            && json(&self.original) == json(&other.original)
            && self.server == other.server
    }
}
