//! Weaknesses of tools: what keeps a model from finding them, telling them apart, or
//! affording them.
//!
//! A [`Linter`] looks at a catalog as a search would: it asks for every tool by the words
//! that the tool has for itself, and looks at what else is found. Words are judged by short
//! English lists, and texts in other languages not at all.
//!
//! ```
//! use pegboard_core::{Catalog, RawTool};
//! use pegboard_engine::{Hybrid, lint::{Linter, Rule, Thresholds}};
//!
//! let tool = RawTool { name: "create_issue".into(), ..RawTool::default() };
//! let (catalog, _) = Catalog::from_tools(vec![tool]);
//! let ranker = Hybrid::default();
//! let report = Linter::new(&ranker, |text| text.len() / 4, Thresholds::default()).check(&catalog);
//! assert_eq!(report.findings[0].rule, Rule::NoDescription);
//! assert!(report.is_over(&Thresholds::default()));
//! ```

mod baseline;
mod confusable;
mod corpus;
mod names;
mod report;
mod rule;
mod schemas;
mod search;
#[cfg(test)]
mod tests;
mod texts;
mod words;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt,
};

use pegboard_core::{Catalog, Ranker, Tool};

pub use self::{
    baseline::{Baseline, BaselineError},
    report::{Finding, Report, Thresholds},
    rule::{Rule, Severity},
};
use self::{confusable::Groups, corpus::Corpus, search::Searches, words::Words};
use crate::Model;

/// Looks for weaknesses.
pub struct Linter<'a> {
    ranker: &'a dyn Ranker,
    count_tokens: fn(&str) -> usize,
    thresholds: Thresholds,
    model: Option<&'a Model>,
    on_searched: &'a (dyn Fn() + Sync),
}

impl fmt::Debug for Linter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linter").field("thresholds", &self.thresholds).finish_non_exhaustive()
    }
}

impl<'a> Linter<'a> {
    /// One that searches with `ranker` and counts tokens with `count_tokens`.
    pub fn new(ranker: &'a dyn Ranker, count_tokens: fn(&str) -> usize, thresholds: Thresholds) -> Self {
        Self { ranker, count_tokens, thresholds, model: None, on_searched: &|| {} }
    }

    /// Calls `on_searched` once for each tool that was searched for, from several threads.
    #[must_use]
    pub fn progress(mut self, on_searched: &'a (dyn Fn() + Sync)) -> Self {
        self.on_searched = on_searched;
        self
    }

    /// Compares tools also by what they mean.
    #[must_use]
    pub fn model(mut self, model: &'a Model) -> Self {
        self.model = Some(model);
        self
    }

    /// All weaknesses of `catalog` that are not allowed, by server, tool and rule. They do
    /// not depend on the order of its tools.
    pub fn check(&self, catalog: &Catalog) -> Report {
        let mut tools: Vec<&Tool> = catalog.iter().map(|tool| &**tool).collect();
        tools.sort_by_key(|tool| (tool.server_name(), tool.id()));
        let words = Words::default();
        let corpus = Corpus::of(tools.iter().copied(), &words);
        let look = Look {
            ranker: self.ranker,
            count_tokens: self.count_tokens,
            thresholds: &self.thresholds,
            tools: &tools,
            words,
            corpus,
            model: self.model,
            on_searched: self.on_searched,
        };
        let mut findings = Vec::new();
        names::look(&look, &mut findings);
        texts::look(&look, &mut findings);
        schemas::look(&look, &mut findings);
        look_with_searches(&look, catalog, &mut findings);
        findings.retain(|finding| !self.thresholds.allowed.contains(&finding.rule));
        drop_told(&mut findings);
        findings.sort_by(|a, b| {
            // The worst first, of one tool.
            let place = |finding: &Finding| (Reverse(finding.severity), finding.rule);
            (&a.server, &a.tools, place(a)).cmp(&(&b.server, &b.tools, place(b)))
        });
        let mut servers: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for tool in &tools {
            *servers.entry(tool.server_name().map(str::to_owned)).or_default() += 1;
        }
        Report { tools: tools.len(), servers, findings }
    }
}

/// The rules for which every tool is searched for; they take most of the time.
fn look_with_searches(look: &Look<'_>, catalog: &Catalog, findings: &mut Vec<Finding>) {
    let rules = [Rule::NotFoundByDescription, Rule::NotFoundByNameWords, Rule::Confusable];
    if rules.iter().all(|rule| look.thresholds.allowed.contains(rule)) {
        return;
    }
    let searches = Searches::run(look, catalog);
    let groups = Groups::find(look, &searches);
    search::look(look, &searches, &groups.of, findings);
    confusable::look(look, &groups, findings);
}

/// Takes out names that several tools have where all of these are confused anyway.
fn drop_told(findings: &mut Vec<Finding>) {
    let is_confused = |finding: &&Finding| finding.rule == Rule::Confusable;
    let groups: Vec<Vec<String>> = findings.iter().filter(is_confused).map(|finding| finding.tools.clone()).collect();
    let mut number: HashMap<&str, usize> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        number.extend(group.iter().map(|tool| (tool.as_str(), at)));
    }
    findings.retain(|finding| {
        let mut of = finding.tools.iter().map(|tool| number.get(tool.as_str()));
        let first = of.next().flatten();
        finding.rule != Rule::DuplicateName || first.is_none() || !of.all(|other| other == first)
    });
}

/// What all rules look at.
struct Look<'a> {
    ranker: &'a dyn Ranker,
    count_tokens: fn(&str) -> usize,
    thresholds: &'a Thresholds,
    /// By server and identity.
    tools: &'a [&'a Tool],
    words: Words,
    corpus: Corpus,
    model: Option<&'a Model>,
    on_searched: &'a (dyn Fn() + Sync),
}

impl Look<'_> {
    /// A finding about one tool, as bad as its rule is.
    fn finding(&self, rule: Rule, at: usize, message: String, suggestion: String) -> Finding {
        self.group(rule, &[at], message, suggestion)
    }

    /// What a finding that is milder than its rule counts as.
    fn mildly(&self, rule: Rule, severity: Severity) -> Severity {
        if self.thresholds.denied.contains(&rule) { Severity::Error } else { severity }
    }

    /// A finding about several tools.
    fn group(&self, rule: Rule, members: &[usize], message: String, suggestion: String) -> Finding {
        let severity = self.mildly(rule, rule.severity());
        let first = members.first().map(|at| self.tools[*at]);
        Finding {
            rule,
            severity,
            server: first.and_then(Tool::server_name).map(str::to_owned),
            tools: members.iter().map(|at| self.tools[*at].id().to_owned()).collect(),
            parameters: Vec::new(),
            message,
            suggestion,
        }
    }
}

/// Names that are listed before the rest is only counted.
const MOST_NAMES: usize = 5;

/// Characters of a name that are shown.
const MOST_CHARS: usize = 80;

/// `` `a`, `b` and 3 more ``.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let short = |name: &&str| format!("`{}`", name.chars().take(MOST_CHARS).collect::<String>());
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(short).collect();
    match (shown.as_slice(), names.len().saturating_sub(MOST_NAMES)) {
        ([one, other], 0) => format!("{one} and {other}"),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
