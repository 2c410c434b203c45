//! A cache of vectors on disk.
//!
//! The cache is a folder of sealed files, each with the vectors of one or several batches. The name
//! of an entry depends on everything that determines its vector, so that a changed text or another
//! model has no entry. The folder's key is part of the name, so that texts cannot be guessed
//! without it. Files are written atomically; files that are damaged, truncated or not ours are
//! skipped. Above a total size the least recently used files are removed.
//!
//! Vectors are stored as one byte for each dimension and a scale. Rankers compare vectors in this
//! form, so a start from the cache ranks exactly like the one that fetched them, and ten thousand
//! tools in 384 dimensions take 4 MB.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use pegboard_core::vectors::{Direction, MAX_DIMENSIONS};
use pegboard_state::{FileKind, Store, digest};

use super::EndpointSettings;

/// Maximum size of a file.
const FILE_BYTES: usize = 16 << 20;

/// Maximum size of all files.
const ALL_BYTES: u64 = 256 << 20;

/// Number of files above which small ones are merged.
const MANY_FILES: usize = 24;

/// Age from which the time of last use of a file is updated.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// The length of a name, a scale and the number of dimensions.
const HEAD: usize = 16 + 4 + 2;

const KIND: FileKind = FileKind { name: "vectors", version: 2, max_bytes: FILE_BYTES };

/// The identity of a vector: a hash of endpoint, model, dimensions, prefix and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Computes the fingerprint of a text with a prefix.
    pub fn of(settings: &EndpointSettings, prefix: &str, text: &str) -> Self {
        let dimensions = settings.dimensions.unwrap_or(0).to_string();
        let mut message = Vec::new();
        for part in [settings.endpoint().as_str(), &settings.model, &dimensions, prefix, text] {
            // With the lengths, different lists of parts never have the same bytes.
            message.extend_from_slice(&(part.len() as u64).to_le_bytes());
            message.extend_from_slice(part.as_bytes());
        }
        let mut name = [0; 16];
        name.copy_from_slice(&digest(&message)[..16]);
        Self(name)
    }
}

/// The name of an entry in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct EntryName([u8; 16]);

/// A folder of cached vectors.
#[derive(Debug)]
pub struct Cache {
    store: Store,
    all_bytes: u64,
}

impl Cache {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// If the folder can neither be read nor created, or other users can write to it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { store: Store::open(folder, KIND)?, all_bytes: ALL_BYTES })
    }

    /// Returns those of the wanted vectors that are cached.
    pub fn find(&self, wanted: &HashSet<Fingerprint>) -> HashMap<Fingerprint, Direction> {
        let mut found = HashMap::new();
        if wanted.is_empty() {
            return found;
        }
        let wanted: HashMap<EntryName, Fingerprint> = wanted.iter().map(|one| (self.entry_name(*one), *one)).collect();
        for (name, used) in self.store.names().unwrap_or_default() {
            let Some(entries) = self.read(&name) else { continue };
            let before = found.len();
            found.extend(entries.into_iter().filter_map(|(entry, row)| Some((*wanted.get(&entry)?, row))));
            if found.len() > before && used.elapsed().is_ok_and(|age| age > FRESH) {
                let _ = self.store.touch(&name);
            }
        }
        found
    }

    /// Adds vectors.
    ///
    /// # Errors
    /// If a file cannot be written; existing entries are kept.
    pub fn save(&self, entries: &[(Fingerprint, &Direction)]) -> io::Result<()> {
        for body in bodies(entries.iter().map(|(name, row)| (self.entry_name(*name), *row))) {
            self.store.save(&name_of(&body), &body)?;
        }
        self.tidy()
    }

    /// Removes entries, and keeps the others in their files.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub fn forget(&self, names: &HashSet<Fingerprint>) -> io::Result<()> {
        let names: HashSet<EntryName> = names.iter().map(|name| self.entry_name(*name)).collect();
        for (file, _) in self.store.names()? {
            let Some(entries) = self.read(&file) else { continue };
            let staying = || entries.iter().filter(|(name, _)| !names.contains(name)).map(|(name, row)| (*name, row));
            if staying().count() == entries.len() {
                continue;
            }
            for body in bodies(staying()) {
                self.store.save(&name_of(&body), &body)?;
            }
            self.remove(&file)?;
        }
        Ok(())
    }

    /// Returns the name of an entry in this folder.
    fn entry_name(&self, name: Fingerprint) -> EntryName {
        let marked = self.store.keyed_hash("entry", &name.0);
        let mut entry = [0; 16];
        entry.copy_from_slice(&digest(marked.as_bytes())[..16]);
        EntryName(entry)
    }

    /// Removes a file, which another program may already have done.
    fn remove(&self, file: &str) -> io::Result<()> {
        match self.store.remove(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Merges small files, and removes old ones.
    fn tidy(&self) -> io::Result<()> {
        let mut files: Vec<(String, SystemTime, u64)> = Vec::new();
        for (name, used) in self.store.names()? {
            // Another program may have removed it meanwhile.
            if let Ok(size) = self.store.size(&name) {
                files.push((name, used, size));
            }
        }
        // The latest first; equal times by name.
        files.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut all = 0;
        files.retain(|(name, _, size)| {
            all += size;
            let stays = all <= self.all_bytes;
            if !stays {
                let _ = self.store.remove(name);
            }
            stays
        });
        files.retain(|(_, _, size)| *size < FILE_BYTES as u64 / 4);
        if files.len() <= MANY_FILES {
            return Ok(());
        }
        let names: Vec<&String> = files.iter().map(|(name, ..)| name).collect();
        self.join(&names)
    }

    /// Merges files. A crash here leaves some vectors twice, and loses none.
    fn join(&self, names: &[&String]) -> io::Result<()> {
        let entries: HashMap<EntryName, Direction> =
            names.iter().filter_map(|name| self.read(name)).flatten().collect();
        let mut entries: Vec<(EntryName, &Direction)> = entries.iter().map(|(name, row)| (*name, row)).collect();
        entries.sort_by_key(|(name, _)| *name);
        let bodies = bodies(entries.into_iter());
        for body in &bodies {
            self.store.save(&name_of(body), body)?;
        }
        let kept: HashSet<String> = bodies.iter().map(|body| name_of(body)).collect();
        names.iter().filter(|name| !kept.contains(**name)).try_for_each(|name| self.remove(name))
    }

    fn read(&self, name: &str) -> Option<Vec<(EntryName, Direction)>> {
        entries(&self.store.load(name).ok()?)
    }
}

/// Returns the name of a file, a hash of its content: the same vectors are one file.
fn name_of(body: &[u8]) -> String {
    digest(body).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Splits entries into files of limited size.
fn bodies<'a>(entries: impl Iterator<Item = (EntryName, &'a Direction)>) -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for (name, row) in entries {
        let length = HEAD + row.dimensions();
        if bodies.last().is_none_or(|body| body.len() + length > FILE_BYTES) {
            bodies.push(Vec::new());
        }
        let Some(body) = bodies.last_mut() else { continue };
        body.extend_from_slice(&name.0);
        body.extend_from_slice(&row.scale().to_le_bytes());
        body.extend_from_slice(&(row.dimensions() as u16).to_le_bytes());
        body.extend(row.numbers().iter().map(|number| number.cast_unsigned()));
    }
    bodies
}

/// Parses the entries of a file; `None` if it is invalid.
fn entries(mut body: &[u8]) -> Option<Vec<(EntryName, Direction)>> {
    let mut entries = Vec::new();
    while !body.is_empty() {
        let (head, rest) = body.split_at_checked(HEAD)?;
        let (name, numbers) = head.split_at_checked(16)?;
        let scale = f32::from_le_bytes(numbers[..4].try_into().ok()?);
        let dimensions = usize::from(u16::from_le_bytes(numbers[4..].try_into().ok()?));
        let (row, rest) = rest.split_at_checked(dimensions).filter(|_| dimensions <= MAX_DIMENSIONS)?;
        let row: Vec<i8> = row.iter().map(|byte| byte.cast_signed()).collect();
        entries.push((EntryName(name.try_into().ok()?), Direction::from_parts(scale, &row)?));
        body = rest;
    }
    Some(entries)
}

#[cfg(test)]
mod tests;
