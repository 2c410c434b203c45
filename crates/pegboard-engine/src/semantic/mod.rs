//! Semantic vectors of queries and tools, from a table of word pieces.
//!
//! A [`Model`] is one file; `train/FORMAT.md` describes it and all computations here, and
//! `train/reference.py` implements them in Python. It converts a text to tokens by lookup, adds up
//! the vectors of the tokens, and quantizes the sum to 8 bits. Nothing is learned or fetched at run
//! time.
//!
//! ```
//! use pegboard_core::{Catalog, RawTool};
//! use pegboard_engine::Model;
//!
//! let tool = |name: &str, description: &str| RawTool {
//!     name: name.into(),
//!     description: description.into(),
//!     ..RawTool::default()
//! };
//! let tools = vec![tool("place_call", "Call a phone number"), tool("get_weather", "Weather for a city")];
//! let (catalog, _) = Catalog::from_tools(tools);
//! let model = Model::embedded();
//! let query = model.query_vector("ring my colleague").expect("all words are known");
//! let near = |tool| model.tool_vector(tool).similarity(&query);
//! let [call, weather] = [0, 1].map(|at| catalog.iter().nth(at).expect("two tools"));
//! assert!(near(call) > near(weather));
//! ```

mod file;
mod first_tokens;
mod header;
pub(crate) mod kernel;
mod pieces;
mod pool;
mod requests;
mod table;
pub(crate) mod vector;
mod words;

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use pegboard_core::Tool;

pub use self::{
    file::ModelError,
    pool::{QueryReading, ToolReader},
    vector::Vector,
};
pub(crate) use self::{
    first_tokens::{FirstTokens, ToolFirstTokens},
    header::is_share,
    requests::{request_at, request_starts, requests_of},
    table::{BLOCK, Similarity, Vectors},
};
use self::{
    header::Header,
    pieces::PieceVocabulary,
    vector::{LINE, Line},
};
use crate::hybrid::{
    confidence::{self, ConfidenceSettings, Nearest},
    fusion::FusionSettings,
    second_look::{self, SecondLookSettings},
};

/// An embedding model: the vectors and weights of word pieces, and its coefficients.
#[derive(Debug)]
pub struct Model {
    header: Header,
    bytes: Cow<'static, [u8]>,
    /// The offset of the quantized rows in `bytes`.
    table: usize,
    pieces: PieceVocabulary,
    /// The scale of each row.
    scales: Vec<f32>,
    pub(crate) query_weights: Vec<f32>,
    tool_weights: Vec<f32>,
    /// The scale of the first components of a row, normalized to length one.
    pub(crate) front_units: Vec<f32>,
    /// The background vectors, which represent tools in general.
    background: Vectors,
}

static EMBEDDED_BYTES: &[u8] = include_bytes!("../../model/pegboard.model");

/// The built-in model.
static EMBEDDED: LazyLock<Arc<Model>> = LazyLock::new(|| {
    // The program is not modified at run time; a test checks all bytes.
    Arc::new(file::parse_checked(EMBEDDED_BYTES).expect("a test parses the embedded model"))
});

impl Model {
    /// Returns the built-in model, which is parsed on first use.
    pub fn embedded() -> &'static Arc<Self> {
        &EMBEDDED
    }

    /// Parses and validates a model file.
    ///
    /// # Errors
    /// If the file is invalid in any part.
    pub fn parse(bytes: Cow<'static, [u8]>) -> Result<Self, ModelError> {
        file::parse(bytes)
    }

    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// Returns the checksum of its file, which identifies the model.
    pub(crate) fn checksum(&self) -> u64 {
        file::stored_checksum(&self.bytes)
    }

    /// Returns the number of components of its vectors.
    pub fn dims(&self) -> usize {
        self.header.dims
    }

    /// Returns the size of its vocabulary.
    pub(crate) fn vocabulary(&self) -> usize {
        self.header.vocabulary
    }

    /// Returns whether a folded word is a whole entry of its vocabulary, and long enough to be
    /// specific to English.
    pub(crate) fn knows(&self, word: &str) -> bool {
        word.len() > pieces::SHORT && self.pieces.has(word)
    }

    /// Tokenizes a query.
    pub fn read(&self, query: &str) -> QueryReading {
        QueryReading::new(self, query)
    }

    /// Returns the vector of `query`, or `None` if the model knows none of its words.
    pub fn query_vector(&self, query: &str) -> Option<Vector> {
        self.read(query).vector(self)
    }

    /// Returns the vector of `tool`; all zeros without a known word.
    pub fn tool_vector(&self, tool: &Tool) -> Vector {
        ToolReader::default().read(tool, self)
    }

    pub(crate) fn fusion(&self) -> &FusionSettings {
        &self.header.fusion
    }

    pub(crate) fn confidence(&self) -> &ConfidenceSettings {
        &self.header.confidence
    }

    /// Returns the settings of the second look; `None` if the model has none.
    pub(crate) fn second_look_settings(&self) -> Option<&SecondLookSettings> {
        self.header.look.as_ref()
    }

    /// Returns the highest similarities of the background vectors to any of `vectors`.
    pub(crate) fn background(&self, vectors: &[Vector]) -> Nearest {
        let queries: Vec<Similarity<'_>> = vectors.iter().map(Similarity::to).collect();
        confidence::nearest_of(&self.background, &queries)
    }

    /// Returns the first components of a token's vector, padded with zeros.
    pub(crate) fn front(&self, token: u32) -> [Line; second_look::FRONT / LINE] {
        let start = self.table + token as usize * self.header.dims;
        let row = &self.bytes[start..start + self.header.dims.min(second_look::FRONT)];
        let mut lines = [Line([0; LINE]); second_look::FRONT / LINE];
        for (line, bytes) in lines.iter_mut().zip(row.chunks(LINE)) {
            for (place, byte) in line.0.iter_mut().zip(bytes) {
                *place = byte.cast_signed();
            }
        }
        lines
    }

    /// Returns the components of a token's vector, in units of its scale.
    fn row(&self, token: u32) -> impl Iterator<Item = i8> {
        let start = self.table + token as usize * self.header.dims;
        self.bytes[start..start + self.header.dims].iter().map(|byte| byte.cast_signed())
    }
}

#[cfg(test)]
mod tests;
