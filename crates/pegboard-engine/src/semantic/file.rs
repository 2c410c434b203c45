//! Parses and validates the model file.

use std::borrow::Cow;

use super::{Model, header::Header, pieces::PieceVocabulary, table::Vectors, vector::Vector};

const MAGIC: &[u8; 8] = b"PEGMODEL";
const VERSION: u32 = 3;
const MAX_HEADER: usize = 65_536;

/// Magic, version, and the length of the header.
const PREFIX: usize = 16;
const CHECKSUM: usize = 8;

/// Why a file is not a valid model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file does not begin with the magic bytes.
    #[error("not a model file: it does not begin with `PEGMODEL`")]
    Magic,
    /// The version is not supported.
    #[error("the model has format {found}; this version reads format {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The header is too long, or longer than the file.
    #[error("invalid header length: {bytes} bytes in a file of {file}")]
    HeaderLength {
        /// The length in the file.
        bytes: usize,
        /// The length of the file.
        file: usize,
    },
    /// The header is not valid JSON.
    #[error("the header is invalid")]
    Header(#[source] serde_json::Error),
    /// A setting has an invalid value.
    #[error("`{setting}` in the header is out of range")]
    Setting {
        /// The key of the setting.
        setting: &'static str,
    },
    /// The file is truncated or too long.
    #[error("the model is {found} bytes, expected {expected} from its header")]
    Length {
        /// The actual length.
        found: usize,
        /// The expected length.
        expected: usize,
    },
    /// The checksum does not match.
    #[error("the model is damaged: its checksum is `{found:016x}`, expected `{expected:016x}`")]
    Checksum {
        /// The computed checksum.
        found: u64,
        /// The checksum in the file.
        expected: u64,
    },
    /// The vocabulary is not sorted or has an invalid entry.
    #[error("entry {entry} of the vocabulary is not a valid piece of a word, or out of order")]
    Vocabulary {
        /// The index of the entry, from 0.
        entry: usize,
    },
    /// The vocabulary does not have the size in the header.
    #[error("the vocabulary does not have the {expected} entries that the header declares")]
    VocabularySize {
        /// The expected size.
        expected: usize,
    },
    /// A scale or weight is not a valid number.
    #[error("{section} has a value that is negative, too large or not a number")]
    Number {
        /// The section.
        section: &'static str,
    },
}

/// The offsets of the sections of a model.
struct Layout {
    header: Header,
    entries: usize,
    table: usize,
    numbers: usize,
    background: usize,
    end: usize,
}

/// Parses a model and validates every byte.
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

/// Parses a model that was validated before. Its rows, which are most of it, are paged in on use.
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
        let pieces = PieceVocabulary::parse(&bytes[entries..table], header.vocabulary)?;
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

/// Reads vectors: rows of quantized components, then the scale of each.
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

/// Reads the first four bytes; missing bytes count as zero.
fn read_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the checksum at the end of a model.
pub(super) fn stored_checksum(bytes: &[u8]) -> u64 {
    read_u64(&bytes[bytes.len().saturating_sub(CHECKSUM)..])
}

/// Computes a checksum against damage, not against manipulation.
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
