//! The model file: its parts, and everything that must hold for them.

use std::borrow::Cow;

use super::{Model, header::Header, pieces::Pieces, table::Vectors, vector::Vector};

const MAGIC: &[u8; 8] = b"PEGMODEL";
const VERSION: u32 = 3;
const MAX_HEADER: usize = 65_536;

/// Magic, version, and the length of the header.
const PREFIX: usize = 16;
const CHECKSUM: usize = 8;

/// Why a file is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It begins otherwise.
    #[error("not a model file: it does not begin with `PEGMODEL`")]
    Magic,
    /// It was written for another program.
    #[error("the model has format {found}; this version reads format {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// Its header is longer than a header can be, or than the file.
    #[error("invalid header length: {bytes} bytes in a file of {file}")]
    HeaderLength {
        /// The length in the file.
        bytes: usize,
        /// How long the file is.
        file: usize,
    },
    /// Its header is not the JSON that it must be.
    #[error("the header is invalid")]
    Header(#[source] serde_json::Error),
    /// A setting has a value that it cannot have.
    #[error("`{setting}` in the header is out of range")]
    Setting {
        /// Its key.
        setting: &'static str,
    },
    /// It was cut off, or something follows it.
    #[error("the model is {found} bytes, expected {expected} from its header")]
    Length {
        /// How long it is.
        found: usize,
        /// How long it should be.
        expected: usize,
    },
    /// A byte of it has changed.
    #[error("the model is damaged: its checksum is `{found:016x}`, expected `{expected:016x}`")]
    Checksum {
        /// What its bytes come to.
        found: u64,
        /// What stands at its end.
        expected: u64,
    },
    /// The vocabulary is not in order.
    #[error("entry {entry} of the vocabulary is not a valid piece of a word, or out of order")]
    Vocabulary {
        /// Its number, from 0.
        entry: usize,
    },
    /// The vocabulary has fewer or more entries than the header says.
    #[error("the vocabulary does not have the {expected} entries that the header declares")]
    VocabularySize {
        /// How many it should have.
        expected: usize,
    },
    /// A scale or weight is not a number that can be worked with.
    #[error("{section} has a value that is negative, too large or not a number")]
    Number {
        /// The section that it is in.
        section: &'static str,
    },
}

/// Where the sections of a model begin.
struct Layout {
    header: Header,
    entries: usize,
    table: usize,
    numbers: usize,
    background: usize,
    end: usize,
}

/// Reads a model and checks every byte of it.
pub(super) fn parse(bytes: Cow<'static, [u8]>) -> Result<Model, ModelError> {
    let layout = Layout::of(&bytes)?;
    let (found, expected) = (checksum(&bytes[..layout.end]), read_u64(&bytes[layout.end..]));
    if found != expected {
        return Err(ModelError::Checksum { found, expected });
    }
    // The kernels rely on it.
    if bytes[layout.table..layout.numbers].contains(&i8::MIN.cast_unsigned()) {
        return Err(ModelError::Number { section: "`table`" });
    }
    layout.read(bytes)
}

/// Reads a model of which somebody has checked every byte before. Its rows, which are most of it,
/// come into memory as they are used.
pub(super) fn parse_checked(bytes: &'static [u8]) -> Result<Model, ModelError> {
    Layout::of(bytes)?.read(Cow::Borrowed(bytes))
}

impl Layout {
    fn of(bytes: &[u8]) -> Result<Self, ModelError> {
        let header = read_header(bytes)?;
        let entries = PREFIX + header_length(bytes);
        let table = entries + header.vocabulary_bytes;
        let numbers = table + header.vocabulary * header.dims;
        let background = numbers + 4 * 4 * header.vocabulary;
        let end = background + header.background * (header.dims + 4);
        if bytes.len() != end + CHECKSUM {
            return Err(ModelError::Length { found: bytes.len(), expected: end + CHECKSUM });
        }
        Ok(Self { header, entries, table, numbers, background, end })
    }

    fn read(self, bytes: Cow<'static, [u8]>) -> Result<Model, ModelError> {
        let Self { header, entries, table, numbers, background, end } = self;
        let pieces = Pieces::parse(&bytes[entries..table], header.vocabulary)?;
        let section = |at: usize, section| {
            let start = numbers + at * 4 * header.vocabulary;
            read_weights(&bytes[start..start + 4 * header.vocabulary], section)
        };
        let scales = section(0, "`scales`")?;
        let query_weights = section(1, "`query weights`")?;
        let tool_weights = section(2, "`tool weights`")?;
        let front_units = section(3, "`front units`")?;
        let background = read_background(&bytes[background..end], &header)?;
        Ok(Model { header, bytes, table, pieces, scales, query_weights, tool_weights, front_units, background })
    }
}

/// Vectors as tools have them: rows of whole numbers, then what a unit of each is worth.
fn read_background(bytes: &[u8], header: &Header) -> Result<Vectors, ModelError> {
    let section = "`background`";
    let (rows, scales) = bytes.split_at(header.background * header.dims);
    let scales = read_weights(scales, section)?;
    let mut vectors = Vectors::new(header.background, header.dims);
    for (row, scale) in rows.chunks(header.dims).zip(scales) {
        let components: Vec<i8> = row.iter().map(|byte| byte.cast_signed()).collect();
        vectors.push(&Vector::from_components(&components, scale).ok_or(ModelError::Number { section })?);
    }
    Ok(vectors)
}

fn read_header(bytes: &[u8]) -> Result<Header, ModelError> {
    if bytes.len() < PREFIX || !bytes.starts_with(MAGIC) {
        return Err(ModelError::Magic);
    }
    let found = read_u32(&bytes[MAGIC.len()..]);
    if found != VERSION {
        return Err(ModelError::Version { found });
    }
    let length = header_length(bytes);
    let json = bytes[PREFIX..].get(..length).filter(|_| length <= MAX_HEADER);
    Header::parse(json.ok_or(ModelError::HeaderLength { bytes: length, file: bytes.len() })?)
}

fn header_length(bytes: &[u8]) -> usize {
    read_u32(&bytes[MAGIC.len() + 4..]) as usize
}

fn read_weights(bytes: &[u8], section: &'static str) -> Result<Vec<f32>, ModelError> {
    let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let is_right = numbers.iter().all(|number| super::header::is_share(*number));
    is_right.then_some(numbers).ok_or(ModelError::Number { section })
}

/// The first four bytes; what is missing counts as zero.
fn read_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The checksum at the end of a model.
pub(super) fn stored_checksum(bytes: &[u8]) -> u64 {
    read_u64(&bytes[bytes.len().saturating_sub(CHECKSUM)..])
}

/// Guards against damage, not against intent: whoever replaces a model can write this too.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mix = |number: u64, word: u64| (number ^ word).rotate_left(29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut number = words.iter().fold(0xCBF2_9CE4_8422_2325, |number, word| mix(number, u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        number = mix(number, u64::from_le_bytes(last));
    }
    mix(number, bytes.len() as u64)
}
