//! A second look at the first hits: which words of a query are found in a tool, and whether the tool
//! does what is asked for.
//!
//! One sum for a whole text says what it is about, and little of what is to be done with it. The
//! second look compares word by word, and verb with verb. It is for short queries of one request; where
//! a query is longer, its sum says more than its words.

use serde::Deserialize;

use super::{
    Model,
    first::FirstOf,
    kernel::Kernel,
    pool::Reading,
    vector::{LINE, Line},
};
use crate::actions::{self, KINDS, Kinds, ToolAction};

/// Components of a vector that are compared: those in front, in which texts differ most.
pub(super) const FRONT: usize = FRONT_LINES * LINE;

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
    pub(super) fn is_sound(&self) -> bool {
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
    wanted: Option<&'static Kinds>,
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

/// How near a token of the query comes to those of a tool; 0 where there is none.
struct Near {
    name: f32,
    /// Name or description.
    text: f32,
    server: f32,
}

/// The tokens of the tool that is looked at; kept to be used again.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    fronts: Vec<Line>,
    dots: Vec<i32>,
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

    /// What a tool gains that is so near to the whole query. In units of the first score, up to a
    /// number that is the same for all tools.
    pub(crate) fn gain(&self, tool: FirstOf<'_>, action: ToolAction, whole: f32, desk: &mut Desk) -> Gain {
        let own = self.settings;
        let (mut in_text, mut in_name, mut in_server) = (0.0, 0.0, 0.0);
        self.compare(tool, desk, |share, near| {
            in_name += share * near.name;
            in_text += share * near.text;
            in_server += share * near.server;
        });
        let words = own.whole * whole
            + own.text * in_text
            + own.name * in_name
            + own.name_length * tool.name.len() as f32 / 10.0
            + own.server * in_server;
        let unit = self.share / own.score;
        Gain { words: unit * words, action: unit * self.fitness(action) }
    }

    /// What of the query is in a tool.
    pub(crate) fn see(&self, tool: FirstOf<'_>, action: ToolAction, desk: &mut Desk) -> Seen {
        let heaviest = self.tokens.iter().map(|token| token.share).fold(f32::MIN_POSITIVE, f32::max);
        let mut seen = Seen { action: f64::from(self.fitness(action)), ..Seen::default() };
        self.compare(tool, desk, |share, near| {
            seen.name += f64::from(share * near.name);
            seen.text += f64::from(share * near.text);
            seen.worst = seen.worst.max(f64::from(share * (1.0 - near.text) / heaviest));
        });
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
            .iter()
            .zip(&self.settings.actions)
            .filter(|(share, _)| **share > 0.0)
            .map(|(share, of)| share * row(of))
            .sum()
    }

    /// What is asked for and what the tool does, in words; `None` where either is not known.
    pub(crate) fn actions(&self, action: ToolAction) -> Option<(&'static str, &'static str)> {
        Some((actions::name_of(self.wanted?), actions::name_of(&action.kinds()?)))
    }

    /// Tells `each` the share of every token of the query, and how near the tool comes to it.
    fn compare(&self, tool: FirstOf<'_>, desk: &mut Desk, mut each: impl FnMut(f32, Near)) {
        let tokens = || tool.name.iter().chain(tool.description).chain(tool.server);
        desk.fronts.clear();
        desk.fronts.extend(tokens().flat_map(|token| self.model.front(u32::from(*token))));
        desk.dots.clear();
        desk.dots.resize(desk.fronts.len() / FRONT_LINES, 0);
        let kernel = Kernel::best();
        for QueryToken { front, unit, share } in &self.tokens {
            kernel.dots(front, &desk.fronts, FRONT_LINES, &mut desk.dots);
            let mut dots = desk.dots.iter();
            let mut nearest = |others: &[u16]| {
                let near = others.iter().zip(&mut dots).map(|(other, dot)| {
                    let own = self.model.front_units[usize::from(*other)];
                    *dot as f32 * unit * own
                });
                near.reduce(f32::max).unwrap_or(0.0)
            };
            let name = nearest(tool.name);
            let text = name.max(nearest(tool.description));
            each(*share, Near { name, text, server: nearest(tool.server) });
        }
    }
}
