//! The lists of a server: tools, prompts, resources and templates, complete and in order.

mod page;

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use pegboard_core::{LoadLimits, RawTool, catalog::WarningKind, load};
use serde_json::value::RawValue;

use self::page::PageReader;
#[cfg(fuzzing)]
pub(crate) use self::page::read_page;

use pegboard_mcp::{
    json::{Fields, Raw, SharedRaw},
    rpc::RpcError,
};

use crate::{
    connection::{Call, CallError, Link},
    handshake::Hello,
};

/// A kind of list that a server can have.
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
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// Returns the method that requests the list.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// Returns the field of the result that holds the list.
    pub fn field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the field that identifies an item.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The capability without which a server has none.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// Returns the lists that have changed according to a notification.
    pub(crate) fn changed_by(method: &str) -> &'static [Self] {
        match method {
            "notifications/tools/list_changed" => &[Self::Tools],
            "notifications/prompts/list_changed" => &[Self::Prompts],
            "notifications/resources/list_changed" => &[Self::Resources, Self::Templates],
            _ => &[],
        }
    }

    /// Returns the notification by which clients learn that the list has changed.
    pub(crate) fn change_notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
        }
    }
}

/// One tool, prompt, resource or template.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name or URI at the server.
    pub key: String,
    /// The definition by the server, with invalid parts repaired.
    pub raw: SharedRaw,
}

impl Item {
    /// Reads a tool for a catalog from its definition, which carries the name `shown`. `bare` is its
    /// name without its server, `key` its name at the server.
    pub fn read_tool(definition: SharedRaw, shown: &str, bare: &str, key: &str) -> Option<RawTool> {
        let read = without_catalog_keys(&definition);
        let loaded = load::parse(shown, read.get().as_bytes(), &LoadLimits::default()).ok()?;
        let mut tool = loaded.tools.into_iter().next()?;
        // Clients get what the server wrote.
        tool.original = Some(definition);
        // A server must not set identities and other names.
        tool.id = None;
        shown.clone_into(&mut tool.name);
        tool.aliases = if shown == bare { Vec::new() } else { vec![bare.to_owned()] };
        tool.upstream_name = Some(key.to_owned());
        tool.bare_name = (bare != key).then(|| bare.to_owned());
        // Only the user decides which tools are always listed.
        tool.deferred = None;
        tool.location = None;
        tool.server_description = None;
        Some(tool)
    }
}

/// Keys that exist in catalog files but not in the protocol: their values would be shown and
/// searched without having been compared with the approved definition.
const CATALOG_KEYS: [&str; 12] = [
    "function",
    "id",
    "server",
    "server_description",
    "input_schema",
    "parameters",
    "output_schema",
    "prompt_instructions",
    "search_hint",
    "category",
    "aliases",
    "deferred",
];

/// Returns the definition without the keys that only catalog files have.
fn without_catalog_keys(definition: &RawValue) -> Cow<'_, RawValue> {
    // Few have any; a text search is cheaper than parsing all of them.
    let may_have = |key: &&str| definition.get().contains(&format!("\"{key}\""));
    if !CATALOG_KEYS.iter().any(may_have) && !definition.get().contains("\\u") {
        return Cow::Borrowed(definition);
    }
    let Some(mut fields) = Fields::of(definition) else { return Cow::Borrowed(definition) };
    for key in CATALOG_KEYS {
        fields.remove(key);
    }
    Cow::Owned(fields.to_raw())
}

/// The lists of one server.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// The tools that may be used.
    pub tools: Arc<Vec<Item>>,
    /// The tools that are held until they are approved.
    pub held: Arc<Vec<Item>>,
    /// All tools that the server lists.
    pub(crate) offered: Arc<Vec<Item>>,
    /// The prompts.
    pub prompts: Arc<Vec<Item>>,
    /// The resources.
    pub resources: Arc<Vec<Item>>,
    /// The resource templates.
    pub templates: Arc<Vec<Item>>,
    /// Warnings about invalid entries of any list.
    pub warnings: Vec<String>,
}

impl Lists {
    /// Returns the list of this kind.
    pub fn of(&self, kind: ListKind) -> &Arc<Vec<Item>> {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    /// Takes over one list of `newer`, and its warnings.
    pub(crate) fn take_from(&mut self, newer: &Self, kind: ListKind) {
        match kind {
            ListKind::Tools => {
                self.offered = Arc::clone(&newer.offered);
                self.tools = Arc::clone(&newer.tools);
                self.held = Arc::clone(&newer.held);
            }
            ListKind::Prompts => self.prompts = Arc::clone(&newer.prompts),
            ListKind::Resources => self.resources = Arc::clone(&newer.resources),
            ListKind::Templates => self.templates = Arc::clone(&newer.templates),
        }
        self.warnings.clone_from(&newer.warnings);
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

/// Replaces `list` by `before` if both are equal, and otherwise shares the texts that both
/// have: data derived from those keeps them in memory anyway.
pub(crate) fn share_unchanged(list: &mut Arc<Vec<Item>>, before: &Arc<Vec<Item>>) {
    let is_same = |one: &Item, other: &Item| one.key == other.key && one.raw.get() == other.raw.get();
    if list.len() == before.len() && list.iter().zip(before.iter()).all(|(one, other)| is_same(one, other)) {
        *list = Arc::clone(before);
        return;
    }
    let known: HashMap<&str, &Item> = before.iter().map(|item| (item.key.as_str(), item)).collect();
    let shared = |item: &Item| {
        let old = known.get(item.key.as_str()).filter(|old| is_same(item, old));
        old.map_or_else(|| item.clone(), |old| (*old).clone())
    };
    *list = Arc::new(list.iter().map(shared).collect());
}

/// Maximum number of items of one list; further ones are dropped with a warning.
const MAX_ITEMS: usize = 50_000;

/// Maximum number of bytes of one list.
const MAX_LIST_BYTES: usize = 64 << 20;

/// Maximum number of pages of one list, in case the cursors of a server are a cycle.
const MAX_PAGES: usize = 2_000;

/// Maximum number of bytes of one text of a definition: a description of a tool or of one of its
/// parameters. The longest useful ones have a few thousand; a longer one is cut, with a mark.
pub(crate) const MAX_TEXT: usize = 16 << 10;

/// Requests all lists that the server declares.
pub(crate) async fn list_all(link: &Arc<Link>, hello: &Hello, timeout: Duration) -> Result<Lists, CallError> {
    let mut lists = Lists::default();
    let mut is_first = true;
    for kind in ListKind::ALL {
        if hello.capabilities.has(kind.capability()) {
            match refresh_list(link, kind, &mut lists, timeout).await {
                Ok(()) => {}
                // A server that cannot list its tools is unusable; one without the other lists is not.
                Err(error) if is_first => return Err(error),
                Err(error) => lists.warnings.push(format!("`{}` failed: {error}", kind.method())),
            }
        }
        is_first = false;
    }
    Ok(lists)
}

/// Requests one list again.
pub(crate) async fn refresh_list(
    link: &Arc<Link>,
    kind: ListKind,
    lists: &mut Lists,
    timeout: Duration,
) -> Result<(), CallError> {
    let prefix = format!("{}: ", kind.field());
    lists.warnings.retain(|warning| !warning.starts_with(&prefix));
    let mut warnings = Vec::new();
    let mut reader = PageReader::new(kind, &mut warnings);
    let mut cursor: Option<Raw> = None;
    for page in 0.. {
        let mut params = Fields::new();
        if let Some(cursor) = cursor.take() {
            params.set("cursor", cursor);
        }
        let result = match link.call(Call::new(kind.method(), params, timeout)).await {
            Ok(result) => result,
            // Some servers declare capabilities that they do not have.
            Err(CallError::Rpc(error)) if error.code == RpcError::METHOD_NOT_FOUND => break,
            Err(error) => return Err(error),
        };
        cursor = reader.read_page(&result)?;
        if cursor.is_none() {
            break;
        }
        if page >= MAX_PAGES || reader.items.len() >= MAX_ITEMS || reader.bytes > MAX_LIST_BYTES {
            reader.warn(
                WarningKind::TooLong,
                format!("list too long; only the first {} entries are used", reader.items.len()),
            );
            break;
        }
    }
    let items = std::mem::take(&mut reader.items);
    lists.set(kind, items);
    lists.warnings.extend(warnings.into_iter().map(|warning| format!("{prefix}{warning}")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use pegboard_mcp::json::raw;

    use super::*;

    #[test]
    fn unchanged_texts_are_shared() {
        let list = |items: &[(&str, u8)]| {
            let item = |(key, says): &(&str, u8)| Item { key: (*key).to_owned(), raw: raw(says).into() };
            Arc::new(items.iter().map(item).collect::<Vec<_>>())
        };
        let before = list(&[("a", 1), ("b", 2), ("c", 3)]);
        let mut same = list(&[("a", 1), ("b", 2), ("c", 3)]);
        share_unchanged(&mut same, &before);
        assert!(Arc::ptr_eq(&same, &before));
        let mut changed = list(&[("d", 3), ("b", 2), ("a", 4)]);
        share_unchanged(&mut changed, &before);
        let says = |item: &Item| (item.key.clone(), item.raw.get().to_owned());
        let pairs = [("d", "3"), ("b", "2"), ("a", "4")].map(|(key, text)| (key.to_owned(), text.to_owned()));
        assert_eq!(changed.iter().map(says).collect::<Vec<_>>(), pairs);
        let is_shared = |item: &Item| before.iter().any(|old| Arc::ptr_eq(&old.raw, &item.raw));
        assert_eq!(changed.iter().map(is_shared).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn keys_outside_the_protocol_are_ignored() {
        let injected = r#""name":"y","description":"injected","inputSchema":{"type":"object","required":["z"]}"#;
        for key in ["function", "\\u0066unction"] {
            let text = format!(
                r#"{{"name":"x","description":"approved","inputSchema":{{"type":"object"}},"{key}":{{{injected}}},
                "prompt_instructions":"injected","search_hint":"injected","category":"human","deferred":false,"id":"z"}}"#
            );
            let definition: Raw = serde_json::from_str(&text).expect("JSON");
            let definition = SharedRaw::from(definition);
            let tool = Item::read_tool(Arc::clone(&definition), "s___x", "x", "x").expect("a tool");
            assert_eq!((tool.name.as_str(), tool.description.as_str()), ("s___x", "approved"), "{key}");
            let said = [tool.prompt_instructions, tool.search_hint, tool.category, tool.id, tool.server];
            assert!(said.iter().all(Option::is_none) && tool.deferred.is_none(), "{key}: {said:?}");
            assert!(!tool.input_schema.is_some_and(|schema| schema.get().contains("required")), "{key}");
            let original = tool.original.expect("the definition");
            assert_eq!(original.get(), text);
            assert!(Arc::ptr_eq(&original, &definition), "{key}");
        }
    }
}
