//! Linting of tools: findings about tools that a model cannot find, distinguish, or afford.
//!
//! A [`Linter`] examines a catalog by searching: it searches for every tool by its own words, and
//! examines what else is found. Words are judged by short English lists; texts in other languages
//! are not judged.
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

/// Finds weaknesses of tools.
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
    /// Creates a linter that searches with `ranker` and counts tokens with `count_tokens`.
    pub fn new(ranker: &'a dyn Ranker, count_tokens: fn(&str) -> usize, thresholds: Thresholds) -> Self {
        Self { ranker, count_tokens, thresholds, model: None, on_searched: &|| {} }
    }

    /// Calls `on_searched` once for each tool that was searched for, from several threads.
    #[must_use]
    pub fn progress(mut self, on_searched: &'a (dyn Fn() + Sync)) -> Self {
        self.on_searched = on_searched;
        self
    }

    /// Also compares tools by meaning.
    #[must_use]
    pub fn model(mut self, model: &'a Model) -> Self {
        self.model = Some(model);
        self
    }

    /// Returns all findings about `catalog` that are not allowed, by server, tool and rule. They do
    /// not depend on the order of its tools.
    pub fn check(&self, catalog: &Catalog) -> Report {
        let mut tools: Vec<&Tool> = catalog.iter().map(|tool| &**tool).collect();
        tools.sort_by_key(|tool| (tool.server_name(), tool.id()));
        let words = Words::default();
        let corpus = Corpus::of(tools.iter().copied(), &words);
        let pass = LintPass {
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
        names::check(&pass, &mut findings);
        texts::check(&pass, &mut findings);
        schemas::check(&pass, &mut findings);
        run_search_rules(&pass, catalog, &mut findings);
        findings.retain(|finding| !self.thresholds.allowed.contains(&finding.rule));
        drop_covered_duplicates(&mut findings);
        findings.sort_by(|a, b| {
            // The most severe of one tool first.
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

/// Runs the rules that search for every tool; they take most of the time.
fn run_search_rules(pass: &LintPass<'_>, catalog: &Catalog, findings: &mut Vec<Finding>) {
    let rules = [Rule::NotFoundByDescription, Rule::NotFoundByNameWords, Rule::Confusable];
    if rules.iter().all(|rule| pass.thresholds.allowed.contains(rule)) {
        return;
    }
    let searches = Searches::run(pass, catalog);
    let groups = Groups::find(pass, &searches);
    search::check(pass, &searches, &groups.of, findings);
    confusable::check(pass, &groups, findings);
}

/// Removes findings about duplicate names if all of these tools are reported as confusable anyway.
fn drop_covered_duplicates(findings: &mut Vec<Finding>) {
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

/// The inputs of all rules.
struct LintPass<'a> {
    ranker: &'a dyn Ranker,
    count_tokens: fn(&str) -> usize,
    thresholds: &'a Thresholds,
    /// Sorted by server and identity.
    tools: &'a [&'a Tool],
    words: Words,
    corpus: Corpus,
    model: Option<&'a Model>,
    on_searched: &'a (dyn Fn() + Sync),
}

impl LintPass<'_> {
    /// Creates a finding about one tool, with the severity of its rule.
    fn finding(&self, rule: Rule, at: usize, message: String, suggestion: String) -> Finding {
        self.group(rule, &[at], message, suggestion)
    }

    /// Returns the severity of a finding that is milder than its rule.
    fn milder_severity(&self, rule: Rule, severity: Severity) -> Severity {
        if self.thresholds.denied.contains(&rule) { Severity::Error } else { severity }
    }

    /// Creates a finding about several tools.
    fn group(&self, rule: Rule, members: &[usize], message: String, suggestion: String) -> Finding {
        let severity = self.milder_severity(rule, rule.severity());
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

/// Maximum number of names in a list; the rest is only counted.
const MAX_NAMES: usize = 5;

/// Maximum number of characters of a name in a message.
const MAX_CHARS: usize = 80;

/// Formats a list of names: `` `a`, `b` and 3 more ``.
fn list_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let short = |name: &&str| format!("`{}`", name.chars().take(MAX_CHARS).collect::<String>());
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(short).collect();
    match (shown.as_slice(), names.len().saturating_sub(MAX_NAMES)) {
        ([one, other], 0) => format!("{one} and {other}"),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
