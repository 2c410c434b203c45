//! Cached tools and indexes of large catalog files.
//!
//! Reading and indexing 100,000 tools takes seconds; reading the cache does not. A search writes
//! three files into the cache folder of the user, named after the content of the catalog files: the
//! tools, their schemas and the index of a ranker. A fourth, the stamp of a catalog file, says
//! which content the file had when it was last read. All can be deleted at any time. A file that is
//! missing, damaged or from another build of the program is made again, and without a usable folder
//! nothing is cached.

mod stamp;
mod tools;

use std::{
    env,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::UNIX_EPOCH,
};

use clap::Args;
use pegboard_core::Catalog;
use pegboard_engine::blocks::{BlockError, PersistentIndex};
use pegboard_process::System;
use pegboard_state::{Folder, digest};

use self::stamp::{Stamp, Status};
use crate::{
    catalogs::{self, CatalogWarnings},
    config::state::{self, NONE},
    error::CliError,
};

/// Minimum number of tools for caching; smaller catalogs are read and indexed as fast as the cache
/// could be.
const MIN_TOOLS: usize = 5_000;

/// Minimum size of a catalog file for caching; smaller files cannot have so many tools.
const MIN_BYTES: u64 = 256 << 10;

/// Maximum size of a cache file.
const MAX_FILE_BYTES: usize = 1 << 30;

/// Maximum number of cached files of tools, schemas and indexes, and their total size; the least
/// recently used are removed first.
const MAX_FILES: usize = 24;
const MAX_BYTES: u64 = 1 << 30;

/// Maximum number of stamps. Each has a hundred bytes.
const MAX_STAMPS: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Folder for indexes of catalog files with more than 5000 tools; `none` keeps nothing
    /// [default: `pegboard` in the user's cache folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_CACHE")]
    pub(crate) cache: Option<String>,
}

impl CacheArgs {
    fn folder(&self) -> Option<PathBuf> {
        match self.cache.as_deref() {
            Some(NONE) => None,
            Some(folder) => Some(folder.into()),
            None => state::usual_cache(System::current(), &|name| env::var_os(name).map(PathBuf::from)),
        }
    }
}

/// The cache entry of some catalog files and one ranker.
pub(crate) struct CachedCatalog {
    folder: Folder,
    files: Vec<PathBuf>,
    max_bytes: usize,
    ranker: Arc<dyn PersistentIndex>,
    /// Whether the tools are needed with their schemas.
    has_schemas: bool,
    /// The state of the files and the warnings about them, once the files were read.
    read: Option<(Vec<Stamp>, CatalogWarnings)>,
}

impl CachedCatalog {
    /// Opens the cache; `None` if it is off or not usable, or if the files are small or not regular
    /// files.
    pub(crate) fn open(
        args: &CacheArgs,
        files: &[PathBuf],
        max_bytes: usize,
        ranker: Arc<dyn PersistentIndex>,
        has_schemas: bool,
    ) -> Option<Self> {
        let statuses: Vec<Status> = files.iter().map(|file| Status::of(file)).collect::<Option<_>>()?;
        let bytes: u64 = statuses.iter().map(|status| status.bytes).sum();
        if bytes < MIN_BYTES || statuses.iter().any(|status| status.bytes > max_bytes as u64) {
            return None;
        }
        let folder = Folder::open(&args.folder()?);
        let folder = folder.inspect_err(|error| tracing::debug!(%error, "search cache not usable")).ok()?;
        Some(Self { folder, files: files.to_vec(), max_bytes, ranker, has_schemas, read: None })
    }

    /// Returns the cached tools and gives their index to the ranker; `None` if the present content
    /// is not cached.
    pub(crate) fn load(&self) -> Option<Catalog> {
        let digests: Vec<[u8; 32]> = self.files.iter().map(|file| self.known_digest(file)).collect::<Option<_>>()?;
        let names = self.names(&digests)?;
        let damaged = |error: &BlockError| tracing::debug!(%error, "cached catalog not usable");
        let read_index = || self.ranker.parse_index(&self.read(&names.index)?).inspect_err(damaged).ok();
        let read_tools = || {
            let tools = self.read(&names.tools)?;
            let schemas = if self.has_schemas { Some(self.read(&names.schemas)?) } else { None };
            tools::read(&tools, schemas.as_deref()).inspect_err(damaged).ok()
        };
        let (tools, index) = thread::scope(|scope| {
            let index = scope.spawn(read_index);
            (read_tools(), index.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let ((catalog, notes), index) = (tools?, index?);
        self.ranker.restore_index(&catalog, index).inspect_err(damaged).ok()?;
        notes.report(&self.files);
        Some(catalog)
    }

    /// Reads the tools from the catalog files.
    pub(crate) fn read_files(&mut self) -> Result<Catalog, CliError> {
        let before: Vec<Option<Status>> = self.files.iter().map(|file| Status::of(file)).collect();
        let mut digests = Vec::new();
        let (catalog, notes) = catalogs::load(&self.files, self.max_bytes, &mut |bytes| digests.push(digest(bytes)))?;
        notes.report(&self.files);
        let stamps = self.files.iter().zip(before).zip(digests).map(|((file, before), digest)| {
            // A file that changed while it was read may have any content.
            let status = before.filter(|before| Status::of(file).as_ref() == Some(before))?;
            Some(Stamp::new(status, digest))
        });
        self.read = stamps.collect::<Option<Vec<Stamp>>>().map(|stamps| (stamps, notes));
        Ok(catalog)
    }

    /// Caches the result of [`read_files`](Self::read_files), if it is large enough. A failure to
    /// write is not a failure of the search.
    pub(crate) fn save(&self, catalog: &Catalog) {
        let Some((stamps, notes)) = self.read.as_ref().filter(|_| catalog.len() > MIN_TOOLS) else { return };
        let digests: Vec<[u8; 32]> = stamps.iter().map(|stamp| stamp.digest).collect();
        let (Some(names), Some(index)) = (self.names(&digests), self.ranker.index_to_bytes(catalog)) else { return };
        let Some((tools, schemas)) = tools::write(catalog, notes) else { return };
        let is_written = self.write(&names.tools, &tools)
            && self.write(&names.schemas, &schemas)
            && self.write(&names.index, &index);
        if is_written {
            for (file, stamp) in self.files.iter().zip(stamps) {
                self.write_stamp(file, stamp);
            }
        }
        self.evict();
    }

    /// Returns the digest of a file's present content, if the file was read before and has not
    /// changed.
    fn known_digest(&self, file: &Path) -> Option<[u8; 32]> {
        let status = Status::of(file)?;
        let known = self.folder.read(&stamp::name(file)?, stamp::MAX_BYTES).ok().flatten();
        let known = Stamp::parse(&String::from_utf8(known?).ok()?)?;
        if known.is_trusted(&status) {
            return Some(known.digest);
        }
        let bytes = catalogs::read_bounded(file, self.max_bytes).ok()?;
        let stamp = Stamp::new(status, digest(&bytes));
        if stamp.digest == known.digest {
            self.write_stamp(file, &stamp);
        }
        Some(stamp.digest)
    }

    fn write_stamp(&self, file: &Path, stamp: &Stamp) {
        if let Some(name) = stamp::name(file) {
            self.write(&name, stamp.to_string().as_bytes());
        }
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = self.folder.read(name, MAX_FILE_BYTES).ok().flatten()?;
        // Only the order in which files are removed depends on it.
        let _ = self.folder.touch(name);
        Some(bytes)
    }

    /// Writes a file and returns whether that was possible.
    fn write(&self, name: &str, bytes: &[u8]) -> bool {
        let written =
            if bytes.len() <= MAX_FILE_BYTES { self.folder.replace_without_sync(name, bytes) } else { return false };
        written.inspect_err(|error| tracing::debug!(%error, name, "search cache not written")).is_ok()
    }

    fn names(&self, digests: &[[u8; 32]]) -> Option<CacheFileNames> {
        let mut all = program()?;
        digests.iter().for_each(|digest| all.extend_from_slice(digest));
        let content = hex(&digest(&all)[..16]);
        let index = format!("{content}-{:016x}.index", self.ranker.index_key());
        Some(CacheFileNames { tools: format!("{content}.tools"), schemas: format!("{content}.schemas"), index })
    }

    /// Removes the least recently used files if there are too many.
    fn evict(&self) {
        self.folder.remove_abandoned();
        let mut files: Vec<_> = self.folder.names().unwrap_or_default().into_iter().collect();
        files.retain(|name| name.ends_with(".tools") || name.ends_with(".schemas") || name.ends_with(".index"));
        self.keep_newest(files, MAX_FILES, MAX_BYTES);
        let mut stamps = self.folder.names().unwrap_or_default();
        stamps.retain(|name| name.ends_with(stamp::ENDING));
        self.keep_newest(stamps, MAX_STAMPS, u64::MAX);
    }

    fn keep_newest(&self, names: Vec<String>, most: usize, most_bytes: u64) {
        let looked_at = names.into_iter().filter_map(|name| Some((self.folder.stamp(&name)?, name)));
        let mut files: Vec<_> = looked_at.collect();
        files.sort_by_key(|((modified, ..), _)| std::cmp::Reverse(*modified));
        let mut bytes = 0_u64;
        for (at, ((_, size, _), name)) in files.into_iter().enumerate() {
            bytes = bytes.saturating_add(size);
            if at >= most || bytes > most_bytes {
                let _ = self.folder.remove(&name);
            }
        }
    }
}

/// The names of the cache files of one content and one ranker.
struct CacheFileNames {
    tools: String,
    schemas: String,
    index: String,
}

/// Returns an identifier of this build of the program; other builds may read or index files
/// differently.
fn program() -> Option<Vec<u8>> {
    let data = env::current_exe().and_then(std::fs::metadata).ok()?;
    let modified = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(format!("{} {} {modified} ", env!("CARGO_PKG_VERSION"), data.len()).into_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
