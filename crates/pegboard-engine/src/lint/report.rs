//! What was found.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Rule, Severity};

/// What is too much, and what is looked for at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// A tool must be among so many hits of a search for its own words.
    pub hits: usize,
    /// Tokens that the definition of a tool may cost.
    pub tokens: usize,
    /// Tokens that a description may cost.
    pub description_tokens: usize,
    /// Bytes that a name may have; the strictest provider takes 64.
    pub name_bytes: usize,
    /// How much of what two tools say, 0 to 1, must be the same for them to be confused.
    pub likeness: f64,
    /// Rules that are not looked at.
    pub allowed: BTreeSet<Rule>,
    /// Rules whose findings are errors.
    pub denied: BTreeSet<Rule>,
    /// Findings below this count for nothing; without it, those of denied rules alone count.
    pub fail_on: Option<Severity>,
    /// So many findings are let pass.
    pub max_findings: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            hits: 5,
            tokens: 1500,
            description_tokens: 600,
            name_bytes: 64,
            likeness: 0.6,
            allowed: BTreeSet::new(),
            denied: BTreeSet::new(),
            fail_on: Some(Severity::Warning),
            max_findings: 0,
        }
    }
}

/// One weakness of one tool, or of several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked for.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// The server of the first tool.
    pub server: Option<String>,
    /// The identities of the tools; mostly one.
    pub tools: Vec<String>,
    /// The parameters it is about.
    pub parameters: Vec<String>,
    /// What is wrong, with the figures that say so.
    pub message: String,
    /// How to mend it.
    pub suggestion: String,
}

/// All that was found in a catalog, by server, tool and rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many tools were looked at.
    pub tools: usize,
    /// How many tools each server has; those without a server come first.
    pub servers: BTreeMap<Option<String>, usize>,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many findings are as bad as this.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// How many findings each rule has; rules without any are left out.
    pub fn by_rule(&self) -> BTreeMap<Rule, usize> {
        let mut counts = BTreeMap::new();
        for finding in &self.findings {
            *counts.entry(finding.rule).or_default() += 1;
        }
        counts
    }

    /// Whether there are more findings than `thresholds` let pass.
    pub fn is_over(&self, thresholds: &Thresholds) -> bool {
        let is_bad = |finding: &&Finding| thresholds.fail_on.is_some_and(|least| finding.severity >= least);
        // What was denied by name is not to be outweighed by what may pass.
        let is_denied = |finding: &Finding| thresholds.denied.contains(&finding.rule);
        self.findings.iter().any(is_denied) || self.findings.iter().filter(is_bad).count() > thresholds.max_findings
    }
}
