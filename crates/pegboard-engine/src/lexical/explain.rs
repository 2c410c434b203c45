//! The reasons for a hit's score.

use pegboard_core::{Field, Reason, Tool, ranking::term_label};

use super::{
    document::{DocumentReader, for_each_name_key},
    names::Mention,
    plan::Plan,
    search::NAMED,
    settings::Settings,
    vocabulary::NAME_KEY,
};

/// Returns the reasons for `score`, which they add up to, largest first.
///
/// The index does not store reasons: the tool is read again.
pub(crate) fn reasons(
    tool: &Tool,
    score: f64,
    query: &str,
    plan: &Plan,
    named: Option<&Mention>,
    settings: &Settings,
) -> Vec<Reason> {
    let mut reasons = lexical_reasons(tool, query, plan, settings);
    let lexical: f64 = reasons.iter().map(|reason| reason.weight).sum();
    let by_name = match named {
        Some(_) if lexical > 0.0 => f64::from(NAMED).min(score),
        Some(_) => score,
        None => 0.0,
    };
    for reason in &mut reasons {
        reason.weight *= (score - by_name) / lexical;
    }
    if let Some(mention) = named {
        let term = query[mention.place.clone()].to_owned();
        reasons.push(Reason { field: Field::Name, term, weight: by_name });
    }
    reasons.sort_by(|a, b| {
        b.weight.total_cmp(&a.weight).then_with(|| a.field.cmp(&b.field)).then_with(|| a.term.cmp(&b.term))
    });
    reasons
}

/// Returns one reason for each field and term, in units of the plan's weights.
fn lexical_reasons(tool: &Tool, query: &str, plan: &Plan, settings: &Settings) -> Vec<Reason> {
    let mut spelled: Vec<Option<String>> = vec![None; plan.terms.iter().count()];
    let mut reader = DocumentReader::default();
    reader.read(tool, settings, |kind, token, _| {
        let term = plan.find(kind, token)?;
        spelled[term].get_or_insert_with(|| token.to_owned());
        Some(term as u32)
    });
    let mut shares: Vec<(Field, u32, f32)> = reader.by_field().filter(|(_, _, frequency)| *frequency > 0.0).collect();
    shares.sort_by_key(|(field, term, _)| (*term, *field));
    shares.dedup_by(|later, first| {
        let same = (later.0, later.1) == (first.0, first.1);
        if same {
            first.2 += later.2;
        }
        same
    });
    let mut reasons = Vec::with_capacity(shares.len());
    for (field, term, frequency) in shares {
        let total = reader.terms.iter().find(|(other, _)| *other == term).map_or(frequency, |(_, total)| *total);
        let planned = plan.terms.get(term as usize);
        let weight = planned.weight * reader.impact(term, total, settings) * (frequency / total);
        let word = &plan.words[planned.word as usize];
        let asked = query[word.start..word.end].to_lowercase();
        let found = spelled[term as usize].as_deref().unwrap_or(&asked);
        reasons.push(Reason { field, term: term_label(&asked, found).into_owned(), weight: f64::from(weight) });
    }
    for (term, planned) in plan.terms.iter().filter(|(term, _)| plan.terms.stem(*term).starts_with(NAME_KEY)) {
        let mut has_it = false;
        for_each_name_key(tool, &mut |key| has_it |= key == plan.terms.stem(term));
        if has_it {
            let weight = f64::from(planned.weight);
            reasons.push(Reason { field: Field::Name, term: tool.name().to_owned(), weight });
        }
    }
    reasons
}
