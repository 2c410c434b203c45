//! The figures that the lexical ranking turns on.
//!
//! Their defaults were tuned on labelled queries and are part of the product: the
//! committed quality figures hold for them.

use pegboard_core::Field;

/// How many fields are indexed; [`slot`] numbers them.
pub(crate) const FIELDS: usize = 12;

/// The fields that are indexed, in the order of their settings.
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

/// The place of a field in the settings.
pub(crate) fn slot(field: Field) -> usize {
    // Composite fields are never indexed; the last place keeps the function total.
    INDEXED_FIELDS.iter().position(|known| *known == field).unwrap_or(FIELDS - 1)
}

/// How one field counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldWeight {
    /// What one occurrence is worth.
    pub weight: f32,
    /// How much a long text dilutes it, 0 to 1.
    pub length_penalty: f32,
    /// The length, in tokens, at which there is no dilution.
    ///
    /// A constant instead of the catalog's average: an average would change with every
    /// tool that comes or goes, and with it the weight of every posting.
    pub usual_length: f32,
}

/// The figures of the lexical ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub(crate) fields: [FieldWeight; FIELDS],
    /// How soon further occurrences stop counting (BM25's k1).
    pub saturation: f32,
    /// What a part of a humped word counts in running text, where the whole is the word.
    pub part_in_text: f32,
    /// What the parts of a humped query word count when the whole is known.
    pub part_in_query: f32,
    /// What a word is worth that had to be corrected by one letter; squared for two.
    pub typo: f32,
    /// What a word is worth that is only the beginning of a known one.
    pub prefix: f32,
    /// What a word of digits is worth: it is an argument more often than a capability.
    pub number: f32,
    /// How much a repetition of a query word adds.
    pub repetition: f32,
    /// What it adds when the query spells out a whole tool name in plain words, as a
    /// share of what those words are worth.
    pub name_in_words: f32,
    /// How much a hit for one of several intents counts beside the whole query.
    pub intent: f32,
    /// Up to this share of the tools with a word, the servers that it names do not make it a name.
    pub server_from: f32,
    /// From this share on, the word counts in full as the name of a server.
    pub server_to: f32,
}

impl Settings {
    /// How `field` counts.
    pub fn field(&self, field: Field) -> FieldWeight {
        self.fields[slot(field)]
    }

    /// What a word counts as the name of a server, 0 to 1: `named` tools have it in the name of their server,
    /// `all` anywhere.
    pub(crate) fn server_share(&self, named: usize, all: usize) -> f32 {
        let share = named as f32 / all.max(1) as f32;
        ((share - self.server_from) / (self.server_to - self.server_from)).clamp(0.0, 1.0)
    }

    /// How `field` counts, to change it.
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
