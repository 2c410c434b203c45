//! The header of a model file.

use serde::Deserialize;

use super::file::ModelError;
use crate::hybrid::{confidence::ConfidenceSettings, fusion::FusionSettings, second_look::SecondLookSettings};

/// Maximum number of components of a vector.
const MAX_DIMS: usize = 1024;

/// Maximum size of a vocabulary.
const MAX_VOCABULARY: usize = 1_000_000;

/// Maximum size of a vocabulary whose tokens are stored with tools, for the second look.
const MAX_LOOK_VOCABULARY: usize = 1 << 16;

/// Maximum number of background vectors.
const MAX_BACKGROUND: usize = 65_536;

/// Maximum number of tokens of a field or a query that a model can use.
const MAX_TOKENS: usize = 65_536;

/// The fields of a tool that have a weight, in the order of the file.
pub(super) const FIELDS: [&str; 6] = ["name", "description", "parameter", "parameter_text", "server", "context"];

/// The metadata and settings of a model. Unknown keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) dims: usize,
    pub(super) vocabulary: usize,
    pub(super) vocabulary_bytes: usize,
    /// Number of background vectors, which represent tools in general.
    #[serde(default)]
    pub(super) background: usize,
    pub(super) fields: Vec<FieldSettings>,
    pub(super) query_limit: usize,
    pub(super) fusion: FusionSettings,
    pub(super) confidence: ConfidenceSettings,
    pub(super) look: Option<SecondLookSettings>,
}

/// The weight of a field of a tool.
#[derive(Debug, Deserialize)]
pub(super) struct FieldSettings {
    name: String,
    pub(super) limit: usize,
    pub(super) weight: f32,
    /// The exponent that reduces the weight of long fields.
    pub(super) power: f32,
}

impl Header {
    pub(super) fn parse(json: &[u8]) -> Result<Self, ModelError> {
        let header: Self = serde_json::from_slice(json).map_err(ModelError::Header)?;
        header.check().map_or(Ok(header), |setting| Err(ModelError::Setting { setting }))
    }

    /// Returns the first invalid setting.
    fn check(&self) -> Option<&'static str> {
        let fields_are_right = self.fields.iter().map(|field| field.name.as_str()).eq(FIELDS)
            && self.fields.iter().all(|field| field.is_right());
        let checks = [
            ("dims", self.dims > 0 && self.dims <= MAX_DIMS && self.dims.is_multiple_of(16)),
            ("vocabulary", self.vocabulary <= MAX_VOCABULARY),
            ("vocabulary_bytes", self.vocabulary_bytes <= 64 * MAX_VOCABULARY),
            ("background", self.background <= MAX_BACKGROUND),
            ("fields", fields_are_right),
            ("query_limit", self.query_limit <= MAX_TOKENS),
            ("fusion", self.fusion.is_sound()),
            ("confidence", self.confidence.is_sound()),
            ("look", self.look.as_ref().is_none_or(|look| look.is_sound() && self.vocabulary <= MAX_LOOK_VOCABULARY)),
        ];
        checks.iter().find(|(_, is_right)| !is_right).map(|(setting, _)| *setting)
    }
}

impl FieldSettings {
    fn is_right(&self) -> bool {
        self.limit <= MAX_TOKENS && is_share(self.weight) && is_share(self.power)
    }
}

/// Returns whether a number can be a weight: not negative, and not so large that sums overflow.
pub(crate) fn is_share(number: f32) -> bool {
    (0.0..=1e6).contains(&number)
}
