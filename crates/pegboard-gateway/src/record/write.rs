//! The file of a record.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
    sync::mpsc::{Receiver, TryRecvError},
};

use pegboard_core::Tool;
use pegboard_mcp::json::{Fields, Raw, one_line};
use pegboard_state::platform;

use super::{Line, Note, identity};
use crate::catalog::directory;

/// The first bytes of every record, even if its first line was cut.
const BEGINNING: &[u8] = b"{\"begin\":";

/// The reason why a record cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The system refuses.
    #[error("cannot write the record `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a record, and would be damaged by appending.
    #[error("`{path}` is not a record")]
    NotRecord {
        /// The file.
        path: PathBuf,
    },
    /// There can be no thread that writes.
    #[error("cannot start the thread that writes the record")]
    Thread(#[source] io::Error),
}

/// A record that is being written.
pub(super) struct RecordFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// How much there is of it.
    length: u64,
    limit: u64,
    /// What was last written of each tool, as a number.
    known: HashMap<String, u64>,
}

impl RecordFile {
    pub(super) fn open(path: PathBuf, limit: u64) -> Result<Self, RecordError> {
        let failed = |source| RecordError::File { path: path.clone(), source };
        let mut file = open(&path).map_err(failed)?;
        let is_file = file.metadata().map_err(failed)?.is_file();
        let known = if is_file { read_known(&mut file, limit).map_err(failed)? } else { None };
        let Some(known) = known else { return Err(RecordError::NotRecord { path }) };
        let length = file.metadata().map_err(failed)?.len();
        let is_cut = length > 0 && {
            let mut last = [0];
            file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).map_err(failed)?;
            last != *b"\n"
        };
        let mut record = Self { file: BufWriter::new(file), length, limit, known, path: path.clone() };
        // The last writer was interrupted; new lines begin on a line of their own.
        if is_cut {
            record.write_bytes(b"\n").and_then(|()| record.file.flush()).map_err(failed)?;
        }
        Ok(record)
    }

    /// Writes notes until the senders are dropped, or nothing more can be written.
    pub(super) fn write_notes(&mut self, notes: &Receiver<Note>) {
        while let Ok(first) = notes.recv() {
            let (mut next, mut has_ended) = (Ok(first), false);
            let written = loop {
                match next {
                    Ok(Note::End) => {
                        has_ended = true;
                        break Ok(true);
                    }
                    Ok(note) => match self.write(note) {
                        Ok(true) => next = notes.try_recv(),
                        Ok(false) => break Ok(false),
                        Err(error) => break Err(error),
                    },
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break Ok(true),
                }
            };
            match written.and_then(|has_room| self.file.flush().map(|()| has_room)) {
                Ok(true) if has_ended => return,
                Ok(true) => {}
                Ok(false) => {
                    let (file, limit) = (self.path.display(), self.limit);
                    return tracing::warn!(%file, limit, "recording stopped: size limit reached");
                }
                Err(error) => {
                    let file = self.path.display();
                    return tracing::warn!(%file, %error, "recording stopped: cannot write");
                }
            }
        }
    }

    /// Writes the lines of a note; `false` if there was no room for it.
    fn write(&mut self, note: Note) -> io::Result<bool> {
        let (catalog, selection) = match note {
            Note::Line(line) => return self.write_line(&line),
            Note::Tools(catalog, selection) => (catalog, selection),
            Note::End => return Ok(true),
        };
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            let entry = catalog_entry(tool);
            let mark = digest(entry.get());
            let id = identity(tool);
            if self.known.get(&id) == Some(&mark) {
                continue;
            }
            if !self.write_line(&Line::Tool(entry))? {
                return Ok(false);
            }
            self.known.insert(id, mark);
        }
        Ok(true)
    }

    fn write_line(&mut self, line: &Line) -> io::Result<bool> {
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
        bytes.push(b'\n');
        if self.length + bytes.len() as u64 > self.limit {
            return Ok(false);
        }
        self.write_bytes(&bytes).map(|()| true)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

/// Opens a file for appending, with access for its owner only.
fn open(path: &std::path::Path) -> io::Result<File> {
    // Before it is opened: a pipe would keep us waiting.
    if path.metadata().is_ok_and(|data| !data.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    let mut options = OpenOptions::new();
    let file = platform::restrict_to_owner(options.read(true).append(true).create(true)).open(path)?;
    platform::make_file_private(&file)?;
    Ok(file)
}

/// Returns the tools that a record already contains; `None` if the file is not a record.
fn read_known(file: &mut File, limit: u64) -> io::Result<Option<HashMap<String, u64>>> {
    let mut known = HashMap::new();
    let mut lines = BufReader::new(file.take(limit)).split(b'\n');
    let Some(first) = lines.next() else { return Ok(Some(known)) };
    if !first?.starts_with(BEGINNING) {
        return Ok(None);
    }
    for line in lines {
        let Ok(Line::Tool(entry)) = serde_json::from_slice(&line?) else { continue };
        if let Some(id) = Fields::of(&entry).and_then(|fields| fields.text("id")) {
            known.insert(id, digest(entry.get()));
        }
    }
    Ok(Some(known))
}

/// Returns a tool in the format of a catalog.
pub(crate) fn catalog_entry(tool: &Tool) -> Raw {
    let definition = directory::definition(tool, tool.name());
    let mut fields = Fields::of(&definition).unwrap_or_default().with("id", &identity(tool));
    if let Some(server) = tool.server() {
        fields = fields.with("server", &server.name);
        if !server.description.is_empty() {
            fields = fields.with("server_description", &server.description);
        }
    }
    let fields = fields.to_raw();
    let line = one_line(&fields).into_owned();
    serde_json::value::RawValue::from_string(line).unwrap_or(fields)
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
