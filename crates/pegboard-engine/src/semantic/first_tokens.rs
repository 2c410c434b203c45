//! The first tokens of tools, stored one by one rather than as one sum.

use super::pool::ToolReader;

/// The fields whose tokens are stored, by their position in the model's list, and how many of each.
const KEPT: [(usize, usize); FIELDS] = [(0, 12), (1, 16), (4, 6)];

/// The number of these fields: name, description and server.
const FIELDS: usize = 3;

/// The first tokens of name, description and server of many tools.
///
/// Tokens take two bytes each: [`Model`](super::Model)s with a larger vocabulary have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FirstTokens {
    tokens: Vec<u16>,
    /// The end of each field of each tool.
    ends: Vec<u32>,
}

/// The first tokens of one tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolFirstTokens<'a> {
    tokens: &'a [u16],
    /// The ends of name and description.
    ends: [usize; 2],
}

impl<'a> ToolFirstTokens<'a> {
    /// Returns all tokens.
    pub(crate) fn tokens(self) -> &'a [u16] {
        self.tokens
    }

    pub(crate) fn name(self) -> &'a [u16] {
        &self.tokens[..self.ends[0]]
    }

    pub(crate) fn description(self) -> &'a [u16] {
        &self.tokens[self.ends[0]..self.ends[1]]
    }

    pub(crate) fn server(self) -> &'a [u16] {
        &self.tokens[self.ends[1]..]
    }
}

impl FirstTokens {
    /// Appends the tokens of the tool that was read last.
    pub(crate) fn push(&mut self, reader: &ToolReader) {
        for (field, most) in KEPT {
            let tokens = reader.field(field).iter().take(most);
            self.tokens.extend(tokens.map(|token| u16::try_from(*token).unwrap_or(u16::MAX)));
            self.ends.push(self.tokens.len() as u32);
        }
    }

    /// Returns the tokens of the tool with this number.
    pub(crate) fn get(&self, number: u32) -> ToolFirstTokens<'_> {
        let first = number as usize * FIELDS;
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let end = |field: usize| self.ends[first + field] as usize;
        ToolFirstTokens { tokens: &self.tokens[start..end(FIELDS - 1)], ends: [end(0) - start, end(1) - start] }
    }

    /// Merges those of `parts` whose position is not `u32::MAX`, in order.
    pub(crate) fn merged<'a>(parts: impl Iterator<Item = (&'a Self, &'a [u32])>) -> Self {
        let mut merged = Self::default();
        for (part, places) in parts.filter(|(part, _)| !part.ends.is_empty()) {
            for number in (0..places.len()).filter(|number| places[*number] != u32::MAX) {
                let tool = part.get(number as u32);
                for field in [tool.name(), tool.description(), tool.server()] {
                    merged.tokens.extend_from_slice(field);
                    merged.ends.push(merged.tokens.len() as u32);
                }
            }
        }
        merged
    }

    /// Returns tokens and ends, for an index on disk.
    pub(crate) fn parts(&self) -> (&[u16], &[u32]) {
        (&self.tokens, &self.ends)
    }

    /// Restores the table for so many tools, if it is consistent and no token is outside of the
    /// vocabulary.
    pub(crate) fn from_parts(tokens: Vec<u16>, ends: Vec<u32>, tools: usize, vocabulary: usize) -> Option<Self> {
        let is_right = tools.checked_mul(FIELDS) == Some(ends.len())
            && ends.is_sorted()
            && ends.last().copied().unwrap_or_default() as usize == tokens.len()
            && tokens.iter().all(|token| usize::from(*token) < vocabulary);
        is_right.then_some(Self { tokens, ends })
    }

    pub(crate) fn bytes(&self) -> usize {
        2 * self.tokens.capacity() + 4 * self.ends.capacity()
    }
}
