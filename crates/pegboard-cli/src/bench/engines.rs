//! What is measured.

use std::sync::Arc;

use pegboard_core::{Catalog, Field, Query, Ranker, Selection, Tool};
use pegboard_engine::{
    Hybrid, Lexical, Model,
    lexical::{INDEXED_FIELDS, Settings, for_each_text},
};
use tantivy::{
    IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, TantivyError, Term,
    collector::TopDocs,
    directory::RamDirectory,
    query::QueryParser,
    schema::{self, STRING, Schema, TEXT},
};

use super::synthetic;
use crate::error::CliError;

/// Enough that a catalog of a million tools is written as few segments.
const WRITER_BYTES: usize = 512 << 20;

/// The engines that share a row format.
pub(super) enum Engine {
    Lexical { ranker: Lexical, catalog: Catalog },
    Hybrid { ranker: Hybrid, catalog: Catalog },
    Tantivy(Box<TantivyEngine>),
}

/// A replacement that is made but not yet visible to searches.
pub(super) enum Update {
    Catalog(Catalog),
    Document { old: Term, new: TantivyDocument },
}

impl Engine {
    pub(super) const NAMES: [&'static str; 3] = ["lexical", "hybrid", "tantivy"];

    pub(super) fn build(name: &str, catalog: &Catalog, model: Option<&Arc<Model>>) -> Result<Self, CliError> {
        let catalog = catalog.clone();
        Ok(match name {
            "lexical" => {
                let ranker = Lexical::default();
                ranker.prepare(&catalog);
                Self::Lexical { ranker, catalog }
            }
            "hybrid" => {
                let ranker = model.map_or_else(Hybrid::default, |model| Hybrid::new(Arc::clone(model)));
                ranker.prepare(&catalog);
                Self::Hybrid { ranker, catalog }
            }
            _ => Self::Tantivy(Box::new(TantivyEngine::build(&catalog).map_err(failed)?)),
        })
    }

    /// The ten best tools; the number found, so that nothing is optimised away.
    pub(super) fn search(&mut self, query: &str) -> Result<usize, CliError> {
        let (ranker, catalog): (&dyn Ranker, &Catalog) = match self {
            Self::Lexical { ranker, catalog } => (ranker, catalog),
            Self::Hybrid { ranker, catalog } => (ranker, catalog),
            Self::Tantivy(engine) => return engine.search(query).map_err(failed),
        };
        let ranking = ranker.rank(&Query::new(query), catalog, &Selection::everything());
        ranking.map(|ranking| ranking.hits.len()).map_err(|error| CliError::new(error.to_string()))
    }

    /// Memory of the index, without the tools themselves.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Lexical { ranker, catalog } => ranker.index_bytes(catalog),
            Self::Hybrid { ranker, catalog } => ranker.index_bytes(catalog),
            Self::Tantivy(engine) => engine.directory.total_mem_usage(),
        }
    }

    /// A new version of the tool at `at`, ready to be put in.
    pub(super) fn prepare_update(&self, at: usize, round: usize) -> Result<Update, CliError> {
        let catalog = match self {
            Self::Lexical { catalog, .. } | Self::Hybrid { catalog, .. } => catalog,
            Self::Tantivy(engine) => &engine.catalog,
        };
        let tool = catalog.iter().nth(at).ok_or_else(|| CliError::new("the catalog is empty"))?;
        let raw = synthetic::replacement(tool.name(), tool.server_name(), round);
        if let Self::Tantivy(engine) = self {
            let (fresh, _) = Catalog::from_tools(vec![raw]);
            let fresh = fresh.iter().next().ok_or_else(|| CliError::new("the replacement is empty"))?;
            let old = Term::from_field_text(engine.id, tool.id());
            return Ok(Update::Document { old, new: engine.document(fresh) });
        }
        let updated = catalog.with_tool(tool.id(), raw);
        updated.map(Update::Catalog).ok_or_else(|| CliError::new("the replacement does not fit"))
    }

    /// Puts it in; the next search sees it.
    pub(super) fn update(&mut self, update: Update) -> Result<(), CliError> {
        match (self, update) {
            (Self::Lexical { catalog, .. } | Self::Hybrid { catalog, .. }, Update::Catalog(new)) => *catalog = new,
            (Self::Tantivy(engine), Update::Document { old, new }) => engine.replace(old, new).map_err(failed)?,
            _ => {}
        }
        Ok(())
    }
}

fn failed(error: TantivyError) -> CliError {
    CliError::new("tantivy failed").because(error)
}

/// Every field of the lexical index as a field of its own, with the same boost, searched
/// through Tantivy's own query parser.
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
    fn build(catalog: &Catalog) -> Result<Self, TantivyError> {
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

    fn search(&self, query: &str) -> Result<usize, TantivyError> {
        let parsed = self.parser.parse_query(query)?;
        Ok(self.reader.searcher().search(&*parsed, &TopDocs::with_limit(10).order_by_score())?.len())
    }

    fn replace(&mut self, old: Term, new: TantivyDocument) -> Result<(), TantivyError> {
        self.writer.delete_term(old);
        self.writer.add_document(new)?;
        self.writer.commit()?;
        self.reader.reload()
    }
}
