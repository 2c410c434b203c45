//! What a tool contributes to the index: its texts, and its terms with their weights.

use pegboard_core::{
    Field, Tool, naming,
    schema::{self, SchemaText},
};
use serde_json::Value;

use super::{
    settings::{FIELDS, INDEXED_FIELDS, Settings, slot},
    vocabulary::NAME_KEY,
};
use crate::analysis::{Stemmer, TokenKind, Tokenizer};

/// Emits every searchable text of `tool` with its field.
pub fn for_each_text(tool: &Tool, emit: &mut impl FnMut(Field, &str)) {
    emit(Field::Name, tool.name());
    let mut optional = |field, text: Option<&str>| {
        if let Some(text) = text {
            emit(field, text);
        }
    };
    optional(Field::Title, tool.title());
    tool.aliases().iter().for_each(|alias| optional(Field::Alias, Some(alias)));
    optional(Field::Description, Some(tool.description()));
    optional(Field::SearchHint, tool.search_hint());
    optional(Field::PromptInstructions, tool.prompt_instructions());
    optional(Field::Category, tool.category());
    if let Some(server) = tool.server() {
        optional(Field::Server, Some(&server.name));
        optional(Field::ServerDescription, Some(&server.description));
    }
    let Some(schema) = tool.input_schema() else { return };
    // A schema that does not parse (nested too deep) is not searchable; the tool is.
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return };
    schema::visit(&schema, &mut |text| match text {
        SchemaText::ParameterName(name) => emit(Field::ParameterName, name),
        SchemaText::ParameterDescription(text) => emit(Field::ParameterDescription, text),
        SchemaText::Value(value) => emit(Field::ParameterValue, value),
    });
}

/// Emits the keys under which `tool` is found by its whole name or an alias, in any
/// spelling, with and without its server.
pub(super) fn for_each_name_key(tool: &Tool, emit: &mut impl FnMut(&str)) {
    for_each_key_of(tool, tool.name(), emit);
    tool.aliases().iter().for_each(|alias| for_each_key_of(tool, alias, emit));
}

/// Emits the keys of one `name` of `tool`.
pub(super) fn for_each_key_of(tool: &Tool, name: &str, emit: &mut impl FnMut(&str)) {
    let mut key = String::from(NAME_KEY);
    let mut emit_name = |prefix: &str, name: &str| {
        key.truncate(NAME_KEY.len_utf8());
        naming::fold_into(prefix, &mut key);
        naming::fold_into(name, &mut key);
        if key.len() > NAME_KEY.len_utf8() {
            emit(&key);
        }
    };
    emit_name("", name);
    if let Some(server) = tool.server_name() {
        emit_name(server, name);
    }
    let prefixed = name.split_once("___").or_else(|| name.strip_prefix("mcp__")?.split_once("__"));
    if let Some((server, bare)) = prefixed {
        emit_name("", bare);
        emit_name(server, bare);
    }
}

/// One occurrence of a term in a tool.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    field: u8,
    term: u32,
    weight: f32,
}

/// Turns tools into weighted terms; keeps its buffers between tools.
#[derive(Debug, Default)]
pub(super) struct DocumentReader {
    tokenizer: Tokenizer,
    stemmer: Stemmer,
    occurrences: Vec<Occurrence>,
    /// What one occurrence is worth in each field, given the field's length.
    scale: [f32; FIELDS],
    /// Term and weighted frequency, each term once, in term order.
    pub(super) terms: Vec<(u32, f32)>,
}

impl DocumentReader {
    /// Reads `tool` into [`terms`](Self::terms). `number` gives a folded token (and the
    /// stemmer to use on it) its term number, or `None` to leave it out.
    pub(super) fn read(
        &mut self,
        tool: &Tool,
        settings: &Settings,
        mut number: impl FnMut(&str, &Stemmer) -> Option<u32>,
    ) {
        let Self { tokenizer, stemmer, occurrences, scale, terms } = self;
        occurrences.clear();
        terms.clear();
        let mut lengths = [0.0_f32; FIELDS];
        for_each_text(tool, &mut |field, text| {
            tokenizer.tokenize(&naming::composed(text), &mut |token| {
                let weight = token_weight(token.kind, field, settings);
                // The parts already count towards the length of their field.
                lengths[slot(field)] += if token.kind == TokenKind::Whole { 0.0 } else { 1.0 };
                if let Some(term) = number(token.text, stemmer) {
                    occurrences.push(Occurrence { field: slot(field) as u8, term, weight });
                }
            });
        });
        *scale = std::array::from_fn(|field| {
            let field_weight = settings.fields[field];
            let relative = lengths[field] / field_weight.usual_length;
            field_weight.weight / (1.0 + field_weight.length_penalty * (relative - 1.0))
        });
        terms.extend(occurrences.iter().map(|o| (o.term, o.weight * scale[o.field as usize])));
        // Stable, so that a sum always adds the same numbers in the same order.
        terms.sort_by_key(|(term, _)| *term);
        terms.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += later.1;
            }
            same
        });
    }

    /// What each field of the tool read last gives to each term: field, term, weighted
    /// frequency.
    pub(super) fn by_field(&self) -> impl Iterator<Item = (Field, u32, f32)> {
        let scaled =
            |o: &Occurrence| (INDEXED_FIELDS[o.field as usize], o.term, o.weight * self.scale[o.field as usize]);
        self.occurrences.iter().map(scaled)
    }
}

/// In names the parts of a humped word are the words; in running text the whole is.
fn token_weight(kind: TokenKind, field: Field, settings: &Settings) -> f32 {
    match kind {
        TokenKind::Word | TokenKind::Whole | TokenKind::Pair => 1.0,
        TokenKind::Part if matches!(field, Field::Name | Field::Alias | Field::ParameterName) => 1.0,
        TokenKind::Part => settings.part_in_text,
    }
}

/// What a weighted frequency is worth, 0 to 1.
pub(super) fn impact(frequency: f32, settings: &Settings) -> f32 {
    frequency / (frequency + settings.saturation)
}
