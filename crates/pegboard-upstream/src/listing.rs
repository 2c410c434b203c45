//! What a server offers, in full and in order.

use std::{sync::Arc, time::Duration};

use pegboard_core::{
    Limits, RawTool,
    catalog::{Warning, WarningKind},
    load, text,
};
use serde_json::json;
use serde_json::value::RawValue;

use crate::{
    connection::{Call, CallError, Link},
    handshake::Hello,
    json::{Fields, Raw, raw},
    rpc::RpcError,
};

/// Lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

impl ListKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists them.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The field of the result that holds them.
    pub fn field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The field that identifies an item.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The capability without which a server has none.
    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The lists that a notification says have changed.
    pub(crate) fn changed_by(method: &str) -> &'static [Self] {
        match method {
            "notifications/tools/list_changed" => &[Self::Tools],
            "notifications/prompts/list_changed" => &[Self::Prompts],
            "notifications/resources/list_changed" => &[Self::Resources, Self::Templates],
            _ => &[],
        }
    }
}

/// One tool, prompt, resource or template.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name or URI at the server.
    pub key: String,
    /// All the server says of it, mended where it was broken.
    pub raw: Raw,
}

impl Item {
    /// A tool as a catalog takes it in, under the name `shown`.
    pub fn to_tool(&self, shown: &str) -> Option<RawTool> {
        let mut exposed = self.raw.clone();
        if shown != self.key {
            let mut fields = Fields::of(&exposed)?;
            fields.set("name", raw(shown));
            exposed = fields.to_raw();
        }
        Self::read_tool(&exposed, shown, &self.key)
    }

    /// [`to_tool`](Self::to_tool) of a definition that carries the name `shown` already.
    pub fn read_tool(definition: &RawValue, shown: &str, key: &str) -> Option<RawTool> {
        let loaded = load::parse(shown, definition.get().as_bytes(), &Limits::default()).ok()?;
        let mut tool = loaded.tools.into_iter().next()?;
        // What a server says of identities and other names is not its to say.
        tool.id = None;
        tool.aliases = if shown == key { Vec::new() } else { vec![key.to_owned()] };
        tool.upstream_name = Some(key.to_owned());
        tool.location = None;
        tool.server_description = None;
        Some(tool)
    }
}

/// What a server offers.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Its tools, as far as they may be used.
    pub tools: Arc<Vec<Item>>,
    /// Its tools that are held back until they are approved.
    pub held: Arc<Vec<Item>>,
    /// All tools that it says it has.
    pub(crate) offered: Arc<Vec<Item>>,
    /// Its prompts.
    pub prompts: Arc<Vec<Item>>,
    /// Its resources.
    pub resources: Arc<Vec<Item>>,
    /// Its resource templates.
    pub templates: Arc<Vec<Item>>,
    /// What was wrong with any of them.
    pub warnings: Vec<String>,
}

impl Lists {
    /// The list of this kind.
    pub fn of(&self, kind: ListKind) -> &Arc<Vec<Item>> {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    fn set(&mut self, kind: ListKind, items: Vec<Item>) {
        let items = Arc::new(items);
        match kind {
            ListKind::Tools => {
                self.offered = Arc::clone(&items);
                self.tools = items;
            }
            ListKind::Prompts => self.prompts = items,
            ListKind::Resources => self.resources = items,
            ListKind::Templates => self.templates = items,
        }
    }
}

/// Items of one list; a server that offers more is cut off, with a warning.
const MAX_ITEMS: usize = 50_000;

/// Pages of one list; a server that gives more is going in circles.
const MAX_PAGES: usize = 2_000;

/// Bytes of one text of a definition: a description of a tool or of one of its parameters. The
/// longest that are meant well have a few thousand; a longer one is cut, and says so.
pub(crate) const MAX_TEXT: usize = 16 << 10;

/// Bytes of one item.
const MAX_ITEM_BYTES: usize = 1 << 20;

/// What optional fields begin with, as JSON.
const TYPES: &[(&str, char)] = &[
    ("title", '"'),
    ("description", '"'),
    ("mimeType", '"'),
    ("annotations", '{'),
    ("outputSchema", '{'),
    ("_meta", '{'),
    ("icons", '['),
    ("arguments", '['),
];

/// Asks for all lists that the server says it has.
pub(crate) async fn list_all(link: &Arc<Link>, hello: &Hello, timeout: Duration) -> Result<Lists, CallError> {
    let mut lists = Lists::default();
    let mut is_first = true;
    for kind in ListKind::ALL {
        if hello.capabilities.has(kind.capability()) {
            match refresh(link, kind, &mut lists, timeout).await {
                Ok(()) => {}
                // A server that cannot list its tools is of no use; without the rest it is.
                Err(error) if is_first => return Err(error),
                Err(error) => lists.warnings.push(format!("`{}` failed: {error}", kind.method())),
            }
        }
        is_first = false;
    }
    Ok(lists)
}

/// Asks for one list again.
pub(crate) async fn refresh(
    link: &Arc<Link>,
    kind: ListKind,
    lists: &mut Lists,
    timeout: Duration,
) -> Result<(), CallError> {
    let prefix = format!("{}: ", kind.field());
    lists.warnings.retain(|warning| !warning.starts_with(&prefix));
    let mut warnings = Vec::new();
    let mut reader =
        Reader { kind, items: Vec::new(), seen: std::collections::HashSet::new(), warnings: &mut warnings };
    let mut cursor: Option<Raw> = None;
    for page in 0.. {
        let mut params = Fields::new();
        if let Some(cursor) = cursor.take() {
            params.set("cursor", cursor);
        }
        let result = match link.request(Call::new(kind.method(), params, timeout)).await {
            Ok(result) => result,
            // Some servers promise what they do not have.
            Err(CallError::Rpc(error)) if error.code == RpcError::METHOD_NOT_FOUND => break,
            Err(error) => return Err(error),
        };
        let fields = Fields::of(&result).ok_or_else(|| CallError::Garbled("a list that is no object".to_owned()))?;
        reader.page(&fields)?;
        cursor = fields.get("nextCursor").filter(|cursor| cursor.get() != "null").map(ToOwned::to_owned);
        if cursor.is_none() {
            break;
        }
        if page >= MAX_PAGES || reader.items.len() >= MAX_ITEMS {
            reader.warn(WarningKind::TooLong, format!("only the first {} are used", reader.items.len()));
            break;
        }
    }
    let items = std::mem::take(&mut reader.items);
    lists.set(kind, items);
    lists.warnings.extend(warnings.into_iter().map(|warning| format!("{prefix}{warning}")));
    Ok(())
}

struct Reader<'a> {
    kind: ListKind,
    items: Vec<Item>,
    seen: std::collections::HashSet<String>,
    warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn page(&mut self, fields: &Fields) -> Result<(), CallError> {
        let missing = || CallError::Garbled(format!("a list without `{}`", self.kind.field()));
        let list = fields.get(self.kind.field()).ok_or_else(missing)?;
        let list: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| missing())?;
        for item in list {
            self.item(item);
        }
        Ok(())
    }

    fn item(&mut self, item: &RawValue) {
        if self.items.len() >= MAX_ITEMS {
            if self.items.len() == MAX_ITEMS && self.seen.insert(String::new()) {
                self.warn(WarningKind::TooLong, format!("only the first {MAX_ITEMS} are used"));
            }
            return;
        }
        // What cannot be read whole (half a character, nested without end) cannot be read by
        // clients either, and would cost them the whole list.
        if serde_json::from_str::<serde_json::Value>(item.get()).is_err() {
            return self.warn(WarningKind::NotATool, "an entry that cannot be read is left out".to_owned());
        }
        let Some(fields) = Fields::of(item) else {
            return self.warn(WarningKind::NotATool, "an entry that is no object is left out".to_owned());
        };
        let Some(key) = fields.text(self.kind.key()).filter(|key| !key.is_empty()) else {
            let message = format!("an entry without `{}` is left out", self.kind.key());
            return self.warn(WarningKind::EmptyName, message);
        };
        if !self.seen.insert(key.clone()) {
            return self.warn(WarningKind::DuplicateTool, format!("a second `{}` is left out", shorten(&key)));
        }
        let (fields, is_mended) = self.without_wrong_types(&key, fields);
        let raw = match self.kind {
            ListKind::Tools => self.mend(&key, fields, is_mended, item),
            _ if is_mended => fields.to_raw(),
            _ => item.to_owned(),
        };
        let raw = self.cleaned(&key, raw);
        if raw.get().len() > MAX_ITEM_BYTES {
            let message = format!("`{}` has {} bytes and is left out", shorten(&key), raw.get().len());
            return self.warn(WarningKind::TooLong, message);
        }
        self.items.push(Item { key, raw });
    }

    /// A tool that every client can read: its schema is an object schema, and its
    /// description is not without end.
    fn mend(&mut self, name: &str, mut fields: Fields, mut is_mended: bool, item: &RawValue) -> Raw {
        match fields.object("inputSchema") {
            None => {
                self.warn(
                    WarningKind::SchemaNotObject,
                    format!("`{}` has no usable schema; any object fits", shorten(name)),
                );
                fields.set("inputSchema", raw(&json!({"type": "object"})));
                is_mended = true;
            }
            Some(schema) if !schema.has("type") => {
                self.warn(
                    WarningKind::WrongType,
                    format!("the schema of `{}` has no `type`; it is an object's", shorten(name)),
                );
                let mut mended = Fields::new().with("type", "object");
                schema.iter().for_each(|(key, value)| mended.set(key, value.to_owned()));
                fields.set("inputSchema", mended.to_raw());
                is_mended = true;
            }
            Some(mut schema) => {
                let mut is_wrong = schema.text("type").as_deref() != Some("object");
                if is_wrong {
                    schema.set("type", raw("object"));
                }
                for (key, fits) in [("properties", '{'), ("required", '[')] {
                    if schema.get(key).is_some_and(|value| !value.get().starts_with(fits)) {
                        schema.remove(key);
                        is_wrong = true;
                    }
                }
                if is_wrong {
                    self.warn(
                        WarningKind::WrongType,
                        format!("the schema of `{}` is not an object's; mended", shorten(name)),
                    );
                    fields.set("inputSchema", schema.to_raw());
                    is_mended = true;
                }
            }
        }
        if let Some(text) = fields.text("description").filter(|text| text.len() > MAX_TEXT) {
            let message =
                format!("the description of `{}` has {} bytes and is cut to {MAX_TEXT}", shorten(name), text.len());
            self.warn(WarningKind::TooLong, message);
            fields.set("description", raw(&text::bounded(&text, MAX_TEXT)));
            is_mended = true;
        }
        if is_mended { fields.to_raw() } else { item.to_owned() }
    }

    /// The entry with its texts fit to be shown; called it is by its own name all the same.
    fn cleaned(&mut self, key: &str, item: Raw) -> Raw {
        // A URI is how a resource is read; its name is for people.
        let clean = text::clean_definition(item.get(), "name", MAX_TEXT);
        let Some(clean) = clean.and_then(|clean| RawValue::from_string(clean).ok()) else { return item };
        // Line ends of Windows are not worth a word.
        let is_news = text::clean_definition(&item.get().replace("\\r", ""), "name", MAX_TEXT).is_some();
        if is_news {
            let message = format!("`{}` has hidden characters or too long a text, which are left out", shorten(key));
            self.warn(WarningKind::HiddenCharacters, message);
        }
        clean
    }

    /// The entry without optional fields that are not what they must be: one of them would
    /// cost strict clients the whole list.
    fn without_wrong_types(&mut self, key: &str, mut fields: Fields) -> (Fields, bool) {
        let mut is_mended = false;
        for (field, fits) in TYPES {
            let Some(value) = fields.get(field) else { continue };
            if !value.get().starts_with(*fits) {
                self.warn(
                    WarningKind::WrongType,
                    format!("`{field}` of `{}` has the wrong type and is left out", shorten(key)),
                );
                fields.remove(field);
                is_mended = true;
            }
        }
        // Everything has a name by which people know it.
        if !fields.has("name") {
            fields.set("name", raw(key));
            is_mended = true;
        }
        (fields, is_mended)
    }

    fn warn(&mut self, kind: WarningKind, message: String) {
        const MOST: usize = 100;
        if self.warnings.len() < MOST {
            self.warnings.push(Warning { kind, message, location: None }.to_string());
        }
    }
}

fn shorten(name: &str) -> String {
    text::brief(name, 80)
}
