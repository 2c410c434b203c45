//! The second look: reranks the first hits by the words of a query that a tool contains, and by its
//! action.
//!
//! The vector of a whole text represents its topic, and little of the requested action. The second
//! look compares word by word, and verb with verb. It applies to short queries of one request; for
//! longer queries the vector is better than single words.

use serde::Deserialize;

use crate::{
    actions::{self, Clash, KINDS, ToolAction, WantedAction},
    semantic::{
        Model, QueryReading, ToolFirstTokens,
        kernel::Kernel,
        vector::{LINE, Line},
    },
};

/// Number of components that are compared: the first ones, in which texts differ most.
pub(crate) const FRONT: usize = FRONT_LINES * LINE;

const FRONT_LINES: usize = 2;

/// Maximum number of query tokens that are compared.
const MAX_TOKENS: usize = 24;

/// How slowly scores decrease behind the best hit, in units of the logarithm of its odds.
const SLOWNESS: f32 = 8.0;

/// Number of hits that get a second look.
pub(crate) const LOOKED_AT: usize = 16;

/// The coefficients of the second look, from the model file.
#[derive(Debug, Deserialize)]
pub(crate) struct SecondLookSettings {
    /// The coefficient of the first score.
    score: f32,
    /// The coefficient of the similarity with the whole query.
    whole: f32,
    /// The coefficient of words in name or description.
    text: f32,
    /// The coefficient of words in the name.
    name: f32,
    /// The coefficient of the length of the name, in tens of tokens.
    name_length: f32,
    /// The coefficient of words in the server's name.
    server: f32,
    /// Number of query words up to which the second look has its full weight.
    words_to: f32,
    /// Number of query words from which it has no weight.
    words_from: f32,
    /// The coefficient of each pair of a requested and an offered action.
    actions: Vec<Vec<f32>>,
}

impl SecondLookSettings {
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

/// The query of a second look.
#[derive(Debug)]
pub(crate) struct SecondLook<'a> {
    model: &'a Model,
    settings: &'a SecondLookSettings,
    tokens: Vec<QueryToken>,
    /// The requested action.
    wanted: Option<WantedAction>,
    /// The weight of the second look, 0 to 1.
    pub(crate) share: f32,
}

/// A token of a query.
#[derive(Debug)]
struct QueryToken {
    front: Front,
    /// The value of one unit of its vector.
    unit: f32,
    /// Its share of the query's weight.
    share: f32,
}

/// The first components of a token's vector, aligned for kernels.
type Front = [Line; FRONT_LINES];

/// The similarities between the tokens of some tools and those of a query. Each token is compared
/// once, however many tools contain it.
#[derive(Debug, Default)]
pub(crate) struct TokenSimilarities {
    /// The column of each token of the vocabulary, or [`NO_COLUMN`].
    columns: Vec<u16>,
    /// The tokens that have a column.
    tokens: Vec<u16>,
    /// A row of similarities for each token of the query.
    rows: Vec<f32>,
    fronts: Vec<Line>,
    dots: Vec<i32>,
}

const NO_COLUMN: u16 = u16::MAX;

impl TokenSimilarities {
    /// Compares the tokens of `tools` with those of the query.
    pub(crate) fn fill<'t>(&mut self, look: &SecondLook<'_>, tools: impl Iterator<Item = ToolFirstTokens<'t>>) {
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

    /// Returns the highest similarity of `others` to a token of the query; 0 without any.
    fn nearest(&self, query_token: usize, others: &[u16]) -> f32 {
        let row = &self.rows[query_token * self.tokens.len()..];
        let near = |token: &u16| row[usize::from(self.columns[usize::from(*token)])];
        others.iter().map(near).reduce(f32::max).unwrap_or(0.0)
    }
}

/// What the second look finds in a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LookFindings {
    /// The share of the query that is in name or description, 0 to 1.
    pub(crate) text: f64,
    /// The share of its heaviest word that is not, 0 to 1.
    pub(crate) worst: f64,
    /// The share of the query that is in the name, 0 to 1.
    pub(crate) name: f64,
    /// How well the tool's action matches; 0 if that is not known.
    pub(crate) action: f64,
    /// Whether the tool's action conflicts with an unambiguous request.
    pub(crate) clash: Clash,
}

/// What the second look adds to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ScoreGain {
    /// The part that is due to words.
    pub(crate) words: f32,
    /// The part that is due to the action.
    pub(crate) action: f32,
}

impl<'a> SecondLook<'a> {
    /// Returns `None` if the query is too long, has several requests, or no tokens; `trust` is how
    /// far the model knows its words.
    pub(crate) fn new(model: &'a Model, query: &str, reading: &QueryReading, trust: f32) -> Option<Self> {
        let settings = model.second_look_settings()?;
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

    /// Returns the gain of a tool with the similarity `whole` to the query; its tokens are in
    /// `nearness`. In units of the first score, up to a constant that is the same for all tools.
    pub(crate) fn gain(
        &self,
        tool: ToolFirstTokens<'_>,
        action: ToolAction,
        whole: f32,
        nearness: &TokenSimilarities,
    ) -> ScoreGain {
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
        ScoreGain { words: unit * words, action: unit * self.fitness(action) }
    }

    /// Compares the query with a tool, whose tokens are in `nearness`.
    pub(crate) fn inspect(
        &self,
        tool: ToolFirstTokens<'_>,
        action: ToolAction,
        nearness: &TokenSimilarities,
    ) -> LookFindings {
        let heaviest = self.tokens.iter().map(|token| token.share).fold(f32::MIN_POSITIVE, f32::max);
        let clash = self.wanted.zip(action.kinds()).map_or(Clash::None, |(wanted, offered)| wanted.clash(&offered));
        let mut seen = LookFindings { action: f64::from(self.fitness(action)), clash, ..LookFindings::default() };
        for (at, QueryToken { share, .. }) in self.tokens.iter().enumerate() {
            let name = nearness.nearest(at, tool.name());
            let text = name.max(nearness.nearest(at, tool.description()));
            seen.name += f64::from(share * name);
            seen.text += f64::from(share * text);
            seen.worst = seen.worst.max(f64::from(share * (1.0 - text) / heaviest));
        }
        seen
    }

    /// Rescales a score after the second look to the range between the best hit and the hits that
    /// were not included. Scores decrease more slowly than they add up, so that they stay distinct.
    pub(crate) fn rescale_score(&self, score: f32, best: f32, least: f32) -> f32 {
        let behind = (best - score) * self.settings.score / SLOWNESS;
        let slow = least + (best - least) * (-behind).exp();
        self.share * slow + (1.0 - self.share) * score.clamp(least, best)
    }

    /// Converts a score to the units of a logarithm, for probabilities.
    pub(crate) fn to_logit(&self, score: f32) -> f64 {
        f64::from(score * self.settings.score)
    }

    /// Returns how well the tool's action matches the requested one; 0 if either is not known.
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

    /// Returns the names of the requested action and of the tool's; `None` if either is not known.
    pub(crate) fn actions(&self, action: ToolAction) -> Option<(&'static str, &'static str)> {
        Some((actions::name_of(self.wanted?.kinds), actions::name_of(&action.kinds()?)))
    }
}
