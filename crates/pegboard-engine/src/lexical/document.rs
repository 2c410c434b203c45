//! The document of a tool in the index: its texts, and its weighted terms.

use std::borrow::Cow;

use pegboard_core::{
    Field, Tool, naming,
    schema::{self, SchemaText},
};
use serde_json::Value;

use super::{
    settings::{FIELDS, INDEXED_FIELDS, Settings, slot},
    vocabulary::{NAME_KEY, SERVER_KEY},
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

/// Emits the keys under which `tool` is found by its whole name or an alias, in any spelling, with
/// and without its server.
pub(crate) fn for_each_name_key(tool: &Tool, emit: &mut impl FnMut(&str)) {
    for_each_key_of(tool, tool.name(), emit);
    tool.aliases().iter().for_each(|alias| for_each_key_of(tool, alias, emit));
}

/// Emits the keys of one `name` of `tool`.
pub(crate) fn for_each_key_of(tool: &Tool, name: &str, emit: &mut impl FnMut(&str)) {
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

/// The kind of term as which a token is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermKind {
    /// A word of any field.
    Word,
    /// A word in the name of the server, whose weight depends on the query and the catalog.
    ServerWord,
}

impl TermKind {
    /// Returns the vocabulary entry for the stem of `token`; `buffer` is for keys.
    pub(crate) fn entry<'e>(self, token: &'e str, stemmer: &Stemmer, buffer: &'e mut String) -> Cow<'e, str> {
        let stem = stemmer.stem(token);
        match self {
            Self::Word => stem,
            Self::ServerWord => Cow::Borrowed(server_key(&stem, buffer)),
        }
    }
}

/// Returns the vocabulary entry for `stem` in the name of a server.
pub(crate) fn server_key<'b>(stem: &str, buffer: &'b mut String) -> &'b str {
    buffer.clear();
    buffer.push(SERVER_KEY);
    buffer.push_str(stem);
    buffer
}

/// Converts tools to weighted terms; reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct DocumentReader {
    tokenizer: Tokenizer,
    stemmer: Stemmer,
    occurrences: Vec<Occurrence>,
    /// The weight of one occurrence in each field, given the field's length.
    scale: [f32; FIELDS],
    /// Term and weighted frequency, each term once, in term order.
    pub(crate) terms: Vec<(u32, f32)>,
    /// The terms for words in the name of the server, each with the term for the plain word.
    server_words: Vec<(u32, u32)>,
}

impl DocumentReader {
    /// Reads `tool` into [`terms`](Self::terms). `number` maps a folded token (and the stemmer to
    /// use on it) to its term number, or `None` to skip it. A token in the name of the server
    /// yields two terms: as a plain word it has no weight, and only matches.
    pub(crate) fn read(
        &mut self,
        tool: &Tool,
        settings: &Settings,
        mut number: impl FnMut(TermKind, &str, &Stemmer) -> Option<u32>,
    ) {
        let Self { tokenizer, stemmer, occurrences, scale, terms, server_words } = self;
        occurrences.clear();
        server_words.clear();
        terms.clear();
        let mut lengths = [0.0_f32; FIELDS];
        for_each_text(tool, &mut |field, text| {
            tokenizer.tokenize(&naming::composed(text), &mut |token| {
                let weight = token_weight(token.kind, field, settings);
                // The parts are already included in the length of their field.
                lengths[slot(field)] += if token.kind == TokenKind::Whole { 0.0 } else { 1.0 };
                let in_server = field == Field::Server;
                let mut add = |kind, weight| {
                    let term = number(kind, token.text, stemmer)?;
                    occurrences.push(Occurrence { field: slot(field) as u8, term, weight });
                    Some(term)
                };
                let word = add(TermKind::Word, if in_server { 0.0 } else { weight });
                let server_word = if in_server { add(TermKind::ServerWord, weight) } else { None };
                server_words.extend(server_word.zip(word));
            });
        });
        *scale = std::array::from_fn(|field| {
            let field_weight = settings.fields[field];
            let relative = lengths[field] / field_weight.usual_length;
            field_weight.weight / (1.0 + field_weight.length_penalty * (relative - 1.0))
        });
        terms.extend(occurrences.iter().map(|o| (o.term, o.weight * scale[o.field as usize])));
        // Stable sort, so that sums always add the same numbers in the same order.
        terms.sort_by_key(|(term, _)| *term);
        terms.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += later.1;
            }
            same
        });
    }

    /// Returns the impact of a term of the last tool, 0 to 1. A word in the server's name only has
    /// the impact that it adds to the same word elsewhere: a server named after what its tools say
    /// adds little.
    pub(crate) fn impact(&self, term: u32, frequency: f32, settings: &Settings) -> f32 {
        let Some((_, word)) = self.server_words.iter().find(|(server_word, _)| *server_word == term) else {
            return impact(frequency, settings);
        };
        let elsewhere = self.terms.binary_search_by_key(word, |(other, _)| *other).map_or(0.0, |at| self.terms[at].1);
        impact(elsewhere + frequency, settings) - impact(elsewhere, settings)
    }

    /// Returns field, term and weighted frequency for each field of the last tool.
    pub(crate) fn by_field(&self) -> impl Iterator<Item = (Field, u32, f32)> {
        let scaled =
            |o: &Occurrence| (INDEXED_FIELDS[o.field as usize], o.term, o.weight * self.scale[o.field as usize]);
        self.occurrences.iter().map(scaled)
    }
}

/// Returns the weight of a token: in names the parts of a compound word count, in running text the
/// whole.
fn token_weight(kind: TokenKind, field: Field, settings: &Settings) -> f32 {
    match kind {
        TokenKind::Word | TokenKind::Whole | TokenKind::Pair => 1.0,
        TokenKind::Part if matches!(field, Field::Name | Field::Alias | Field::ParameterName) => 1.0,
        TokenKind::Part => settings.part_in_text,
    }
}

/// Converts a weighted frequency to an impact, 0 to 1.
fn impact(frequency: f32, settings: &Settings) -> f32 {
    frequency / (frequency + settings.saturation)
}
