//! The index of a catalog: a few segments and the tools that were removed from them.
//!
//! An index is immutable like its catalog. A change creates a new one that shares all large
//! segments: removed tools are marked, added ones get a small segment, and small segments are
//! merged with others of their size, so that the cost of a change is proportional to its size. The
//! result of a search only depends on the set of live tools, never on their distribution over
//! segments.

use std::sync::Arc;

use pegboard_core::{Selection, Tool, catalog::Changes};
use rustc_hash::FxHashMap;

use super::{
    bitmap::Bitmap,
    document::{DocumentReader, for_each_name_key},
    scorer::Candidate,
    segment::Segment,
    settings::Settings,
};
use crate::semantic::Model;

/// A segment is merged into its neighbour if that is less than this many times larger.
const SIZE_RATIO: usize = 4;

/// The index of one catalog snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    parts: Vec<Part>,
    settings: Arc<Settings>,
    model: Option<Arc<Model>>,
}

#[derive(Clone, Debug)]
struct Part {
    segment: Arc<Segment>,
    removed: Option<Arc<Removed>>,
}

/// The tools of a segment that are no longer in the catalog.
#[derive(Clone, Debug)]
struct Removed {
    live: Arc<Bitmap>,
    count: usize,
    /// Number of removed tools with each term, so that rarity stays exact.
    per_term: FxHashMap<u32, u32>,
}

impl Index {
    pub(crate) fn build(tools: Vec<Arc<Tool>>, settings: Arc<Settings>, model: Option<Arc<Model>>) -> Self {
        let segment = Segment::build(tools, &settings, model.as_deref());
        Self::from_segment(segment, settings, model)
    }

    /// Creates an index that consists of `segment`.
    pub(crate) fn from_segment(segment: Segment, settings: Arc<Settings>, model: Option<Arc<Model>>) -> Self {
        Self { parts: vec![Part { segment: Arc::new(segment), removed: None }], settings, model }
    }

    /// Returns the only segment, if it contains all tools and no others.
    pub(crate) fn only_segment(&self) -> Option<&Segment> {
        match self.parts.as_slice() {
            [Part { segment, removed: None }] => Some(segment),
            _ => None,
        }
    }

    /// Returns the index after `changes`.
    pub(crate) fn with_changes(&self, changes: Changes) -> Self {
        let mut index = self.clone();
        let mut reader = DocumentReader::default();
        for tool in &changes.removed {
            index.remove(tool, &mut reader);
        }
        if !changes.added.is_empty() {
            let segment = Arc::new(Segment::build(changes.added, &self.settings, self.model.as_deref()));
            index.parts.push(Part { segment, removed: None });
        }
        index.merge_segments();
        index
    }

    fn remove(&mut self, tool: &Arc<Tool>, reader: &mut DocumentReader) {
        let mut key = String::new();
        for_each_name_key(tool, &mut |name| {
            if key.is_empty() {
                key.push_str(name);
            }
        });
        for part in &mut self.parts {
            let is_it = |doc: &u32| Arc::ptr_eq(&part.segment.tools[*doc as usize], tool);
            // A name of punctuation only has no key and must be searched in the whole list.
            let doc = match part.segment.vocabulary.find(&key) {
                Some(term) => part.segment.postings(term).docs.iter().copied().find(is_it),
                None if key.is_empty() => (0..part.segment.tools.len() as u32).find(is_it),
                None => None,
            };
            if let Some(doc) = doc {
                part.remove(doc, reader, &self.settings);
                return;
            }
        }
    }

    /// Merges segments of similar size, and drops the removed tools of a segment that consists
    /// mostly of them.
    fn merge_segments(&mut self) {
        self.parts.retain(|part| part.live_count() > 0);
        while let [.., before, last] = self.parts.as_slice()
            && before.live_count() < SIZE_RATIO * last.live_count()
        {
            self.merge_from(self.parts.len() - 2);
        }
        if let Some(at) = self.parts.iter().position(|part| part.live_count() < part.segment.tools.len() / 2) {
            self.merge_from(at);
        }
        if self.parts.is_empty() {
            self.parts.push(Part { segment: Arc::default(), removed: None });
        }
    }

    fn merge_from(&mut self, first: usize) {
        let parts = self.parts.split_off(first);
        let segments: Vec<&Segment> = parts.iter().map(|part| &*part.segment).collect();
        let merged = Segment::merge(&segments, |part, doc| parts[part].is_live(doc));
        self.parts.push(Part { segment: Arc::new(merged), removed: None });
    }

    /// Returns the index as seen through `selection`.
    pub(crate) fn view(&self, selection: &Selection) -> IndexView<'_> {
        let is_everything = selection.is_everything();
        let parts: Vec<SegmentView<'_>> = self
            .parts
            .iter()
            .map(|part| SegmentView {
                segment: &part.segment,
                removed: part.removed.as_deref(),
                visible: part.visible(selection),
                counts_from_removed: is_everything,
            })
            .collect();
        let tools = parts.iter().map(SegmentView::tools).sum();
        IndexView { parts, tools, settings: &self.settings }
    }

    /// Returns the memory of the index in bytes, without the tools.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.segment.bytes()).sum()
    }
}

impl Part {
    fn live_count(&self) -> usize {
        self.segment.tools.len() - self.removed.as_ref().map_or(0, |removed| removed.count)
    }

    fn is_live(&self, doc: u32) -> bool {
        self.removed.as_ref().is_none_or(|removed| removed.live.contains(doc))
    }

    fn remove(&mut self, doc: u32, reader: &mut DocumentReader, settings: &Settings) {
        let segment = &self.segment;
        let removed = self.removed.get_or_insert_with(|| {
            let live = Arc::new(Bitmap::full(segment.tools.len()));
            Arc::new(Removed { live, count: 0, per_term: FxHashMap::default() })
        });
        let removed = Arc::make_mut(removed);
        Arc::make_mut(&mut removed.live).remove(doc);
        removed.count += 1;
        // The terms of a tool are not stored; the tool is read again.
        let vocabulary = &segment.vocabulary;
        let tool = &segment.tools[doc as usize];
        let mut key = String::new();
        reader.read(tool, settings, |kind, token, stemmer| vocabulary.find(&kind.entry(token, stemmer, &mut key)));
        let mut terms: Vec<u32> = reader.terms.iter().map(|(term, _)| *term).collect();
        for_each_name_key(tool, &mut |key| {
            terms.extend(vocabulary.find(key).filter(|term| !terms.contains(term)));
        });
        for term in terms {
            *removed.per_term.entry(term).or_default() += 1;
        }
    }

    fn visible(&self, selection: &Selection) -> Option<Arc<Bitmap>> {
        let live = self.removed.as_ref().map(|removed| &removed.live);
        if selection.is_everything() {
            return live.cloned();
        }
        let allowed = self.segment.allowed(selection);
        let Some(live) = live else { return Some(allowed) };
        let mut visible = Bitmap::clone(&allowed);
        visible.intersect(live);
        Some(Arc::new(visible))
    }
}

/// The index as seen through a selection. Hidden tools are not in it.
#[derive(Debug)]
pub(crate) struct IndexView<'a> {
    pub(crate) parts: Vec<SegmentView<'a>>,
    /// Number of visible tools.
    pub(crate) tools: usize,
    pub(crate) settings: &'a Settings,
}

#[derive(Debug)]
pub(crate) struct SegmentView<'a> {
    pub(crate) segment: &'a Segment,
    removed: Option<&'a Removed>,
    /// The visible tools; `None` if all tools of the segment are visible.
    pub(crate) visible: Option<Arc<Bitmap>>,
    /// Whether tools are only hidden by removal, so that the counts of removed tools suffice for
    /// [`Self::count`].
    counts_from_removed: bool,
}

impl SegmentView<'_> {
    fn tools(&self) -> usize {
        self.visible.as_ref().map_or(self.segment.tools.len(), |visible| visible.count())
    }

    /// Returns the visible ones of 64 tools, as bits.
    pub(crate) fn visible_word(&self, word: usize) -> u64 {
        self.visible.as_ref().map_or(u64::MAX, |visible| visible.word(word))
    }

    /// Returns how many visible tools contain `term`.
    pub(crate) fn count(&self, term: u32) -> usize {
        let postings = self.segment.postings(term);
        match (&self.visible, self.removed) {
            (None, _) => postings.docs.len(),
            (Some(_), Some(removed)) if self.counts_from_removed => {
                postings.docs.len() - removed.per_term.get(&term).copied().unwrap_or(0) as usize
            }
            (Some(visible), _) => postings.docs.iter().filter(|doc| visible.contains(**doc)).count(),
        }
    }
}

impl IndexView<'_> {
    /// Returns how many tools the segments hold, including hidden ones.
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.segment.tools.len()).sum()
    }

    /// Returns the position of a tool among all [`rows`](Self::rows).
    pub(crate) fn row(&self, candidate: &Candidate) -> usize {
        let before = &self.parts[..candidate.part as usize];
        before.iter().map(|part| part.segment.tools.len()).sum::<usize>() + candidate.doc as usize
    }

    /// Returns the segments with the position of their first tool among all [`rows`](Self::rows).
    pub(crate) fn numbered_parts(&self) -> impl Iterator<Item = (usize, &SegmentView<'_>)> {
        self.parts.iter().scan(0, |next, part| {
            let first = *next;
            *next += part.segment.tools.len();
            Some((first, part))
        })
    }

    /// Returns how many visible tools contain the stem or name key `term`.
    pub(crate) fn count(&self, term: &str) -> usize {
        self.parts.iter().filter_map(|part| Some(part.count(part.segment.vocabulary.find(term)?))).sum()
    }

    /// Returns the inverse document frequency (BM25) of a term that `count` tools contain.
    pub(crate) fn rarity(&self, count: usize) -> f32 {
        let (all, count) = (self.tools as f32, count as f32);
        (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
    }
}
