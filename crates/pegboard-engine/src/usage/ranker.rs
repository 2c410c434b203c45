//! Ranking with habits.

use std::{fmt, sync::Arc};

use pegboard_core::{
    Catalog, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, Tool, VectorSource,
    ranking::{MAX_QUERY_BYTES, cut},
};

use super::Boost;

/// Hits among which habits look for their tools, if fewer are asked for.
const POOL: usize = 50;

/// Where the scores of tools begin that a query names outright.
const NAMED: f64 = 0.9;

/// The most that other tools can score.
const BELOW_NAMED: f64 = 0.89;

/// The smallest difference between two scores.
const STEP: f64 = 1e-6;

/// How alike a learned query has to be before a tool is shown in which the ranker finds
/// nothing of the query.
const ALIKE: f64 = 0.75;

/// The same for a tool that the ranker is not confident enough to show: nearly the same words.
const NEARLY_THE_SAME: f64 = 0.95;

/// Where habits come from: whoever keeps them, and has a clock.
pub trait BoostSource: fmt::Debug + Send + Sync {
    /// What `query` raises now, the most first; empty in most cases.
    fn boosts(&self, query: &str) -> Vec<Boost>;
}

/// A ranker whose hits also depend on what was called after like queries.
///
/// Only for rankers whose scores go from 0 to 1 with named tools from 0.9 on: [`Hybrid`] and
/// [`Lexical`]; see [`Habitual::fits`]. Confidence stays what the ranker says: that a tool was
/// used says nothing of how well it fits.
///
/// [`Hybrid`]: crate::Hybrid
/// [`Lexical`]: crate::Lexical
#[derive(Clone, Debug)]
pub struct Habitual {
    ranker: Arc<dyn Ranker>,
    source: Arc<dyn BoostSource>,
}

impl Habitual {
    /// `ranker` with habits.
    pub fn new(ranker: Arc<dyn Ranker>, source: Arc<dyn BoostSource>) -> Self {
        Self { ranker, source }
    }

    /// Whether a ranker's scores are on the scale that boosts are made for. The others
    /// reproduce published systems, which know no habits.
    pub fn fits(ranker: &dyn Ranker) -> bool {
        ["hybrid", "lexical"].contains(&ranker.name())
    }
}

impl Ranker for Habitual {
    fn name(&self) -> &'static str {
        self.ranker.name()
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let mut raised = Vec::new();
        if query.limit > 0 && query.checked(MAX_QUERY_BYTES).is_ok() {
            for boost in self.source.boosts(query.text) {
                // What may not be seen is not looked at: not even its place in the pool.
                if let Some(tool) = find(&boost.tool, catalog).filter(|tool| selection.allows(tool)) {
                    raised.push((Arc::clone(tool), boost));
                }
            }
        }
        if raised.is_empty() {
            return self.ranker.rank(query, catalog, selection);
        }
        let wide = Query { limit: query.limit.max(POOL), threshold: 0.0, ..*query };
        let mut ranking = self.ranker.rank(&wide, catalog, selection)?;
        if ranking.hits.is_empty() && !ranking.withheld.is_empty() {
            bring_out(&mut ranking, &raised);
        } else {
            ranking.total += bring_in(&mut ranking.hits, &raised, query.limit);
        }
        // Named tools come first, and stay as they are.
        let named = ranking.hits.partition_point(|hit| hit.score >= NAMED);
        let others = &mut ranking.hits[named..];
        for (tool, boost) in &raised {
            if let Some(hit) = others.iter_mut().find(|hit| Arc::ptr_eq(&hit.tool, tool)) {
                raise(hit, boost, query.explain);
            }
        }
        // Those that are equal stay in the ranker's order.
        others.sort_by(|a, b| b.score.total_cmp(&a.score));
        keep_below_named(others);
        cut(&mut ranking.hits, query);
        ranking.withheld.truncate(query.limit);
        Ok(ranking)
    }

    fn prepare(&self, catalog: &Catalog) {
        self.ranker.prepare(catalog);
    }

    fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
        self.ranker.vector_source()
    }
}

/// The tool that a habit is about. Mostly its identity is that of the catalog.
fn find<'a>(upstream_id: &str, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
    let same = catalog.find(upstream_id).filter(|tool| tool.is_upstream_id(upstream_id));
    same.or_else(|| catalog.find_upstream(upstream_id))
}

/// Adds tools that the ranker finds nothing in, if the learned query is alike enough; how many.
fn bring_in(hits: &mut Vec<Hit>, raised: &[(Arc<Tool>, Boost)], limit: usize) -> usize {
    let before = hits.len();
    for (tool, _) in raised.iter().filter(|(_, boost)| boost.likeness >= ALIKE) {
        // It may only be out of sight; then it counts already, and is shown all the same.
        if !hits.iter().any(|hit| Arc::ptr_eq(&hit.tool, tool)) {
            hits.push(Hit { tool: Arc::clone(tool), score: 0.0, why: Vec::new() });
        }
    }
    let is_whole = before < limit.max(POOL);
    if is_whole { hits.len() - before } else { 0 }
}

/// Shows those of the withheld tools that were called after nearly the same words: somebody
/// who was in doubt once need not be in doubt again. The others stay where they are unless
/// there is something to show.
fn bring_out(ranking: &mut Ranking, raised: &[(Arc<Tool>, Boost)]) {
    let is_known = |hit: &Hit| {
        raised.iter().any(|(tool, boost)| Arc::ptr_eq(tool, &hit.tool) && boost.likeness >= NEARLY_THE_SAME)
    };
    if ranking.withheld.iter().any(is_known) {
        ranking.hits = std::mem::take(&mut ranking.withheld);
        ranking.hits.retain(is_known);
    }
}

fn raise(hit: &mut Hit, boost: &Boost, explain: bool) {
    hit.score = ((hit.score + boost.amount) / STEP).round() * STEP;
    if explain {
        let weight = boost.amount;
        let place = hit.why.partition_point(|reason| reason.weight >= weight);
        hit.why.insert(place, Reason { field: Field::Usage, term: boost.words.clone(), weight });
    }
}

/// Makes all scores smaller alike if the best would reach those of named tools. It may have been
/// just below them before: what is raised past it must not be cut down to the same score.
fn keep_below_named(hits: &mut [Hit]) {
    let Some(best) = hits.first().map(|hit| hit.score).filter(|best| *best > BELOW_NAMED) else { return };
    let share = BELOW_NAMED / best;
    for hit in hits {
        hit.score = (hit.score * share / STEP).round() * STEP;
        hit.why.iter_mut().for_each(|reason| reason.weight *= share);
    }
}
