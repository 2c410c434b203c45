//! A second look at the first hits: which words of a query are found in a tool, and whether the tool
//! does what is asked for.
//!
//! One sum for a whole text says what it is about, and little of what is to be done with it. The
//! second look compares word by word, and verb with verb. It is for short queries of one request; where
//! a query is longer, its sum says more than its words.

use serde::Deserialize;

use crate::{
    actions::{self, Clash, KINDS, ToolAction, Wanted},
    semantic::{
        FirstOf, Model, Reading,
        kernel::Kernel,
        vector::{LINE, Line},
    },
};

/// Components of a vector that are compared: those in front, in which texts differ most.
pub(crate) const FRONT: usize = FRONT_LINES * LINE;

const FRONT_LINES: usize = 2;

/// Tokens of a query that are compared.
const MAX_TOKENS: usize = 24;

/// How slowly scores fall behind the best hit, in units of the logarithm of its odds.
const SLOWNESS: f32 = 8.0;

/// How many hits are looked at again.
pub(crate) const LOOKED_AT: usize = 16;

/// The coefficients of the second look, from the model file.
#[derive(Debug, Deserialize)]
pub(crate) struct LookSettings {
    /// What a first score counts.
    score: f32,
    /// What the similarity with the whole query counts.
    whole: f32,
    /// What words in name or description count.
    text: f32,
    /// What words in the name count.
    name: f32,
    /// What the length of the name counts, in tens of tokens.
    name_length: f32,
    /// What words in the server's name count.
    server: f32,
    /// Up to so many words of a query it counts in full.
    words_to: f32,
    /// From so many words on it does not count.
    words_from: f32,
    /// What an action that is offered counts for one that is asked for.
    actions: Vec<Vec<f32>>,
}

impl LookSettings {
    pub(crate) fn is_sound(&self) -> bool {
        let numbers = [self.whole, self.text, self.name, self.name_length, self.server];
        let is_coefficient = |number: &f32| (-1e3..=1e3).contains(number);
        numbers.iter().all(is_coefficient)
            && (1e-3..=1e3).contains(&self.score)
            && self.words_to >= 0.0
            && self.words_from > self.words_to
            && self.actions.len() == KINDS.len()
            && self.actions.iter().all(|row| row.len() == KINDS.len() && row.iter().all(is_coefficient))
    }
}

/// A query that hits are compared with once more.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    model: &'a Model,
    settings: &'a LookSettings,
    tokens: Vec<QueryToken>,
    /// What it wants done.
    wanted: Option<Wanted>,
    /// How much the second look counts, 0 to 1.
    pub(crate) share: f32,
}

/// A token of a query.
#[derive(Debug)]
struct QueryToken {
    front: Front,
    /// What a unit of it is worth.
    unit: f32,
    /// Its share of the query's weight.
    share: f32,
}

/// The beginning of a token's vector, where kernels can read it.
type Front = [Line; FRONT_LINES];

/// How near the tokens of some tools are to those of a query. Each is compared once, however many
/// tools have it.
#[derive(Debug, Default)]
pub(crate) struct Nearness {
    /// The column of each token of the vocabulary, or [`NO_COLUMN`].
    columns: Vec<u16>,
    /// The tokens that have one.
    tokens: Vec<u16>,
    /// A row of similarities for each token of the query.
    rows: Vec<f32>,
    fronts: Vec<Line>,
    dots: Vec<i32>,
}

const NO_COLUMN: u16 = u16::MAX;

impl Nearness {
    /// Compares the tokens of `tools` with those of the query.
    pub(crate) fn fill<'t>(&mut self, look: &Look<'_>, tools: impl Iterator<Item = FirstOf<'t>>) {
        for token in self.tokens.drain(..) {
            self.columns[usize::from(token)] = NO_COLUMN;
        }
        self.columns.resize(look.model.vocabulary(), NO_COLUMN);
        self.fronts.clear();
        for token in tools.flat_map(|tool| tool.tokens().iter()) {
            let column = &mut self.columns[usize::from(*token)];
            if *column == NO_COLUMN {
                *column = self.tokens.len() as u16;
                self.tokens.push(*token);
                self.fronts.extend(look.model.front(u32::from(*token)));
            }
        }
        self.dots.resize(self.tokens.len(), 0);
        self.rows.clear();
        let (kernel, units) = (Kernel::best(), &look.model.front_units);
        for QueryToken { front, unit, .. } in &look.tokens {
            kernel.dots(front, &self.fronts, FRONT_LINES, &mut self.dots);
            let near = self.tokens.iter().zip(&self.dots).map(|(token, dot)| (token, *dot as f32));
            self.rows.extend(near.map(|(token, dot)| dot * unit * units[usize::from(*token)]));
        }
    }

    /// How near the nearest of `others` is to a token of the query; 0 without any.
    fn nearest(&self, query_token: usize, others: &[u16]) -> f32 {
        let row = &self.rows[query_token * self.tokens.len()..];
        let near = |token: &u16| row[usize::from(self.columns[usize::from(*token)])];
        others.iter().map(near).reduce(f32::max).unwrap_or(0.0)
    }
}

/// What the second look sees in a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// How much of the query is in name or description, 0 to 1.
    pub(crate) text: f64,
    /// How much of its weightiest word is not, 0 to 1.
    pub(crate) worst: f64,
    /// How much of it is in the name, 0 to 1.
    pub(crate) name: f64,
    /// How well the tool does what is asked for; 0 where that is not known.
    pub(crate) action: f64,
    /// Whether it does something else than what is plainly asked for.
    pub(crate) clash: Clash,
}

/// What the second look adds to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Gain {
    /// By words.
    pub(crate) words: f32,
    /// By what the tool does.
    pub(crate) action: f32,
}

impl<'a> Look<'a> {
    /// `None` where a query is too long for it, or holds several requests, or no token; `trust`
    /// says how far the model knows its words.
    pub(crate) fn new(model: &'a Model, query: &str, reading: &Reading, trust: f32) -> Option<Self> {
        let settings = model.look()?;
        let words = query.split_whitespace().count() as f32;
        let share = (settings.words_from - words) / (settings.words_from - settings.words_to);
        let share = share.clamp(0.0, 1.0) * trust;
        let tokens = &reading.tokens[..reading.tokens.len().min(MAX_TOKENS)];
        let total: f32 = tokens.iter().map(|token| model.query_weights[*token as usize]).sum();
        if share <= 0.0 || total <= 0.0 || reading.has_requests() {
            return None;
        }
        let tokens = tokens.iter().map(|token| QueryToken {
            front: model.front(*token),
            unit: model.front_units[*token as usize],
            share: model.query_weights[*token as usize] / total,
        });
        Some(Self { model, settings, tokens: tokens.collect(), wanted: actions::of_query(query), share })
    }

    /// What a tool gains that is so near to the whole query; its tokens are in `nearness`. In units of the first score, up to a
    /// number that is the same for all tools.
    pub(crate) fn gain(&self, tool: FirstOf<'_>, action: ToolAction, whole: f32, nearness: &Nearness) -> Gain {
        let own = self.settings;
        let (mut in_text, mut in_name, mut in_server) = (0.0, 0.0, 0.0);
        for (at, QueryToken { share, .. }) in self.tokens.iter().enumerate() {
            let name = nearness.nearest(at, tool.name());
            in_name += share * name;
            in_text += share * name.max(nearness.nearest(at, tool.description()));
            in_server += share * nearness.nearest(at, tool.server());
        }
        let words = own.whole * whole
            + own.text * in_text
            + own.name * in_name
            + own.name_length * tool.name().len() as f32 / 10.0
            + own.server * in_server;
        let unit = self.share / own.score;
        Gain { words: unit * words, action: unit * self.fitness(action) }
    }

    /// What of the query is in a tool, whose tokens are in `nearness`.
    pub(crate) fn inspect(&self, tool: FirstOf<'_>, action: ToolAction, nearness: &Nearness) -> Seen {
        let heaviest = self.tokens.iter().map(|token| token.share).fold(f32::MIN_POSITIVE, f32::max);
        let clash = self.wanted.zip(action.kinds()).map_or(Clash::None, |(wanted, offered)| wanted.clash(&offered));
        let mut seen = Seen { action: f64::from(self.fitness(action)), clash, ..Seen::default() };
        for (at, QueryToken { share, .. }) in self.tokens.iter().enumerate() {
            let name = nearness.nearest(at, tool.name());
            let text = name.max(nearness.nearest(at, tool.description()));
            seen.name += f64::from(share * name);
            seen.text += f64::from(share * text);
            seen.worst = seen.worst.max(f64::from(share * (1.0 - text) / heaviest));
        }
        seen
    }

    /// A score after the second look between that of the best hit and that of those that were not looked
    /// at. Scores fall more slowly than they add up, so that they stay apart.
    pub(crate) fn settled(&self, score: f32, best: f32, least: f32) -> f32 {
        let behind = (best - score) * self.settings.score / SLOWNESS;
        let slow = least + (best - least) * (-behind).exp();
        self.share * slow + (1.0 - self.share) * score.clamp(least, best)
    }

    /// A score in the units of a logarithm, for probabilities.
    pub(crate) fn in_logarithm(&self, score: f32) -> f64 {
        f64::from(score * self.settings.score)
    }

    /// How well what a tool does goes with what is asked for; 0 where either is not known.
    fn fitness(&self, action: ToolAction) -> f32 {
        let (Some(wanted), Some(offered)) = (self.wanted, action.kinds()) else { return 0.0 };
        let row = |row: &Vec<f32>| row.iter().zip(&offered).map(|(weight, share)| weight * share).sum::<f32>();
        wanted
            .kinds
            .iter()
            .zip(&self.settings.actions)
            .filter(|(share, _)| **share > 0.0)
            .map(|(share, of)| share * row(of))
            .sum()
    }

    /// What is asked for and what the tool does, in words; `None` where either is not known.
    pub(crate) fn actions(&self, action: ToolAction) -> Option<(&'static str, &'static str)> {
        Some((actions::name_of(self.wanted?.kinds), actions::name_of(&action.kinds()?)))
    }
}
