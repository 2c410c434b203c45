//! Serialization of the tools of a catalog.
//!
//! Searches need neither the schemas of results nor the original definitions, and schemas of
//! arguments only to explain a hit; these are in a block of their own.

use pegboard_core::{Annotations, Catalog, RawTool, Tool};
use pegboard_engine::blocks::{Block, BlockError, BlockKind, BlockWriter};
use serde_json::value::RawValue;

use crate::catalogs::{CatalogWarning, CatalogWarnings};

/// The block format; its version grows with every change of the sections.
const TOOLS: BlockKind = BlockKind { name: "PEGTOOLS", version: 1, key: 0 };
const SCHEMAS: BlockKind = BlockKind { name: "PEGSCHEM", version: 1, key: 0 };

/// Stands for a missing text or number.
const ABSENT: u32 = u32::MAX;

/// Serializes the tools with the warnings about them, and their schemas. `None` if they could not
/// be restored exactly.
pub(super) fn write(catalog: &Catalog, notes: &CatalogWarnings) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut texts = TextWriter::default();
    let mut servers = Vec::new();
    let mut flags = Vec::new();
    let mut schemas = TextWriter::default();
    let numbered = catalog.servers();
    let numbers: std::collections::HashMap<&str, u32> =
        numbered.iter().zip(0..).map(|(server, number)| (server.name.as_str(), number)).collect();
    for tool in catalog.iter() {
        own_texts(tool).iter().for_each(|text| texts.push(*text));
        tool.aliases().iter().for_each(|alias| texts.push(Some(alias)));
        texts.push(None);
        servers.push(tool.server_name().and_then(|name| numbers.get(name)).copied().unwrap_or(ABSENT));
        let Annotations { read_only, destructive, idempotent, open_world } = tool.annotations();
        flags.extend([read_only, destructive, idempotent, open_world, tool.deferred()].map(flag));
        schemas.push(tool.input_schema());
    }
    let mut writer = BlockWriter::new(TOOLS);
    texts.finish(&mut writer);
    writer.add_u32s("servers", &servers);
    writer.add("flags", flags);
    let mut named = TextWriter::default();
    for server in numbered {
        named.push(Some(&server.name));
        named.push(Some(&server.description));
    }
    named.finish_as(&mut writer, "srvtext", "srvlen");
    write_notes(&mut writer, notes);
    let tools = writer.finish();
    let mut writer = BlockWriter::new(SCHEMAS);
    schemas.finish(&mut writer);
    let schemas = writer.finish();
    let (restored, _) = read(&tools, Some(&schemas)).ok()?;
    let is_same = restored.len() == catalog.len() && restored.iter().zip(catalog.iter()).all(|(a, b)| is_same(a, b));
    is_same.then_some((tools, schemas))
}

/// Deserializes tools, with their schemas if these are given, and the warnings about them.
pub(super) fn read(bytes: &[u8], schemas: Option<&[u8]>) -> Result<(Catalog, CatalogWarnings), BlockError> {
    let block = Block::parse(TOOLS, bytes)?;
    let schemas = schemas.map(|bytes| Block::parse(SCHEMAS, bytes)).transpose()?;
    let mut schemas = schemas.as_ref().map(TextReader::new).transpose()?;
    let mut servers = read_servers(&block)?;
    let numbers = block.u32s("servers")?;
    let (flags, rest) = block.section("flags")?.as_chunks::<5>();
    if flags.len() != numbers.len() || !rest.is_empty() {
        return Err(BlockError::Damaged { part: "flags" });
    }
    let mut texts = TextReader::new(&block)?;
    let mut tools = Vec::with_capacity(numbers.len());
    for (number, flags) in numbers.iter().zip(flags) {
        let tool = read_tool(&mut texts, flags).ok_or(BlockError::Damaged { part: "texts" })?;
        let (server, server_description) = match servers.get_mut(*number as usize) {
            // The first description is used; there is no need to copy the others.
            Some((name, description)) => (Some(name.clone()), description.take()),
            None if *number == ABSENT => (None, None),
            None => return Err(BlockError::Damaged { part: "servers" }),
        };
        let input_schema = match &mut schemas {
            Some(schemas) => read_schema(schemas).ok_or(BlockError::Damaged { part: "schemas" })?,
            None => None,
        };
        tools.push(RawTool { server, server_description, input_schema, ..tool });
    }
    Ok((Catalog::from_tools(tools).0, read_notes(&block)?))
}

/// Returns the texts that every tool has a slot for.
fn own_texts(tool: &Tool) -> [Option<&str>; 7] {
    [
        Some(tool.id()),
        Some(tool.name()),
        Some(tool.description()),
        tool.title(),
        tool.category(),
        tool.search_hint(),
        tool.prompt_instructions(),
    ]
}

fn read_tool(texts: &mut TextReader<'_>, flags: &[u8; 5]) -> Option<RawTool> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let mut next = || texts.next().map(owned);
    let (id, name, description) = (next()?, next()??, next()??);
    let (title, category, search_hint, prompt_instructions) = (next()?, next()?, next()?, next()?);
    let mut aliases = Vec::new();
    while let Some(alias) = next()? {
        aliases.push(alias);
    }
    let [read_only, destructive, idempotent, open_world, deferred] = flags.map(is_set);
    let annotations = Annotations { read_only, destructive, idempotent, open_world };
    Some(RawTool {
        id,
        name,
        description,
        title,
        category,
        search_hint,
        prompt_instructions,
        aliases,
        annotations,
        deferred,
        ..RawTool::default()
    })
}

/// Reads the next schema, if the tool has one; the outer `None` means that it cannot be read.
fn read_schema(schemas: &mut TextReader<'_>) -> Option<Option<Box<RawValue>>> {
    match schemas.next()? {
        Some(schema) => Some(Some(RawValue::from_string(schema.to_owned()).ok()?)),
        None => Some(None),
    }
}

/// Reads each server with its description.
fn read_servers(block: &Block<'_>) -> Result<Vec<(String, Option<String>)>, BlockError> {
    let mut texts = TextReader::of(block.text("srvtext")?, block.u32s("srvlen")?);
    let mut servers = Vec::new();
    while let Some(name) = texts.next() {
        let damaged = BlockError::Damaged { part: "srvtext" };
        let (Some(name), Some(Some(description))) = (name, texts.next()) else { return Err(damaged) };
        servers.push((name.to_owned(), Some(description.to_owned())));
    }
    Ok(servers)
}

fn write_notes(writer: &mut BlockWriter, notes: &CatalogWarnings) {
    let mut texts = TextWriter::default();
    let mut places = vec![u32::try_from(notes.more).unwrap_or(u32::MAX)];
    for note in &notes.shown {
        texts.push(Some(&note.text));
        let (file, line) = note.place.unwrap_or((usize::MAX, 0));
        places.extend([file, line].map(|number| u32::try_from(number).unwrap_or(ABSENT)));
    }
    texts.finish_as(writer, "notes", "noteslen");
    writer.add_u32s("places", &places);
}

fn read_notes(block: &Block<'_>) -> Result<CatalogWarnings, BlockError> {
    let damaged = BlockError::Damaged { part: "places" };
    let places = block.u32s("places")?;
    let mut texts = TextReader::of(block.text("notes")?, block.u32s("noteslen")?);
    let Some((more, places)) = places.split_first() else { return Err(damaged) };
    let mut shown = Vec::new();
    for [file, line] in places.as_chunks::<2>().0 {
        let Some(Some(text)) = texts.next() else { return Err(damaged) };
        let place = (*file != ABSENT).then_some((*file as usize, *line as usize));
        shown.push(CatalogWarning { place, text: text.to_owned() });
    }
    Ok(CatalogWarnings { shown, more: *more as usize })
}

/// Returns whether a restored tool equals the one that was written, in the fields that are written.
fn is_same(restored: &Tool, tool: &Tool) -> bool {
    own_texts(restored) == own_texts(tool)
        && restored.aliases() == tool.aliases()
        && restored.annotations() == tool.annotations()
        && restored.deferred() == tool.deferred()
        && restored.server() == tool.server()
        && restored.origin() == tool.origin()
        && restored.upstream_name() == tool.upstream_name()
        && restored.input_schema() == tool.input_schema()
}

fn flag(value: Option<bool>) -> u8 {
    value.map_or(2, u8::from)
}

fn is_set(flag: u8) -> Option<bool> {
    match flag {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Writes texts one after the other, and their lengths.
#[derive(Default)]
struct TextWriter {
    text: String,
    lengths: Vec<u32>,
}

impl TextWriter {
    fn push(&mut self, text: Option<&str>) {
        self.text.push_str(text.unwrap_or_default());
        self.lengths.push(text.map_or(ABSENT, |text| text.len() as u32));
    }

    fn finish(self, writer: &mut BlockWriter) {
        self.finish_as(writer, "texts", "lengths");
    }

    fn finish_as(self, writer: &mut BlockWriter, texts: &str, lengths: &str) {
        writer.add(texts, self.text.into_bytes());
        writer.add_u32s(lengths, &self.lengths);
    }
}

struct TextReader<'a> {
    rest: &'a str,
    lengths: std::vec::IntoIter<u32>,
}

impl<'a> TextReader<'a> {
    fn new(block: &Block<'a>) -> Result<Self, BlockError> {
        Ok(Self::of(block.text("texts")?, block.u32s("lengths")?))
    }

    fn of(text: &'a str, lengths: Vec<u32>) -> Self {
        Self { rest: text, lengths: lengths.into_iter() }
    }

    /// Reads the next text, or its absence; `None` at the end, or if a length is wrong.
    fn next(&mut self) -> Option<Option<&'a str>> {
        let length = self.lengths.next()?;
        if length == ABSENT {
            return Some(None);
        }
        let (text, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use pegboard_core::{LoadLimits, load};

    use super::*;

    const FILE: &str = r#"{"name": "create_issue", "server": "gh", "server_description": "Code", "title": "New issue", "description": "Größe", "annotations": {"readOnlyHint": false}, "inputSchema": {"type": "object", "properties": {"ä": {"type": "string"}}}}
{"id": "x", "name": "weather", "aliases": ["wetter", "météo"], "category": "sky", "deferred": true}
{"name": "list_issues", "server": "gh", "server_description": "Other", "search_hint": "bugs", "prompt_instructions": "ask first"}
"#;

    fn catalog(file: &str) -> Catalog {
        Catalog::from_tools(load::parse("tools.jsonl", file.as_bytes(), &LoadLimits::default()).expect("tools").tools).0
    }

    fn notes() -> CatalogWarnings {
        let note = |place, text: &str| CatalogWarning { place, text: text.to_owned() };
        CatalogWarnings { shown: vec![note(Some((0, 3)), "duplicate"), note(None, "other")], more: 4 }
    }

    #[test]
    fn tools_are_read_as_they_were_written() {
        let catalog = catalog(FILE);
        let (tools, schemas) = write(&catalog, &notes()).expect("readable");
        let (restored, told) = read(&tools, Some(&schemas)).expect("readable");
        assert_eq!(told, notes());
        assert!(restored.iter().zip(catalog.iter()).all(|(one, other)| is_same(one, other)));
        let (without, _) = read(&tools, None).expect("readable");
        assert_eq!(without.len(), 3);
        assert!(without.iter().all(|tool| tool.input_schema().is_none()));
    }

    /// Cleaning a clean name again could turn it into another tool's name.
    #[test]
    fn tools_that_would_change_are_not_written() {
        let hidden = r#"{"name": "gh_\u200b__create_issue", "description": "no server"}"#;
        let catalog = catalog(hidden);
        assert_eq!(catalog.iter().next().expect("a tool").server_name(), None);
        assert_eq!(write(&catalog, &CatalogWarnings::default()), None);
    }

    #[test]
    fn damaged_tools_are_refused() {
        let (good, schemas) = write(&catalog(FILE), &notes()).expect("readable");
        for at in 0..good.len() {
            assert!(read(&good[..at], None).is_err(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(read(&bad, None).is_err(), "changed at {at}");
        }
        assert!(read(&good, Some(&schemas[..schemas.len() - 1])).is_err());
        assert!(read(&good, Some(&good)).is_err(), "tools are not schemas");
    }
}
