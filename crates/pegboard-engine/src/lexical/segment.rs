//! A segment: an immutable part of the index with some tools, their terms, and the tools that
//! contain each term.

use std::sync::{Arc, Mutex, PoisonError};

use pegboard_core::{Selection, Tool};
use rustc_hash::FxHashMap;

use super::{
    bitmap::Bitmap,
    document::{DocumentReader, TermKind, for_each_name_key},
    settings::Settings,
    vocabulary::Vocabulary,
};
use crate::{
    actions::ToolAction,
    blocks::{Block, BlockError, BlockWriter},
    semantic::{FirstTokens, Model, ToolReader, Vectors},
};

/// The impact of 1.0 in a posting.
pub(crate) const FULL_IMPACT: f32 = u16::MAX as f32;

/// Maximum number of selections whose tools are cached, per segment.
const KEPT_SELECTIONS: usize = 8;

/// A segment of the index. Postings are three flat arrays: the start of each term's run, the tools
/// of all runs, and their impacts. The impact includes everything but the rarity of the term, so
/// that scoring a posting is one multiplication, and rarity can follow the whole catalog.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) vocabulary: Vocabulary,
    starts: Vec<u32>,
    docs: Vec<u32>,
    impacts: Vec<u16>,
    /// The highest impact of each term.
    peaks: Vec<u16>,
    /// The vectors of the tools; empty without a model.
    pub(crate) vectors: Vectors,
    /// The first tokens of the tools, and their actions; empty without a model.
    pub(crate) first: FirstTokens,
    pub(crate) actions: Vec<ToolAction>,
    allowed: Mutex<Vec<(Selection, Arc<Bitmap>)>>,
}

/// The tools that contain one term.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Postings<'a> {
    pub(crate) docs: &'a [u32],
    pub(crate) impacts: &'a [u16],
}

impl Segment {
    /// Indexes `tools`, with their vectors if there is a `model`.
    pub(crate) fn build(tools: Vec<Arc<Tool>>, settings: &Settings, model: Option<&Model>) -> Self {
        let mut writer = SegmentWriter::default();
        let mut reader = DocumentReader::default();
        // Most tokens repeat; their stems are cached.
        let (mut words, mut server_words) = (FxHashMap::default(), FxHashMap::default());
        let mut key = String::new();
        for tool in &tools {
            reader.read(tool, settings, |kind, token, stemmer| {
                let numbers: &mut FxHashMap<Box<str>, u32> =
                    if kind == TermKind::Word { &mut words } else { &mut server_words };
                if let Some(number) = numbers.get(token) {
                    return Some(*number);
                }
                let number = writer.vocabulary.insert(&kind.entry(token, stemmer, &mut key));
                numbers.insert(token.into(), number);
                Some(number)
            });
            for (term, frequency) in &reader.terms {
                // At least one: a posting without impact would not count as a match.
                let impact = (reader.impact(*term, *frequency, settings) * FULL_IMPACT).round().max(1.0);
                writer.push(*term, impact as u16);
            }
            let first_key = writer.terms.len();
            for_each_name_key(tool, &mut |key| {
                let term = writer.vocabulary.insert(key);
                if !writer.terms[first_key..].contains(&term) {
                    writer.push(term, u16::MAX);
                }
            });
            writer.end_document();
        }
        let (vectors, first, actions) = model.map(|model| embed(&tools, model)).unwrap_or_default();
        Segment { vectors, first, actions, ..writer.finish(tools) }
    }

    /// Merges the tools of all `parts` that `is_live` (part, tool) keeps into one segment.
    pub(crate) fn merge(parts: &[&Self], is_live: impl Fn(usize, u32) -> bool) -> Self {
        let mut merged = Self::default();
        let mut moved: Vec<Vec<u32>> = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let mut places = Vec::with_capacity(part.tools.len());
            for (doc, tool) in part.tools.iter().enumerate() {
                let is_live = is_live(at, doc as u32);
                places.push(if is_live { merged.tools.len() as u32 } else { u32::MAX });
                if is_live {
                    merged.tools.push(Arc::clone(tool));
                }
            }
            moved.push(places);
        }
        merged.vectors = Vectors::merged(
            merged.tools.len(),
            parts.iter().zip(&moved).map(|(part, places)| (&part.vectors, places.as_slice())),
        );
        merged.first =
            FirstTokens::merged(parts.iter().zip(&moved).map(|(part, places)| (&part.first, places.as_slice())));
        for (part, places) in parts.iter().zip(&moved) {
            let kept = part.actions.iter().zip(places).filter(|(_, place)| **place != u32::MAX);
            merged.actions.extend(kept.map(|(action, _)| *action));
        }
        let mut lengths: Vec<u32> = Vec::new();
        let mut numbers: Vec<Vec<u32>> = Vec::with_capacity(parts.len());
        for (part, places) in parts.iter().zip(&moved) {
            let mut renumbered = Vec::with_capacity(part.vocabulary.len());
            for term in 0..part.vocabulary.len() as u32 {
                let live = part.postings(term).docs.iter().filter(|doc| places[**doc as usize] != u32::MAX).count();
                if live == 0 {
                    renumbered.push(u32::MAX);
                    continue;
                }
                let number = merged.vocabulary.insert(part.vocabulary.get(term));
                lengths.resize(merged.vocabulary.len(), 0);
                lengths[number as usize] += live as u32;
                renumbered.push(number);
            }
            numbers.push(renumbered);
        }
        merged.allocate(&lengths);
        let mut next = merged.starts.clone();
        for ((part, places), renumbered) in parts.iter().zip(&moved).zip(&numbers) {
            for (term, number) in renumbered.iter().enumerate().filter(|(_, number)| **number != u32::MAX) {
                let postings = part.postings(term as u32);
                for (doc, impact) in postings.docs.iter().zip(postings.impacts) {
                    let place = places[*doc as usize];
                    if place != u32::MAX {
                        merged.put(*number, &mut next[*number as usize], place, *impact);
                    }
                }
            }
        }
        merged.vocabulary.shrink();
        merged
    }

    /// Writes everything but the tools.
    pub(crate) fn write(&self, writer: &mut BlockWriter) {
        let u16s = |numbers: &[u16]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.vocabulary.write(writer);
        writer.add_u32s("starts", &self.starts);
        writer.add_u32s("docs", &self.docs);
        writer.add("impacts", u16s(&self.impacts));
        writer.add("peaks", u16s(&self.peaks));
        let (components, scales) = self.vectors.to_bytes();
        writer.add("vectors", components);
        writer.add("scales", scales);
        let (tokens, ends) = self.first.parts();
        writer.add("tokens", u16s(tokens));
        writer.add_u32s("token ends", ends);
        let actions: Vec<u16> = self.actions.iter().flat_map(|action| action.to_numbers()).collect();
        writer.add("actions", u16s(&actions));
    }

    /// Reads the segment of so many `tools`, which the caller adds, with the vectors for `model` if
    /// there is one. Checks everything that a search relies on.
    pub(crate) fn read(block: &Block<'_>, tools: usize, model: Option<&Model>) -> Result<Self, BlockError> {
        let read = if model.is_some() { tools } else { 0 };
        let dims = model.map_or(0, Model::dims);
        let vectors = Vectors::from_bytes(block.section("vectors")?, block.section("scales")?, read, dims);
        let (tokens, ends) = (block.numbers("tokens", u16::from_le_bytes)?, block.u32s("token ends")?);
        let first = FirstTokens::from_parts(tokens, ends, read, model.map_or(0, Model::vocabulary));
        let numbers = block.numbers("actions", u16::from_le_bytes)?;
        let actions: Vec<ToolAction> = numbers.as_chunks().0.iter().copied().map(ToolAction::from_numbers).collect();
        if actions.len() != read || !numbers.len().is_multiple_of(ToolAction::NUMBERS) {
            return Err(BlockError::Damaged { part: "actions" });
        }
        let segment = Self {
            vocabulary: Vocabulary::read(block)?,
            starts: block.u32s("starts")?,
            docs: block.u32s("docs")?,
            impacts: block.numbers("impacts", u16::from_le_bytes)?,
            peaks: block.numbers("peaks", u16::from_le_bytes)?,
            vectors: vectors.ok_or(BlockError::Damaged { part: "vectors" })?,
            first: first.ok_or(BlockError::Damaged { part: "tokens" })?,
            actions,
            ..Self::default()
        };
        segment.first_invalid_part(tools).map_or(Ok(segment), |part| Err(BlockError::Damaged { part }))
    }

    /// Returns the name of the first array that is invalid for so many `tools`.
    fn first_invalid_part(&self, tools: usize) -> Option<&'static str> {
        let terms = self.vocabulary.len();
        let ends_right = self.starts.last().map_or(0, |end| *end as usize) == self.docs.len();
        if self.starts.is_empty() && terms == 0 && self.docs.is_empty() {
            return (!self.impacts.is_empty() || !self.peaks.is_empty()).then_some("impacts");
        }
        if self.starts.len() != terms + 1 || self.starts[0] != 0 || !self.starts.is_sorted() || !ends_right {
            return Some("starts");
        }
        if self.impacts.len() != self.docs.len() || self.peaks.len() != terms {
            return Some("impacts");
        }
        let is_run = |term: u32| {
            let docs = self.postings(term).docs;
            docs.is_sorted_by(|one, next| one < next) && docs.last().is_none_or(|last| (*last as usize) < tools)
        };
        (!(0..terms as u32).all(is_run)).then_some("docs")
    }

    fn allocate(&mut self, lengths: &[u32]) {
        let mut total = 0;
        self.starts = Vec::with_capacity(lengths.len() + 1);
        for length in lengths {
            self.starts.push(total);
            total += length;
        }
        self.starts.push(total);
        self.docs = vec![0; total as usize];
        self.impacts = vec![0; total as usize];
        self.peaks = vec![0; lengths.len()];
    }

    fn put(&mut self, term: u32, next: &mut u32, doc: u32, impact: u16) {
        self.docs[*next as usize] = doc;
        self.impacts[*next as usize] = impact;
        self.peaks[term as usize] = self.peaks[term as usize].max(impact);
        *next += 1;
    }

    /// The highest impact of `term`.
    pub(crate) fn peak(&self, term: u32) -> u16 {
        self.peaks[term as usize]
    }

    pub(crate) fn postings(&self, term: u32) -> Postings<'_> {
        let run = self.starts[term as usize] as usize..self.starts[term as usize + 1] as usize;
        Postings { docs: &self.docs[run.clone()], impacts: &self.impacts[run] }
    }

    /// Returns the tools of this segment that `selection` shows.
    pub(crate) fn allowed(&self, selection: &Selection) -> Arc<Bitmap> {
        // The entries are intact after a panic elsewhere, so poison does not matter.
        let mut known = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bitmap)) = known.iter().find(|(other, _)| other == selection) {
            return Arc::clone(bitmap);
        }
        let mut bitmap = Bitmap::new(self.tools.len());
        for (doc, tool) in self.tools.iter().enumerate() {
            if selection.allows(tool) {
                bitmap.insert(doc as u32);
            }
        }
        let bitmap = Arc::new(bitmap);
        if known.len() == KEPT_SELECTIONS {
            known.remove(0);
        }
        known.push((selection.clone(), Arc::clone(&bitmap)));
        bitmap
    }

    /// Returns the memory of the segment in bytes, without the tools.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.vocabulary.bytes()
            + size_of::<Arc<Tool>>() * self.tools.capacity()
            + 4 * (self.starts.capacity() + self.docs.capacity())
            + 2 * (self.impacts.capacity() + self.peaks.capacity())
            + self.vectors.bytes()
            + self.first.bytes()
            + size_of::<ToolAction>() * self.actions.capacity()
    }
}

/// Computes the vectors of `tools`, their first tokens, and their actions.
fn embed(tools: &[Arc<Tool>], model: &Model) -> (Vectors, FirstTokens, Vec<ToolAction>) {
    let mut reader = ToolReader::default();
    let (mut vectors, mut first) = (Vectors::new(tools.len(), model.dims()), FirstTokens::default());
    for tool in tools {
        vectors.push(&reader.read(tool, model));
        first.push(&reader);
    }
    (vectors, first, tools.iter().map(|tool| ToolAction::of(tool)).collect())
}

/// Collects terms tool by tool, before they are inverted.
#[derive(Debug, Default)]
struct SegmentWriter {
    vocabulary: Vocabulary,
    terms: Vec<u32>,
    impacts: Vec<u16>,
    ends: Vec<usize>,
}

impl SegmentWriter {
    fn push(&mut self, term: u32, impact: u16) {
        self.terms.push(term);
        self.impacts.push(impact);
    }

    fn end_document(&mut self) {
        self.ends.push(self.terms.len());
    }

    fn finish(self, tools: Vec<Arc<Tool>>) -> Segment {
        let mut lengths = vec![0_u32; self.vocabulary.len()];
        for term in &self.terms {
            lengths[*term as usize] += 1;
        }
        let mut segment = Segment { tools, vocabulary: self.vocabulary, ..Segment::default() };
        segment.allocate(&lengths);
        let mut next = segment.starts.clone();
        let mut start = 0;
        for (doc, end) in self.ends.iter().enumerate() {
            for at in start..*end {
                let term = self.terms[at];
                segment.put(term, &mut next[term as usize], doc as u32, self.impacts[at]);
            }
            start = *end;
        }
        segment.vocabulary.shrink();
        segment
    }
}
