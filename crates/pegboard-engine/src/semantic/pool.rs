//! Pools tokens into one vector.

use std::ops::Range;

use pegboard_core::{Field, Tool};

use super::{
    Model,
    header::FIELDS,
    pieces::Tokens,
    requests::{Clauses, request_at},
    vector::Vector,
    words::{Word, for_each_word},
};
use crate::lexical::for_each_text;

/// A query as read by a model.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryReading {
    /// The tokens, in order.
    pub tokens: Vec<u32>,
    /// Number of words, without numbers.
    pub words: usize,
    /// Number of words that the model knows as whole entries.
    pub known: usize,
    /// The tokens of each word, and its position.
    spelled: Vec<WordTokens>,
    /// Number of requests in the query.
    requests: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct WordTokens {
    tokens: Range<usize>,
    place: Range<usize>,
    request: u32,
}

impl QueryReading {
    pub(crate) fn new(model: &Model, query: &str) -> Self {
        let mut tokens = Tokens::default();
        let mut clauses = Clauses::default();
        let mut spelled: Vec<WordTokens> = Vec::new();
        let mut folded = String::new();
        let mut add = |word: Word<'_>| {
            // The boundaries of requests depend on the whole query, even if not all of it is used.
            word.fold_into(&mut folded);
            clauses.add(query, &word, &folded);
            let before = tokens.numbers.len();
            if before < model.header.query_limit {
                model.pieces.add(&word, &mut tokens);
                let tokens = before..tokens.numbers.len();
                if !tokens.is_empty() {
                    spelled.push(WordTokens { tokens, place: word.start..word.end(), request: 0 });
                }
            }
            true
        };
        for_each_word(query, &mut add);
        let starts = clauses.requests(query);
        spelled.iter_mut().for_each(|word| word.request = request_at(&starts, word.place.start));
        let requests = starts.len() as u32 + 1;
        Self { tokens: tokens.numbers, words: tokens.words, known: tokens.known, spelled, requests }
    }

    /// Returns the vector of the whole query, if it has a token with a weight.
    pub fn vector(&self, model: &Model) -> Option<Vector> {
        query_vector(model, self.tokens.iter().copied())
    }

    /// Returns the tokens of each request that has any, if there are several.
    pub fn requests(&self) -> Vec<Vec<u32>> {
        let mut requests: Vec<Vec<u32>> = vec![Vec::new(); self.requests as usize];
        for word in &self.spelled {
            requests[word.request as usize].extend_from_slice(&self.tokens[word.tokens.clone()]);
        }
        requests.retain(|request| !request.is_empty());
        if requests.len() > 1 { requests } else { Vec::new() }
    }

    /// Returns the vectors of its requests, if there are several.
    pub fn request_vectors(&self, model: &Model) -> Vec<Vector> {
        self.requests().iter().filter_map(|tokens| query_vector(model, tokens.iter().copied())).collect()
    }

    /// Returns whether it has several requests.
    pub(crate) fn has_requests(&self) -> bool {
        let first = self.spelled.first().map(|word| word.request);
        self.spelled.iter().any(|word| Some(word.request) != first)
    }

    /// Returns the share of its words that the model knows, 0 to 1.
    pub fn known_share(&self) -> f32 {
        match self.words {
            0 => f32::from(u8::from(!self.tokens.is_empty())),
            words => self.known as f32 / words as f32,
        }
    }

    /// Returns the contribution of each word to the similarity with `tool`, with the word's
    /// position, in query order. The unit is arbitrary.
    pub fn contributions<'a>(
        &'a self,
        model: &'a Model,
        tool: &'a Vector,
    ) -> impl Iterator<Item = (Range<usize>, f32)> + 'a {
        self.spelled.iter().map(|word| {
            let gain = |token: &u32| {
                let pairs = model.row(*token).zip(tool.components());
                let dot: i32 = pairs.map(|(a, b)| i32::from(a) * i32::from(b)).sum();
                model.query_weights[*token as usize] * model.scales[*token as usize] * dot as f32
            };
            (word.place.clone(), self.tokens[word.tokens.clone()].iter().map(gain).sum())
        })
    }
}

fn query_vector(model: &Model, tokens: impl Iterator<Item = u32>) -> Option<Vector> {
    let mut sum = vec![0.0; model.header.dims];
    for token in tokens {
        add_row(model, token, model.query_weights[token as usize], &mut sum);
    }
    let vector = Vector::new(&sum);
    (vector.scale() > 0.0).then_some(vector)
}

/// Adds the vector of `token`, times `weight`, to `sum`.
fn add_row(model: &Model, token: u32, weight: f32, sum: &mut [f32]) {
    let gain = weight * model.scales[token as usize];
    for (place, component) in sum.iter_mut().zip(model.row(token)) {
        *place += gain * f32::from(component);
    }
}

/// Converts tools to vectors; reuses its buffers.
#[derive(Debug, Default)]
pub struct ToolReader {
    fields: [Tokens; FIELDS.len()],
    field_sum: Vec<f32>,
    sum: Vec<f32>,
}

impl ToolReader {
    /// Returns the vector of `tool`.
    pub fn read(&mut self, tool: &Tool, model: &Model) -> Vector {
        self.read_tokens(tool, model);
        let Self { fields, field_sum, sum } = self;
        sum.clear();
        sum.resize(model.header.dims, 0.0);
        for (tokens, field) in fields.iter().zip(&model.header.fields) {
            field_sum.clear();
            field_sum.resize(model.header.dims, 0.0);
            let mut weights = 0.0;
            for token in &tokens.numbers {
                let weight = model.tool_weights[*token as usize];
                weights += weight;
                add_row(model, *token, weight, field_sum);
            }
            let gain = field.weight / power(weights + 1.0, field.power);
            sum.iter_mut().zip(&*field_sum).for_each(|(place, component)| *place += gain * component);
        }
        Vector::new(sum)
    }

    /// Returns the tokens of each field of the last tool.
    pub fn tokens(&self) -> impl Iterator<Item = &[u32]> {
        self.fields.iter().map(|tokens| tokens.numbers.as_slice())
    }

    /// Returns the tokens of one field of the last tool.
    pub(crate) fn field(&self, field: usize) -> &[u32] {
        self.fields.get(field).map_or(&[], |tokens| &tokens.numbers)
    }

    fn read_tokens(&mut self, tool: &Tool, model: &Model) {
        self.fields.iter_mut().for_each(Tokens::clear);
        for_each_text(tool, &mut |field, text| {
            let Some(slot) = slot(field) else { return };
            let (tokens, limit) = (&mut self.fields[slot], model.header.fields[slot].limit);
            if tokens.numbers.len() >= limit {
                return;
            }
            for_each_word(text, |word| {
                model.pieces.add(&word, tokens);
                tokens.numbers.len() < limit
            });
            tokens.numbers.truncate(limit);
        });
    }
}

/// Returns the position of a field in the model's list.
fn slot(field: Field) -> Option<usize> {
    match field {
        Field::Name | Field::Title | Field::Alias => Some(0),
        Field::Description | Field::SearchHint | Field::PromptInstructions => Some(1),
        Field::ParameterName => Some(2),
        Field::ParameterDescription | Field::ParameterValue => Some(3),
        Field::Server => Some(4),
        Field::Category | Field::ServerDescription => Some(5),
        Field::Text | Field::Meaning | Field::Usage | Field::Action => None,
    }
}

/// Computes a power with the exponents one half and one exactly, since a general power differs
/// between machines.
fn power(base: f32, exponent: f32) -> f32 {
    match exponent {
        0.5 => base.sqrt(),
        1.0 => base,
        _ => base.powf(exponent),
    }
}
