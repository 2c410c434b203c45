//! Converts the index of a catalog to bytes and back.

use std::sync::Arc;

use pegboard_core::Catalog;

use super::{
    index::Index,
    searcher::{Scoring, Searcher},
    segment::Segment,
};
use crate::blocks::{Block, BlockError, BlockKind, BlockWriter, PersistentIndex, checksum};

/// Incremented with every change of the sections.
const VERSION: u32 = 2;

/// The section with the checksum of the identities of all tools, and their number.
const IDENTITIES: &str = "tools";

/// An index that was parsed from bytes, without its tools.
#[derive(Debug)]
pub struct ParsedIndex {
    /// The key of the ranker that has parsed it.
    key: u64,
    identities: u64,
    tools: usize,
    segment: Segment,
}

impl<S: Scoring> PersistentIndex for Searcher<S> {
    fn index_key(&self) -> u64 {
        let model = self.scoring.vector_model().map(|model| model.checksum());
        checksum(format!("{} {:?} {model:?}", env!("CARGO_PKG_VERSION"), self.settings).as_bytes())
    }

    fn index_to_bytes(&self, catalog: &Catalog) -> Option<Vec<u8>> {
        let index = self.index(catalog);
        let segment = index.only_segment()?;
        let is_in_order = segment.tools.len() == catalog.len()
            && segment.tools.iter().zip(catalog.iter()).all(|(one, other)| Arc::ptr_eq(one, other));
        let mut writer = BlockWriter::new(kind(self));
        let numbers = [identities(catalog), catalog.len() as u64];
        writer.add(IDENTITIES, numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
        segment.write(&mut writer);
        is_in_order.then(|| writer.finish())
    }

    fn parse_index(&self, bytes: &[u8]) -> Result<ParsedIndex, BlockError> {
        let kind = kind(self);
        let block = Block::parse(kind, bytes)?;
        let [identities, tools] = block.numbers(IDENTITIES, u64::from_le_bytes)?[..] else {
            return Err(BlockError::Damaged { part: IDENTITIES });
        };
        let tools = usize::try_from(tools).map_err(|_| BlockError::Damaged { part: IDENTITIES })?;
        let segment = Segment::read(&block, tools, self.scoring.vector_model().map(Arc::as_ref))?;
        Ok(ParsedIndex { key: kind.key, identities, tools, segment })
    }

    fn restore_index(&self, catalog: &Catalog, index: ParsedIndex) -> Result<(), BlockError> {
        let ParsedIndex { key, identities: known, tools: count, mut segment } = index;
        if key != self.index_key() {
            return Err(BlockError::Key);
        }
        if count != catalog.len() || known != identities(catalog) {
            return Err(BlockError::Catalog);
        }
        segment.tools = catalog.iter().cloned().collect();
        let index = Index::from_segment(segment, Arc::clone(&self.settings), self.scoring.vector_model().cloned());
        self.indexes.insert(catalog, index);
        Ok(())
    }
}

fn kind(ranker: &impl PersistentIndex) -> BlockKind {
    BlockKind { name: "PEGINDEX", version: VERSION, key: ranker.index_key() }
}

/// Returns a checksum of the identities of all tools in order.
fn identities(catalog: &Catalog) -> u64 {
    let mut all = Vec::new();
    for tool in catalog.iter() {
        all.extend_from_slice(tool.id().as_bytes());
        all.push(0);
    }
    checksum(&all)
}

#[cfg(test)]
mod tests {
    use pegboard_core::{Query, Ranker, Ranking, Selection};
    use proptest::prelude::*;

    use super::{
        super::tests::{OFFICE, any_query, any_tool, catalog},
        *,
    };
    use crate::{Hybrid, Lexical, Model, lexical::Settings};

    fn ranking(ranker: &dyn Ranker, catalog: &Catalog, query: &str) -> String {
        let query = Query { explain: true, ..Query::new(query).limit(100) };
        let Ranking { hits, total, unmatched, confidence, withheld, .. } =
            ranker.rank(&query, catalog, &Selection::everything()).expect("the query is fine");
        let list = |hits: &[pegboard_core::Hit]| -> Vec<String> {
            hits.iter().map(|hit| format!("{} {} {:?}", hit.tool.id(), hit.score, hit.why)).collect()
        };
        format!("{:?} {total} {unmatched:?} {confidence:?} {:?}", list(&hits), list(&withheld))
    }

    fn restore(ranker: &dyn PersistentIndex, catalog: &Catalog, bytes: &[u8]) -> Result<(), BlockError> {
        ranker.restore_index(catalog, ranker.parse_index(bytes)?)
    }

    /// `query` has the same answer from an index that was kept.
    fn check(built: &dyn PersistentIndex, restored: &dyn PersistentIndex, catalog: &Catalog, query: &str) {
        let bytes = built.index_to_bytes(catalog).expect("one segment");
        restore(restored, catalog, &bytes).expect("the same catalog");
        assert_eq!(ranking(restored, catalog, query), ranking(built, catalog, query), "{query}");
        assert_eq!(restored.index_to_bytes(catalog).expect("one segment"), bytes);
    }

    #[test]
    fn a_kept_index_answers_like_a_built_one() {
        for lines in [OFFICE, "", "!!: signs\nüber/größe: Größe ändern"] {
            for query in ["create an issue", "serach mesages", "getWeather", "post", "größe", "nothing of this"] {
                check(&Hybrid::default(), &Hybrid::default(), &catalog(lines), query);
                check(&Lexical::default(), &Lexical::default(), &catalog(lines), query);
            }
        }
    }

    #[test]
    fn another_catalog_ranker_or_setting_is_refused() {
        let office = catalog(OFFICE);
        let bytes = Lexical::default().index_to_bytes(&office).expect("one segment");
        let refused =
            |ranker: &dyn PersistentIndex, catalog: &Catalog| restore(ranker, catalog, &bytes).expect_err("no");
        assert_eq!(refused(&Lexical::default(), &catalog(&OFFICE.replace("slack", "chat"))), BlockError::Catalog);
        assert_eq!(refused(&Lexical::default(), &catalog("")), BlockError::Catalog);
        assert_eq!(refused(&Hybrid::default(), &office), BlockError::Key);
        let settings = Settings { typo: 0.5, ..Settings::default() };
        assert_eq!(refused(&Lexical::new(settings), &office), BlockError::Key);
    }

    #[test]
    fn an_index_of_several_pieces_is_not_kept() {
        let (ranker, office) = (Lexical::default(), catalog(OFFICE));
        ranker.prepare(&office);
        let fewer = office.without_server("weather");
        ranker.prepare(&fewer);
        assert_eq!(ranker.index_to_bytes(&fewer), None);
        assert!(Lexical::default().index_to_bytes(&fewer).is_some());
    }

    /// Cut anywhere, or with any byte changed, an index is refused.
    #[test]
    fn a_damaged_index_is_refused() {
        let (ranker, office) = (Hybrid::new(Arc::clone(Model::embedded())), catalog(OFFICE));
        let good = ranker.index_to_bytes(&office).expect("one segment");
        let fresh = Hybrid::default();
        for at in 0..good.len() {
            assert!(restore(&fresh, &office, &good[..at]).is_err(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(restore(&fresh, &office, &bad).is_err(), "changed at {at}");
        }
    }

    proptest! {
        /// A checksum that fits proves nothing: whatever the sections hold, nothing panics.
        #[test]
        fn invented_sections_never_panic(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            length in 0..4_usize,
            query in any_query(),
        ) {
            let (ranker, office) = (Hybrid::default(), catalog(OFFICE));
            let mut bytes = ranker.index_to_bytes(&office).expect("one segment");
            bytes.truncate(bytes.len() - 8);
            let at = at.index(bytes.len());
            let end = bytes.len().min(at + length);
            bytes[at..end].fill(byte);
            let sealed = [bytes.as_slice(), &checksum(&bytes).to_le_bytes()].concat();
            let other = Hybrid::default();
            if restore(&other, &office, &sealed).is_ok() {
                for text in [query.as_str(), "create an issue", "serach mesages", "getWeather"] {
                    let _ = other.rank(&Query::new(text), &office, &Selection::everything());
                }
            }
        }

        #[test]
        fn any_catalog_can_be_kept(tools in prop::collection::vec(any_tool(), 0..12), query in any_query()) {
            let catalog = Catalog::from_tools(tools).0;
            if !query.trim().is_empty() {
                check(&Hybrid::default(), &Hybrid::default(), &catalog, &query);
            }
        }
    }
}
