//! A binary format for cached data: named sections with a checksum.
//!
//! An index takes seconds to build for a large catalog, and milliseconds to read. The rankers that
//! implement [`PersistentIndex`] convert their index to bytes and back. Nothing here accesses
//! files: the caller decides where the bytes are stored, and for which catalog.
//!
//! All numbers are little-endian:
//!
//! ```text
//! block    = kind version key count entry* section* checksum
//! kind     = 8 bytes      ; what the block holds
//! version  = u32          ; of the format of its sections
//! count    = u32          ; how many sections there are
//! key      = u64          ; what the content depends on beside its sources
//! entry    = name length  ; name: 8 bytes, filled up with zeros; length: u64
//! section  = bytes        ; in the order of the entries
//! checksum = u64          ; of everything before it
//! ```
//!
//! A reader asks for sections by name and ignores those that it does not know.

use pegboard_core::{Catalog, Ranker};

pub use crate::lexical::ParsedIndex;

/// The length of kind, version, count and key.
const HEAD: usize = 24;
const NAME: usize = 8;
const ENTRY: usize = NAME + 8;
const CHECKSUM: usize = 8;

/// A ranker whose index can be saved and restored.
pub trait PersistentIndex: Ranker {
    /// Returns a key of everything that the index depends on besides the catalog: the format, the
    /// version of this crate, the settings and the model.
    fn index_key(&self) -> u64;

    /// Converts the index of `catalog` to bytes; `None` if the index is not a single segment in
    /// catalog order, as after updates.
    fn index_to_bytes(&self, catalog: &Catalog) -> Option<Vec<u8>>;

    /// Parses and checks the index in `bytes`. The catalog is not needed, so that both can be read
    /// concurrently.
    ///
    /// # Errors
    /// If the bytes are damaged, or belong to another model, other settings or another version.
    fn parse_index(&self, bytes: &[u8]) -> Result<ParsedIndex, BlockError>;

    /// Uses `index` for `catalog`, instead of building one.
    ///
    /// The index must have been parsed by a ranker with the same key, and the catalog must have the
    /// same tools as the one that the index was built for. Identities are checked, texts are not.
    ///
    /// # Errors
    /// If the index belongs to another catalog or ranker.
    fn restore_index(&self, catalog: &Catalog, index: ParsedIndex) -> Result<(), BlockError>;
}

/// Why a block cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// The block is of another kind.
    #[error("not a block of the kind `{kind}`")]
    Kind {
        /// The expected kind.
        kind: &'static str,
    },
    /// The block was written by another version of this program.
    #[error("the block has format {found}; this version reads format {expected}")]
    Version {
        /// The version in the block.
        found: u32,
        /// The supported version.
        expected: u32,
    },
    /// The block was written with other settings, or with another model.
    #[error("the block was written with other settings")]
    Key,
    /// The block belongs to other tools.
    #[error("the block belongs to another catalog")]
    Catalog,
    /// The block was truncated or changed.
    #[error("the block is damaged: invalid `{part}`")]
    Damaged {
        /// The first invalid part.
        part: &'static str,
    },
}

/// The kind of a block, and what must match for it to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockKind {
    /// A name of 8 ASCII characters.
    pub name: &'static str,
    /// Incremented with every change of the sections.
    pub version: u32,
    /// A key of everything that the content depends on besides its sources.
    pub key: u64,
}

/// Writes the sections of a block.
#[derive(Debug)]
pub struct BlockWriter {
    kind: BlockKind,
    names: Vec<[u8; NAME]>,
    sections: Vec<Vec<u8>>,
}

impl BlockWriter {
    /// Creates a block without sections.
    pub fn new(kind: BlockKind) -> Self {
        Self { kind, names: Vec::new(), sections: Vec::new() }
    }

    /// Adds a section; only the first 8 bytes of `name` are stored.
    pub fn add(&mut self, name: &str, section: Vec<u8>) {
        self.names.push(padded(name));
        self.sections.push(section);
    }

    /// Adds a section of numbers.
    pub fn add_u32s(&mut self, name: &str, numbers: &[u32]) {
        self.add(name, numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
    }

    /// Returns the block.
    pub fn finish(self) -> Vec<u8> {
        let content: usize = self.sections.iter().map(|section| ENTRY + section.len()).sum();
        let mut bytes = Vec::with_capacity(HEAD + content + CHECKSUM);
        bytes.extend_from_slice(&padded(self.kind.name));
        bytes.extend_from_slice(&self.kind.version.to_le_bytes());
        bytes.extend_from_slice(&(self.sections.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.kind.key.to_le_bytes());
        for (name, section) in self.names.iter().zip(&self.sections) {
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(&(section.len() as u64).to_le_bytes());
        }
        self.sections.iter().for_each(|section| bytes.extend_from_slice(section));
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// The sections of a block with a valid checksum.
#[derive(Debug)]
pub struct Block<'a> {
    sections: Vec<([u8; NAME], &'a [u8])>,
}

impl<'a> Block<'a> {
    /// Parses the block in `bytes`.
    ///
    /// # Errors
    /// If the block is of another kind, or damaged.
    pub fn parse(kind: BlockKind, bytes: &'a [u8]) -> Result<Self, BlockError> {
        let (head, _) = bytes.split_at_checked(HEAD).ok_or(BlockError::Kind { kind: kind.name })?;
        if head[..NAME] != padded(kind.name) {
            return Err(BlockError::Kind { kind: kind.name });
        }
        let found = read_u32(&head[NAME..]);
        if found != kind.version {
            return Err(BlockError::Version { found, expected: kind.version });
        }
        let damaged = BlockError::Damaged { part: "checksum" };
        let Some((content, expected)) = bytes.split_last_chunk::<CHECKSUM>() else { return Err(damaged) };
        if checksum(content) != u64::from_le_bytes(*expected) {
            return Err(damaged);
        }
        if read_u64(&head[NAME + 8..]) != kind.key {
            return Err(BlockError::Key);
        }
        Self::split(&content[HEAD..], read_u32(&head[NAME + 4..])).ok_or(BlockError::Damaged { part: "sections" })
    }

    /// Splits `bytes`, which begin with `count` entries, into sections.
    fn split(bytes: &'a [u8], count: u32) -> Option<Self> {
        let (entries, mut rest) = bytes.split_at_checked((count as usize).checked_mul(ENTRY)?)?;
        let mut sections = Vec::new();
        for entry in entries.as_chunks::<ENTRY>().0 {
            let length = usize::try_from(read_u64(&entry[NAME..])).ok()?;
            let (section, after) = rest.split_at_checked(length)?;
            sections.push((*entry.first_chunk()?, section));
            rest = after;
        }
        rest.is_empty().then_some(Self { sections })
    }

    /// Returns the section `name`.
    ///
    /// # Errors
    /// If there is no such section.
    pub fn section(&self, name: &'static str) -> Result<&'a [u8], BlockError> {
        let wanted = padded(name);
        let found = self.sections.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, section)| *section).ok_or(BlockError::Damaged { part: name })
    }

    /// Returns the section `name` as text.
    ///
    /// # Errors
    /// If there is no such section, or it is not UTF-8.
    pub fn text(&self, name: &'static str) -> Result<&'a str, BlockError> {
        std::str::from_utf8(self.section(name)?).map_err(|_| BlockError::Damaged { part: name })
    }

    /// Returns the section `name` as numbers.
    ///
    /// # Errors
    /// If there is no such section, or its length is not a multiple of four.
    pub fn u32s(&self, name: &'static str) -> Result<Vec<u32>, BlockError> {
        self.numbers(name, u32::from_le_bytes)
    }

    /// Returns the section `name` as numbers of `N` bytes each.
    pub(crate) fn numbers<const N: usize, T>(
        &self,
        name: &'static str,
        number: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, BlockError> {
        let (numbers, rest) = self.section(name)?.as_chunks::<N>();
        let numbers = numbers.iter().map(|bytes| number(*bytes)).collect();
        rest.is_empty().then_some(numbers).ok_or(BlockError::Damaged { part: name })
    }
}

fn padded(name: &str) -> [u8; NAME] {
    let mut padded = [0; NAME];
    padded.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    padded
}

/// Reads the first four bytes; missing bytes count as zero.
fn read_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Computes a checksum against damage, not against manipulation. Four independent sums use the
/// processor better than one. Each step is reversible, so that a change of one word always changes
/// the result.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mix = |number: u64, word: u64| (number ^ word).rotate_left(29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums: [u64; 4] = [1, 2, 3, 4];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = mix(*sum, u64::from_le_bytes(*word));
        }
    }
    let mut last = [0; 32];
    last[..rest.len()].copy_from_slice(rest);
    let last = last.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let words = sums.into_iter().chain(last);
    mix(words.fold(0xCBF2_9CE4_8422_2325, mix), bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: BlockKind = BlockKind { name: "PEGTESTS", version: 3, key: 7 };

    fn block() -> Vec<u8> {
        let mut writer = BlockWriter::new(KIND);
        writer.add("text", "größer".as_bytes().to_vec());
        writer.add_u32s("numbers", &[1, 2, u32::MAX]);
        writer.add("later", vec![1, 2, 3]);
        writer.finish()
    }

    #[test]
    fn sections_are_found_by_name() {
        let bytes = block();
        let block = Block::parse(KIND, &bytes).expect("a block");
        assert_eq!(block.text("text"), Ok("größer"));
        assert_eq!(block.u32s("numbers"), Ok(vec![1, 2, u32::MAX]));
        assert_eq!(block.u32s("later"), Err(BlockError::Damaged { part: "later" }), "three bytes are no number");
        assert_eq!(block.section("other"), Err(BlockError::Damaged { part: "other" }));
    }

    #[test]
    fn a_block_of_another_kind_version_or_key_is_refused() {
        let bytes = block();
        let error = |kind| Block::parse(kind, &bytes).expect_err("another block");
        assert_eq!(error(BlockKind { name: "PEGOTHER", ..KIND }), BlockError::Kind { kind: "PEGOTHER" });
        assert_eq!(error(BlockKind { version: 4, ..KIND }), BlockError::Version { found: 3, expected: 4 });
        assert_eq!(error(BlockKind { key: 8, ..KIND }), BlockError::Key);
    }

    #[test]
    fn a_block_that_was_cut_or_changed_is_refused() {
        let good = block();
        for at in 0..good.len() {
            assert!(Block::parse(KIND, &good[..at]).is_err(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(Block::parse(KIND, &bad).is_err(), "changed at {at}");
        }
        assert!(Block::parse(KIND, &[good.as_slice(), &[0]].concat()).is_err(), "longer");
    }

    /// What a checksum that fits does not excuse.
    #[test]
    fn lengths_are_checked_on_their_own() {
        let mut bytes = block();
        bytes.truncate(bytes.len() - CHECKSUM);
        for length in [0, 7, u64::MAX] {
            bytes[HEAD + NAME..HEAD + ENTRY].copy_from_slice(&length.to_le_bytes());
            let sealed = [bytes.as_slice(), &checksum(&bytes).to_le_bytes()].concat();
            assert_eq!(Block::parse(KIND, &sealed).expect_err("invalid"), BlockError::Damaged { part: "sections" });
        }
    }
}
