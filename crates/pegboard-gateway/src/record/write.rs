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

/// How every record begins, even one whose first line was cut.
const BEGINNING: &[u8] = b"{\"begin\":";

/// Why a record cannot be written.
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
    /// There is a file that is no record, and adding to it would spoil it.
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
pub(super) struct Record {
    path: PathBuf,
    file: BufWriter<File>,
    /// How much there is of it.
    length: u64,
    limit: u64,
    /// What was last written of each tool, as a number.
    known: HashMap<String, u64>,
}

impl Record {
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
        // Whoever wrote last was interrupted; what follows begins on a line of its own.
        if is_cut {
            record.put(b"\n").and_then(|()| record.file.flush()).map_err(failed)?;
        }
        Ok(record)
    }

    /// Writes what comes until nobody notes anything any more, or nothing more can be written.
    pub(super) fn follow(&mut self, notes: &Receiver<Note>) {
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

    /// Writes what there is to a note; whether there was room for it.
    fn write(&mut self, note: Note) -> io::Result<bool> {
        let (catalog, selection) = match note {
            Note::Line(line) => return self.line(&line),
            Note::Tools(catalog, selection) => (catalog, selection),
            Note::End => return Ok(true),
        };
        for tool in catalog.iter().filter(|tool| selection.allows(tool)) {
            let entry = entry(tool);
            let mark = mark(entry.get());
            let id = identity(tool);
            if self.known.get(&id) == Some(&mark) {
                continue;
            }
            if !self.line(&Line::Tool(entry))? {
                return Ok(false);
            }
            self.known.insert(id, mark);
        }
        Ok(true)
    }

    fn line(&mut self, line: &Line) -> io::Result<bool> {
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
        bytes.push(b'\n');
        if self.length + bytes.len() as u64 > self.limit {
            return Ok(false);
        }
        self.put(&bytes).map(|()| true)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

/// A file for its owner alone, to add to.
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

/// The tools that are in a record already; `None` if it is none.
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
            known.insert(id, mark(entry.get()));
        }
    }
    Ok(Some(known))
}

/// A tool as a catalog has it.
fn entry(tool: &Tool) -> Raw {
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

fn mark(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
