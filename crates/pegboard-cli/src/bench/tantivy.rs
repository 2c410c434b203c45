//! Tantivy over the same tools.

use pegboard_core::{Catalog, Field, RawTool, Tool};
use pegboard_engine::lexical::{INDEXED_FIELDS, Settings, for_each_text};
use tantivy::{
    IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, TantivyError, Term,
    collector::TopDocs,
    directory::RamDirectory,
    query::QueryParser,
    schema::{self, STRING, Schema, TEXT},
};

use crate::error::CliError;

/// Memory of the index writer; enough to write a million tools as few segments.
const WRITER_BYTES: usize = 512 << 20;

/// A document that replaces another one.
pub(super) struct Replacement {
    old: Term,
    new: TantivyDocument,
}

fn failed(error: TantivyError) -> CliError {
    CliError::new("tantivy failed").because(error)
}

/// A Tantivy index in which every field of the lexical index is a field of its own, with the same
/// boost, searched through Tantivy's own query parser.
pub(super) struct TantivyEngine {
    catalog: Catalog,
    directory: RamDirectory,
    writer: IndexWriter,
    reader: IndexReader,
    parser: QueryParser,
    id: schema::Field,
    fields: Vec<(Field, schema::Field)>,
}

impl TantivyEngine {
    pub(super) fn build(catalog: &Catalog) -> Result<Self, CliError> {
        Self::try_build(catalog).map_err(failed)
    }

    fn try_build(catalog: &Catalog) -> Result<Self, TantivyError> {
        let mut schema = Schema::builder();
        let id = schema.add_text_field("id", STRING);
        let fields: Vec<(Field, schema::Field)> =
            INDEXED_FIELDS.iter().map(|field| (*field, schema.add_text_field(field.as_str(), TEXT))).collect();
        let directory = RamDirectory::create();
        let index = tantivy::Index::create(directory.clone(), schema.build(), tantivy::IndexSettings::default())?;
        let writer: IndexWriter = index.writer_with_num_threads(1, WRITER_BYTES)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let mut parser = QueryParser::for_index(&index, fields.iter().map(|(_, field)| *field).collect());
        let settings = Settings::default();
        for (field, tantivy_field) in &fields {
            parser.set_field_boost(*tantivy_field, settings.field(*field).weight);
        }
        let mut engine = Self { catalog: catalog.clone(), directory, writer, reader, parser, id, fields };
        for tool in catalog.iter() {
            let document = engine.document(tool);
            engine.writer.add_document(document)?;
        }
        engine.writer.commit()?;
        // One segment is the best that Tantivy can search.
        let segments = index.searchable_segment_ids()?;
        if segments.len() > 1 {
            engine.writer.merge(&segments).wait()?;
        }
        engine.reader.reload()?;
        Ok(engine)
    }

    fn document(&self, tool: &Tool) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(self.id, tool.id());
        for_each_text(tool, &mut |field, text| {
            if let Some((_, tantivy_field)) = self.fields.iter().find(|(known, _)| *known == field) {
                document.add_text(*tantivy_field, text);
            }
        });
        document
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the memory of the index, without the tools themselves.
    pub(super) fn bytes(&self) -> usize {
        self.directory.total_mem_usage()
    }

    pub(super) fn search(&self, query: &str) -> Result<usize, CliError> {
        let parsed = self.parser.parse_query(query).map_err(|error| failed(error.into()))?;
        let found = self.reader.searcher().search(&*parsed, &TopDocs::with_limit(10).order_by_score());
        Ok(found.map_err(failed)?.len())
    }

    /// Returns the document that replaces the tool with this id.
    pub(super) fn replacement(&self, id: &str, raw: RawTool) -> Result<Replacement, CliError> {
        let (fresh, _) = Catalog::from_tools(vec![raw]);
        let fresh = fresh.iter().next().ok_or_else(|| CliError::new("the replacement is empty"))?;
        Ok(Replacement { old: Term::from_field_text(self.id, id), new: self.document(fresh) })
    }

    pub(super) fn replace(&mut self, replacement: Replacement) -> Result<(), CliError> {
        let Replacement { old, new } = replacement;
        self.writer.delete_term(old);
        self.writer.add_document(new).map_err(failed)?;
        self.writer.commit().map_err(failed)?;
        self.reader.reload().map_err(failed)
    }
}
