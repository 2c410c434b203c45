//! The parameters of the lexical ranking.
//!
//! Their defaults were tuned on labelled queries and are part of the product: the
//! committed quality figures hold for them.

use pegboard_core::Field;

/// Number of indexed fields; [`slot`] numbers them.
pub(crate) const FIELDS: usize = 12;

/// The indexed fields, in the order of their settings.
pub const INDEXED_FIELDS: [Field; FIELDS] = [
    Field::Name,
    Field::Title,
    Field::Alias,
    Field::Description,
    Field::ParameterName,
    Field::ParameterDescription,
    Field::ParameterValue,
    Field::SearchHint,
    Field::PromptInstructions,
    Field::Server,
    Field::ServerDescription,
    Field::Category,
];

/// Returns the position of a field in the settings.
pub(crate) fn slot(field: Field) -> usize {
    // Composite fields are never indexed; the last position keeps the function total.
    INDEXED_FIELDS.iter().position(|known| *known == field).unwrap_or(FIELDS - 1)
}

/// The parameters of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldWeight {
    /// The weight of one occurrence.
    pub weight: f32,
    /// How much the length of a text reduces the weight, 0 to 1.
    pub length_penalty: f32,
    /// The length, in tokens, without a reduction.
    ///
    /// A constant instead of the catalog's average: an average would change with every added or
    /// removed tool, and with it the weight of every posting.
    pub usual_length: f32,
}

/// The figures of the lexical ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub(crate) fields: [FieldWeight; FIELDS],
    /// How soon further occurrences stop counting (BM25's k1).
    pub saturation: f32,
    /// The weight of a part of a compound word in running text, where the whole is the word.
    pub part_in_text: f32,
    /// The weight of the parts of a compound query word if the whole is known.
    pub part_in_query: f32,
    /// The weight of a word that was corrected by one letter; squared for two.
    pub typo: f32,
    /// The weight of a word that is only the prefix of a known one.
    pub prefix: f32,
    /// The weight of a number: it is more often an argument than a capability.
    pub number: f32,
    /// The weight of a repetition of a query word.
    pub repetition: f32,
    /// The weight of a whole tool name in plain words, as a share of the weight of those words.
    pub name_in_words: f32,
    /// The weight of a hit for one of several intents, relative to the whole query.
    pub intent: f32,
    /// The share of tools with a word in their server's name up to which the word does not count as
    /// a name.
    pub server_from: f32,
    /// The share from which the word counts in full as the name of a server.
    pub server_to: f32,
}

impl Settings {
    /// Returns the parameters of `field`.
    pub fn field(&self, field: Field) -> FieldWeight {
        self.fields[slot(field)]
    }

    /// Returns the weight of a word as the name of a server, 0 to 1: `named` tools have it in the
    /// name of their server, `all` anywhere.
    pub(crate) fn server_share(&self, named: usize, all: usize) -> f32 {
        let share = named as f32 / all.max(1) as f32;
        ((share - self.server_from) / (self.server_to - self.server_from)).clamp(0.0, 1.0)
    }

    /// Returns the parameters of `field` for modification.
    pub fn field_mut(&mut self, field: Field) -> &mut FieldWeight {
        &mut self.fields[slot(field)]
    }
}

impl Default for Settings {
    fn default() -> Self {
        const fn field(weight: f32, length_penalty: f32, usual_length: f32) -> FieldWeight {
            FieldWeight { weight, length_penalty, usual_length }
        }
        Self {
            fields: [
                field(2.0, 0.5, 3.0),
                field(1.0, 0.5, 3.0),
                field(1.5, 0.5, 3.0),
                field(0.8, 0.5, 20.0),
                field(0.5, 0.5, 5.0),
                field(0.4, 0.5, 30.0),
                field(0.3, 0.5, 10.0),
                field(1.5, 0.3, 6.0),
                field(0.7, 0.5, 20.0),
                field(2.5, 0.5, 2.0),
                field(0.4, 0.7, 20.0),
                field(0.3, 0.5, 2.0),
            ],
            saturation: 1.2,
            part_in_text: 0.5,
            part_in_query: 0.3,
            typo: 0.6,
            prefix: 0.5,
            number: 0.3,
            repetition: 0.2,
            name_in_words: 0.4,
            intent: 0.3,
            server_from: 0.0,
            server_to: 0.5,
        }
    }
}
