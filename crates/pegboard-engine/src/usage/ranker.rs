//! A ranker that boosts tools by usage.

use std::{fmt, sync::Arc};

use pegboard_core::{
    Catalog, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, Tool, ToolVectors, VectorSource,
    ranking::{MAX_QUERY_BYTES, cut},
};

use super::Boost;
use crate::scores::{BELOW_NAMED, NAMED};

/// Number of best hits among which tools are boosted. Tools behind them count as not found,
/// whatever the limit, so that a higher limit only appends to a ranking.
const POOL: usize = 50;

/// The resolution of scores.
const STEPS: f64 = 1e6;

/// Minimum similarity of a learned query for showing a tool that the ranker did not find.
const MIN_SIMILARITY: f64 = 0.75;

/// The same for a tool that the ranker withholds for lack of confidence: nearly the same words.
const MIN_SIMILARITY_WITHHELD: f64 = 0.95;

/// The source of boosts: a store of habits with a clock.
pub trait BoostSource: fmt::Debug + Send + Sync {
    /// Returns the boosts of `query`, the largest first; mostly empty. Only visible tools, by
    /// [`Tool::upstream_id`], share the boost.
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost>;
}

/// A ranker whose scores are boosted by the usage after similar queries.
///
/// Only for rankers whose scores are 0 to 1 with named tools from 0.9: [`Hybrid`] and [`Lexical`];
/// see [`Ranker::learns_from_usage`]. The confidence is that of the ranker: usage does not tell how
/// well a tool matches.
///
/// [`Hybrid`]: crate::Hybrid
/// [`Lexical`]: crate::Lexical
#[derive(Clone, Debug)]
pub struct UsageRanker {
    ranker: Arc<dyn Ranker>,
    source: Arc<dyn BoostSource>,
}

impl UsageRanker {
    /// Wraps `ranker`.
    pub fn new(ranker: Arc<dyn Ranker>, source: Arc<dyn BoostSource>) -> Self {
        Self { ranker, source }
    }

    /// Returns the visible tools with a boost. Hidden tools have no effect, not even on the shares
    /// of others.
    fn visible_boosts(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Vec<(Arc<Tool>, Boost)> {
        if query.checked(MAX_QUERY_BYTES).is_err() {
            return Vec::new();
        }
        let visible = |id: &str| find(id, catalog).filter(|tool| selection.allows(tool));
        let boosts = self.source.boosts(query.text, &|id| visible(id).is_some());
        boosts.into_iter().filter_map(|boost| Some((Arc::clone(visible(&boost.tool)?), boost))).collect()
    }

    /// Returns how many of the tools that [`add_unfound`] adds were not found by the ranker.
    fn count_unfound(
        &self,
        raised: &[(Arc<Tool>, Boost)],
        ranking: &Ranking,
        wide: &Query<'_>,
        catalog: &Catalog,
        selection: &Selection,
    ) -> Result<usize, QueryError> {
        let is_in = |hits: &[Hit], tool: &Arc<Tool>| hits.iter().any(|hit| Arc::ptr_eq(&hit.tool, tool));
        let mut unfound: Vec<&Arc<Tool>> = raised.iter().filter(|one| is_alike(one)).map(|(tool, _)| tool).collect();
        unfound.retain(|tool| !is_in(&ranking.hits, tool));
        if !unfound.is_empty() && ranking.hits.len() < ranking.total {
            // They may be found behind the limit.
            let everything = Query { limit: usize::MAX, explain: false, ..*wide };
            let all = self.ranker.rank(&everything, catalog, selection)?;
            unfound.retain(|tool| !is_in(&all.hits, tool));
        }
        Ok(unfound.len())
    }
}

impl Ranker for UsageRanker {
    fn name(&self) -> &'static str {
        self.ranker.name()
    }

    fn learns_from_usage(&self) -> bool {
        self.ranker.learns_from_usage()
    }

    fn reads_required_words(&self) -> bool {
        self.ranker.reads_required_words()
    }

    fn returns_all_matches(&self) -> bool {
        self.ranker.returns_all_matches()
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let raised = self.visible_boosts(query, catalog, selection);
        if raised.is_empty() {
            return self.ranker.rank(query, catalog, selection);
        }
        // Tools that are moved up from behind leave their positions to others.
        let limit = query.limit.max(POOL).saturating_add(raised.len());
        let wide = Query { limit, threshold: 0.0, ..*query };
        let mut ranking = self.ranker.rank(&wide, catalog, selection)?;
        if ranking.hits.is_empty() && !ranking.withheld.is_empty() {
            show_withheld(&mut ranking, &raised);
        } else {
            ranking.total += self.count_unfound(&raised, &ranking, &wide, catalog, selection)?;
            add_unfound(&mut ranking.hits, &raised);
        }
        // Named tools come first and are unchanged.
        let named = ranking.hits.partition_point(|hit| hit.score >= NAMED);
        let others = &mut ranking.hits[named..];
        for (place, hit) in others.iter_mut().enumerate() {
            let habit = raised.iter().find(|(tool, _)| Arc::ptr_eq(&hit.tool, tool));
            if let Some((_, boost)) = habit.filter(|habit| named + place < POOL || is_alike(habit)) {
                raise(hit, boost, query.explain);
            }
        }
        // Equal scores keep the ranker's order.
        others.sort_by(|a, b| b.score.total_cmp(&a.score));
        keep_below_named(others);
        ranking.passing = cut(&mut ranking.hits, query);
        ranking.withheld.truncate(query.limit);
        Ok(ranking)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.ranker.prepare(catalog);
    }

    fn use_vectors(&self, vectors: &Arc<ToolVectors>) -> bool {
        self.ranker.use_vectors(vectors)
    }

    fn requests<'q>(&self, query: &'q str) -> Vec<&'q str> {
        self.ranker.requests(query)
    }

    fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
        self.ranker.vector_source()
    }
}

/// Finds the tool of a habit. Usually its identity is that of the catalog.
fn find<'a>(upstream_id: &str, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
    let same = catalog.find(upstream_id).filter(|tool| tool.is_upstream_id(upstream_id));
    same.or_else(|| catalog.find_upstream(upstream_id))
}

/// Returns whether a tool is shown because of its habit alone.
fn is_alike((_, boost): &(Arc<Tool>, Boost)) -> bool {
    boost.likeness >= MIN_SIMILARITY
}

/// Adds tools that are not among the best hits, if the learned query is similar enough. Whether the
/// ranker found them behind the limit is not known, and does not matter.
fn add_unfound(hits: &mut Vec<Hit>, raised: &[(Arc<Tool>, Boost)]) {
    for (tool, _) in raised.iter().filter(|habit| is_alike(habit)) {
        match hits.iter().position(|hit| Arc::ptr_eq(&hit.tool, tool)) {
            Some(place) if place < POOL || hits[place].score >= NAMED => continue,
            Some(place) => _ = hits.remove(place),
            None => {}
        }
        hits.push(Hit { tool: Arc::clone(tool), score: 0.0, why: Vec::new() });
    }
}

/// Shows those withheld tools that were called after nearly the same words: the doubt was resolved
/// before. The others stay withheld unless there is something to show.
fn show_withheld(ranking: &mut Ranking, raised: &[(Arc<Tool>, Boost)]) {
    let is_known = |hit: &Hit| {
        raised.iter().any(|(tool, boost)| Arc::ptr_eq(tool, &hit.tool) && boost.likeness >= MIN_SIMILARITY_WITHHELD)
    };
    if ranking.withheld.iter().take(POOL).any(is_known) {
        ranking.hits = std::mem::take(&mut ranking.withheld);
        ranking.hits.truncate(POOL);
        ranking.hits.retain(is_known);
    }
}

fn raise(hit: &mut Hit, boost: &Boost, explain: bool) {
    hit.score = rounded(hit.score + boost.amount);
    if explain {
        let weight = boost.amount;
        let place = hit.why.partition_point(|reason| reason.weight >= weight);
        hit.why.insert(place, Reason { field: Field::Usage, term: boost.words.clone(), weight });
    }
}

/// Scales all scores down if the best would reach those of named tools. It may have been just below
/// them before: a tool that is boosted past it must not be cut to the same score.
fn keep_below_named(hits: &mut [Hit]) {
    let Some(best) = hits.first().map(|hit| hit.score).filter(|best| *best > BELOW_NAMED) else { return };
    let share = BELOW_NAMED / best;
    for hit in hits {
        hit.score = rounded(hit.score * share);
        hit.why.iter_mut().for_each(|reason| reason.weight *= share);
    }
}

/// Rounds a score so that it prints with at most six decimals.
fn rounded(score: f64) -> f64 {
    (score * STEPS).round() / STEPS
}
