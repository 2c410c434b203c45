//! The prompt cache of the server.
//!
//! On Anthropic's wire a request is cached up to each block that carries a `cache_control`. A
//! later request reads the longest cached prefix that ends at one of its own breakpoints or at
//! most twenty blocks before it, and writes from there to its last breakpoint; without
//! breakpoints nothing is read or written. MiniMax does the same, and falls back on what the
//! other providers do: a request reads whatever it has in common with an earlier one, to whole
//! blocks, and nothing is counted as written.
//!
//! Left out are the smallest length that real providers cache, the time after which they
//! forget, and that another `tool_choice` is another prefix.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hasher},
};

use super::{ask::ModelRequest, prompt::Prompt, route::Vendor};

/// A breakpoint is compared with so many ends of blocks before it.
const LOOKBACK: usize = 20;

/// Everything that was cached, by provider and model.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: BTreeMap<String, HashSet<u64>>,
}

/// Bytes of a request that came from the cache, and that went there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) read: usize,
    pub(crate) written: usize,
}

impl Cache {
    /// Reads and writes what an answered request reads and writes.
    pub(crate) fn charge(&mut self, ask: &ModelRequest, prompt: &Prompt) -> Charge {
        let entries = self.entries.entry(format!("{:?} {}", ask.route.vendor, ask.model)).or_default();
        let prefixes = prefixes(prompt);
        let is_explicit = match ask.route.vendor {
            Vendor::Anthropic => true,
            Vendor::MiniMax => !prompt.marks.is_empty(),
            Vendor::OpenAi | Vendor::Google => false,
        };
        if !is_explicit {
            let read = prefixes.iter().rposition(|prefix| entries.contains(prefix));
            entries.extend(prefixes);
            return Charge { read: read.map_or(0, |at| prompt.ends[at]), written: 0 };
        }
        let found = |mark: &usize| {
            let back = mark.saturating_sub(LOOKBACK)..=*mark;
            back.rev().find(|at| entries.contains(&prefixes[*at]))
        };
        let read = prompt.marks.iter().filter_map(found).max().map_or(0, |at| prompt.ends[at]);
        let last = prompt.marks.iter().max().map_or(0, |at| prompt.ends[*at]);
        entries.extend(prompt.marks.iter().map(|at| prefixes[*at]));
        Charge { read, written: last.saturating_sub(read) }
    }
}

/// A number for what a request holds up to each of its ends.
fn prefixes(prompt: &Prompt) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    let mut from = 0;
    let prefix = |end: &usize| {
        hasher.write(&prompt.bytes[from..*end]);
        from = *end;
        hasher.clone().finish()
    };
    prompt.ends.iter().map(prefix).collect()
}
