//! The index of one catalog snapshot.

use std::{borrow::Cow, fmt, sync::Arc};

use pegboard_core::{Catalog, Field as ToolField, Hit, Reason, Selection, Tool};
use tantivy::{
    DocId, DocSet, Searcher, TERMINATED, TantivyDocument, TantivyError,
    directory::RamDirectory,
    query::{EnableScoring, Query, QueryParser},
    schema::{Field, Schema, TEXT},
};

use crate::query::{self, Parsed, Prefixes};

/// Memory for building the index; small catalogs use a fraction of it.
const WRITER_BYTES: usize = 64 << 20;

/// The server of a tool that has none.
const NO_SERVER: &str = "unknown";

/// The index of one catalog snapshot: one segment, so that a document's number is the tool's
/// position in `tools` and equal catalogs give equal scores.
pub(crate) struct Index {
    tools: Vec<Arc<Tool>>,
    searcher: Searcher,
    parser: QueryParser,
    fields: Fields,
}

#[derive(Clone, Copy)]
struct Fields {
    name: Field,
    description: Field,
    server: Field,
    searchable_text: Field,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

impl Index {
    pub(crate) fn build(catalog: &Catalog, selection: &Selection) -> Result<Self, TantivyError> {
        let tools: Vec<Arc<Tool>> = catalog.iter().filter(|tool| selection.allows(tool)).cloned().collect();
        let mut schema = Schema::builder();
        let fields = Fields {
            name: schema.add_text_field("name", TEXT),
            description: schema.add_text_field("description", TEXT),
            server: schema.add_text_field("server", TEXT),
            searchable_text: schema.add_text_field("searchable_text", TEXT),
        };
        let mut writer = tantivy::Index::builder()
            .schema(schema.build())
            .single_segment_index_writer(RamDirectory::create(), WRITER_BYTES)?;
        for tool in &tools {
            let mut document = TantivyDocument::new();
            let name = full_name(tool);
            document.add_text(fields.name, &name);
            document.add_text(fields.description, tool.description());
            document.add_text(fields.server, tool.server_name().unwrap_or(NO_SERVER));
            document.add_text(fields.searchable_text, format!("{name} {}", tool.description()));
            writer.add_document(document)?;
        }
        let index = writer.finalize()?;
        let mut parser = QueryParser::for_index(&index, vec![fields.searchable_text]);
        // For prefixes with too many words; those that users write are rejected before.
        parser.allow_regexes();
        let searcher = index.reader()?.searcher();
        Ok(Self { tools, searcher, parser, fields })
    }

    pub(crate) fn parse(&self, text: &str) -> Parsed {
        query::parse(text, &self.parser, self)
    }

    /// Returns all matching tools, best first.
    pub(crate) fn search(&self, parsed: &Parsed) -> Result<Vec<Hit>, TantivyError> {
        let mut hits = Vec::new();
        self.for_each(&*parsed.query, &mut |doc, score| {
            let tool = Arc::clone(&self.tools[doc as usize]);
            hits.push(Hit { tool, score: decimal(score), why: Vec::new() });
            true
        })?;
        hits.sort_by(|a, b| {
            let by_name = || (a.tool.name(), a.tool.id()).cmp(&(b.tool.name(), b.tool.id()));
            b.score.total_cmp(&a.score).then_with(by_name)
        });
        Ok(hits)
    }

    /// Returns the pieces of the query that no tool matches.
    pub(crate) fn unmatched(&self, parsed: &Parsed) -> Result<Vec<String>, TantivyError> {
        let mut unmatched = Vec::new();
        for piece in &parsed.pieces {
            let mut is_matched = false;
            self.for_each(&*piece.query, &mut |_, _| {
                is_matched = true;
                false
            })?;
            if !is_matched && !unmatched.contains(&piece.text) {
                unmatched.push(piece.text.clone());
            }
        }
        Ok(unmatched)
    }

    /// Returns the score of each piece of the query alone for the tool of `hit`.
    pub(crate) fn reasons(&self, parsed: &Parsed, hit: &Hit) -> Result<Vec<Reason>, TantivyError> {
        let mut reasons = Vec::new();
        for piece in &parsed.pieces {
            self.for_each(&*piece.query, &mut |doc, score| {
                let is_it = Arc::ptr_eq(&self.tools[doc as usize], &hit.tool);
                if is_it {
                    let field = tool_field(piece.field.as_deref());
                    reasons.push(Reason { field, term: piece.text.clone(), weight: decimal(score) });
                }
                !is_it
            })?;
        }
        reasons.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        Ok(reasons)
    }

    /// Runs `query` until `visit` (document, score) returns `false`.
    fn for_each(&self, query: &dyn Query, visit: &mut dyn FnMut(DocId, f32) -> bool) -> Result<(), TantivyError> {
        let weight = query.weight(EnableScoring::enabled_from_searcher(&self.searcher))?;
        for reader in self.searcher.segment_readers() {
            let mut scorer = weight.scorer(reader, 1.0)?;
            let mut doc = scorer.doc();
            while doc != TERMINATED && visit(doc, scorer.score()) {
                doc = scorer.advance();
            }
        }
        Ok(())
    }
}

impl Prefixes for Index {
    fn is_field(&self, name: &str) -> bool {
        self.field(Some(name)).is_some()
    }

    fn expand(&self, field: Option<&str>, prefix: &str, most: usize) -> Option<Vec<String>> {
        let Some(field) = self.field(field) else { return Some(Vec::new()) };
        let mut terms = Vec::new();
        for reader in self.searcher.segment_readers() {
            // An unreadable field has no terms; the query then finds nothing there.
            let Ok(inverted) = reader.inverted_index(field) else { continue };
            let Ok(mut stream) = inverted.terms().range().ge(prefix.as_bytes()).into_stream() else { continue };
            while stream.advance() {
                let Some(term) = std::str::from_utf8(stream.key()).ok().filter(|term| term.starts_with(prefix)) else {
                    break;
                };
                if terms.len() == most {
                    return None;
                }
                terms.push(term.to_owned());
            }
        }
        Some(terms)
    }

    fn can_run(&self, query: &dyn Query) -> bool {
        query.weight(EnableScoring::enabled_from_searcher(&self.searcher)).is_ok()
    }
}

impl Index {
    fn field(&self, name: Option<&str>) -> Option<Field> {
        match name {
            None | Some("searchable_text") => Some(self.fields.searchable_text),
            Some("name") => Some(self.fields.name),
            Some("description") => Some(self.fields.description),
            Some("server") => Some(self.fields.server),
            Some(_) => None,
        }
    }
}

/// Returns the name with its server in front, as in the index of the reference system.
fn full_name(tool: &Tool) -> Cow<'_, str> {
    let is_full = |server: &str| tool.name().strip_prefix(server).is_some_and(|rest| rest.starts_with("___"));
    match tool.server_name() {
        Some(server) if !is_full(server) => Cow::Owned(format!("{server}___{}", tool.name())),
        _ => Cow::Borrowed(tool.name()),
    }
}

/// Converts a score through its decimal form, without binary rounding errors.
fn decimal(score: f32) -> f64 {
    score.to_string().parse().unwrap_or(f64::from(score))
}

fn tool_field(name: Option<&str>) -> ToolField {
    match name {
        Some("name") => ToolField::Name,
        Some("description") => ToolField::Description,
        Some("server") => ToolField::Server,
        _ => ToolField::Text,
    }
}
