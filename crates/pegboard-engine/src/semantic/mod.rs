//! What texts mean: vectors of queries and tools, from a table of word pieces.
//!
//! A [`Model`] is one file (`train/FORMAT.md` describes it, and all that is computed here;
//! `train/reference.py` is the same in Python). It turns a text into tokens by looking its
//! words up, adds up the vectors of the tokens, and keeps the sum in whole numbers of eight
//! bits. Nothing is learned or fetched at run time.
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
    pool::{Reading, ToolReader},
    vector::Vector,
};
pub(crate) use self::{
    first_tokens::{FirstOf, FirstTokens},
    header::is_share,
    requests::{request_at, request_starts, requests_of},
    table::{BLOCK, Similarity, Vectors},
};
use self::{
    header::Header,
    pieces::Pieces,
    vector::{LINE, Line},
};
use crate::hybrid::{
    confidence::{self, ConfidenceSettings, Nearest},
    fusion::FusionSettings,
    second_look::{self, LookSettings},
};

/// The vectors and weights of word pieces, and the figures that go with them.
#[derive(Debug)]
pub struct Model {
    header: Header,
    bytes: Cow<'static, [u8]>,
    /// Where the rows of whole numbers begin in `bytes`.
    table: usize,
    pieces: Pieces,
    /// What one unit of a row is worth.
    scales: Vec<f32>,
    pub(crate) query_weights: Vec<f32>,
    tool_weights: Vec<f32>,
    /// What one unit of the front of a row is worth when that has length one.
    pub(crate) front_units: Vec<f32>,
    /// What tools in general are about.
    background: Vectors,
}

static EMBEDDED_BYTES: &[u8] = include_bytes!("../../model/pegboard.model");

/// The model that ships with the program.
static EMBEDDED: LazyLock<Arc<Model>> = LazyLock::new(|| {
    // Nobody changes a part of the program; a test checks all of its bytes.
    Arc::new(file::parse_checked(EMBEDDED_BYTES).expect("a test parses the embedded model"))
});

impl Model {
    /// The model that ships with the program; read when it is first asked for.
    pub fn embedded() -> &'static Arc<Self> {
        &EMBEDDED
    }

    /// Reads and checks a model file.
    ///
    /// # Errors
    /// When anything in it is not as it must be: a model works as a whole or not at all.
    pub fn parse(bytes: Cow<'static, [u8]>) -> Result<Self, ModelError> {
        file::parse(bytes)
    }

    /// The model's own name.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// The checksum at the end of its file, which tells it from other models.
    pub(crate) fn checksum(&self) -> u64 {
        file::stored_checksum(&self.bytes)
    }

    /// How many components its vectors have.
    pub fn dims(&self) -> usize {
        self.header.dims
    }

    /// How many entries its vocabulary has.
    pub(crate) fn vocabulary(&self) -> usize {
        self.header.vocabulary
    }

    /// Whether a folded word is a whole entry of its vocabulary, and long enough to be English only.
    pub(crate) fn knows(&self, word: &str) -> bool {
        word.len() > pieces::SHORT && self.pieces.has(word)
    }

    /// The tokens of a query and what they stand for.
    pub fn read(&self, query: &str) -> Reading {
        Reading::new(self, query)
    }

    /// What `query` means, or `None` when the model knows none of its words.
    pub fn query_vector(&self, query: &str) -> Option<Vector> {
        self.read(query).vector(self)
    }

    /// What `tool` offers. Without a known word it is all zeros, near nothing.
    pub fn tool_vector(&self, tool: &Tool) -> Vector {
        ToolReader::default().read(tool, self)
    }

    pub(crate) fn fusion(&self) -> &FusionSettings {
        &self.header.fusion
    }

    pub(crate) fn confidence(&self) -> &ConfidenceSettings {
        &self.header.confidence
    }

    /// How hits are looked at once more; `None` where the model does not say.
    pub(crate) fn look(&self) -> Option<&LookSettings> {
        self.header.look.as_ref()
    }

    /// How near the nearest of what tools in general are about is to any of `vectors`.
    pub(crate) fn background(&self, vectors: &[Vector]) -> Nearest {
        let queries: Vec<Similarity<'_>> = vectors.iter().map(Similarity::to).collect();
        confidence::nearest_of(&self.background, &queries)
    }

    /// The first components of a token's vector; zeros fill up what it does not have.
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

    /// The vector of a token, in units of its scale.
    fn row(&self, token: u32) -> impl Iterator<Item = i8> {
        let start = self.table + token as usize * self.header.dims;
        self.bytes[start..start + self.header.dims].iter().map(|byte| byte.cast_signed())
    }
}

#[cfg(test)]
mod tests;
