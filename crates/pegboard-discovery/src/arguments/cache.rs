//! A cache of parsed schemas.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use pegboard_core::Tool;

use super::Schema;

/// Maximum number of cached schemas.
const MOST: usize = 4096;

/// Maximum size of all cached schemas, in bytes of text.
const MOST_BYTES: usize = 16 << 20;

/// The parsed schemas of tools that were called.
#[derive(Default)]
pub(super) struct Schemas {
    kept: Mutex<CachedSchemas>,
}

#[derive(Default)]
struct CachedSchemas {
    /// By the tool's address. A tool never changes, and while it is noted here no other can
    /// have its place.
    by_address: HashMap<usize, Entry>,
    bytes: usize,
}

struct Entry {
    tool: Weak<Tool>,
    /// `None` when it cannot be read, and forbids nothing.
    schema: Option<Arc<Schema>>,
    bytes: usize,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

impl Schemas {
    /// Returns the schema of a tool, parsed on first use.
    pub(super) fn of(&self, tool: &Arc<Tool>) -> Option<Arc<Schema>> {
        let address = Arc::as_ptr(tool) as usize;
        if let Some(entry) = self.lock().by_address.get(&address) {
            return entry.schema.clone();
        }
        let text = tool.input_schema().unwrap_or_default();
        let schema = Schema::read(text).map(Arc::new);
        let bytes = if schema.is_some() { text.len() } else { 0 };
        let mut kept = self.lock();
        kept.make_room(bytes);
        kept.bytes += bytes;
        kept.by_address.insert(address, Entry { tool: Arc::downgrade(tool), schema: schema.clone(), bytes });
        schema
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedSchemas> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().by_address.len()
    }
}

impl CachedSchemas {
    /// Removes the schemas of tools that no longer exist, and all of them if that is not enough:
    /// parsing a schema again is cheap, and a record of use would not be.
    fn make_room(&mut self, bytes: usize) {
        if self.by_address.len() < MOST && self.bytes + bytes <= MOST_BYTES {
            return;
        }
        self.by_address.retain(|_, entry| entry.tool.strong_count() > 0);
        self.bytes = self.by_address.values().map(|entry| entry.bytes).sum();
        if self.by_address.len() >= MOST || self.bytes + bytes > MOST_BYTES {
            self.by_address.clear();
            self.bytes = 0;
        }
    }
}
