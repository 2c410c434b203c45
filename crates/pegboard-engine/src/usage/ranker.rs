//! Ranking with habits.

use std::{fmt, sync::Arc};

use pegboard_core::{
    Catalog, Field, Hit, Query, QueryError, Ranker, Ranking, Reason, Selection, Tool, ToolVectors, VectorSource,
    ranking::{MAX_QUERY_BYTES, cut},
};

use super::Boost;
use crate::scores::{BELOW_NAMED, NAMED};

/// The best hits, among which habits look for their tools. What is behind them counts as not
/// found, however many are asked for: a longer list only adds to the end of a shorter one.
const POOL: usize = 50;

/// Scores are whole parts of so many.
const STEPS: f64 = 1e6;

/// How alike a learned query has to be before a tool is shown in which the ranker finds
/// nothing of the query.
const ALIKE: f64 = 0.75;

/// The same for a tool that the ranker is not confident enough to show: nearly the same words.
const NEARLY_THE_SAME: f64 = 0.95;

/// Where habits come from: whoever keeps them, and has a clock.
pub trait BoostSource: fmt::Debug + Send + Sync {
    /// What `query` raises now, the most first; empty in most cases. Only tools that are visible,
    /// by [`Tool::upstream_id`], have a share in it.
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost>;
}

/// A ranker whose hits also depend on what was called after like queries.
///
/// Only for rankers whose scores go from 0 to 1 with named tools from 0.9 on: [`Hybrid`] and
/// [`Lexical`]; see [`Ranker::learns_from_usage`]. Confidence stays what the ranker says: that a tool was
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

    /// The visible tools that habits speak for. The others leave no trace, not even a share of
    /// what there is to add.
    fn raised(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Vec<(Arc<Tool>, Boost)> {
        if query.checked(MAX_QUERY_BYTES).is_err() {
            return Vec::new();
        }
        let visible = |id: &str| find(id, catalog).filter(|tool| selection.allows(tool));
        let boosts = self.source.boosts(query.text, &|id| visible(id).is_some());
        boosts.into_iter().filter_map(|boost| Some((Arc::clone(visible(&boost.tool)?), boost))).collect()
    }

    /// How many of the tools that [`bring_in`] shows are none that the ranker found and counted.
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
            // They may only be out of sight.
            let everything = Query { limit: usize::MAX, explain: false, ..*wide };
            let all = self.ranker.rank(&everything, catalog, selection)?;
            unfound.retain(|tool| !is_in(&all.hits, tool));
        }
        Ok(unfound.len())
    }
}

impl Ranker for Habitual {
    fn name(&self) -> &'static str {
        self.ranker.name()
    }

    fn learns_from_usage(&self) -> bool {
        self.ranker.learns_from_usage()
    }

    fn reads_required_words(&self) -> bool {
        self.ranker.reads_required_words()
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, selection: &Selection) -> Result<Ranking, QueryError> {
        let raised = self.raised(query, catalog, selection);
        if raised.is_empty() {
            return self.ranker.rank(query, catalog, selection);
        }
        // Those that are brought in from behind leave their places there to others.
        let limit = query.limit.max(POOL).saturating_add(raised.len());
        let wide = Query { limit, threshold: 0.0, ..*query };
        let mut ranking = self.ranker.rank(&wide, catalog, selection)?;
        if ranking.hits.is_empty() && !ranking.withheld.is_empty() {
            bring_out(&mut ranking, &raised);
        } else {
            ranking.total += self.count_unfound(&raised, &ranking, &wide, catalog, selection)?;
            bring_in(&mut ranking.hits, &raised);
        }
        // Named tools come first, and stay as they are.
        let named = ranking.hits.partition_point(|hit| hit.score >= NAMED);
        let others = &mut ranking.hits[named..];
        for (place, hit) in others.iter_mut().enumerate() {
            let habit = raised.iter().find(|(tool, _)| Arc::ptr_eq(&hit.tool, tool));
            if let Some((_, boost)) = habit.filter(|habit| named + place < POOL || is_alike(habit)) {
                raise(hit, boost, query.explain);
            }
        }
        // Those that are equal stay in the ranker's order.
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

/// The tool that a habit is about. Mostly its identity is that of the catalog.
fn find<'a>(upstream_id: &str, catalog: &'a Catalog) -> Option<&'a Arc<Tool>> {
    let same = catalog.find(upstream_id).filter(|tool| tool.is_upstream_id(upstream_id));
    same.or_else(|| catalog.find_upstream(upstream_id))
}

/// Whether a tool is shown for its habit alone.
fn is_alike((_, boost): &(Arc<Tool>, Boost)) -> bool {
    boost.likeness >= ALIKE
}

/// Adds tools that are not among the best hits, if the learned query is alike enough. Whether
/// the ranker found them somewhere behind is not seen in a short list, and so does not count.
fn bring_in(hits: &mut Vec<Hit>, raised: &[(Arc<Tool>, Boost)]) {
    for (tool, _) in raised.iter().filter(|habit| is_alike(habit)) {
        match hits.iter().position(|hit| Arc::ptr_eq(&hit.tool, tool)) {
            Some(place) if place < POOL || hits[place].score >= NAMED => continue,
            Some(place) => _ = hits.remove(place),
            None => {}
        }
        hits.push(Hit { tool: Arc::clone(tool), score: 0.0, why: Vec::new() });
    }
}

/// Shows those of the withheld tools that were called after nearly the same words: somebody
/// who was in doubt once need not be in doubt again. The others stay where they are unless
/// there is something to show.
fn bring_out(ranking: &mut Ranking, raised: &[(Arc<Tool>, Boost)]) {
    let is_known = |hit: &Hit| {
        raised.iter().any(|(tool, boost)| Arc::ptr_eq(tool, &hit.tool) && boost.likeness >= NEARLY_THE_SAME)
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

/// Makes all scores smaller alike if the best would reach those of named tools. It may have been
/// just below them before: what is raised past it must not be cut down to the same score.
fn keep_below_named(hits: &mut [Hit]) {
    let Some(best) = hits.first().map(|hit| hit.score).filter(|best| *best > BELOW_NAMED) else { return };
    let share = BELOW_NAMED / best;
    for hit in hits {
        hit.score = rounded(hit.score * share);
        hit.why.iter_mut().for_each(|reason| reason.weight *= share);
    }
}

/// The nearest score. Divided by a whole number it is the one that is written in six decimals.
fn rounded(score: f64) -> f64 {
    (score * STEPS).round() / STEPS
}
