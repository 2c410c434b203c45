//! The report of a lint run.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Rule, Severity};

/// The thresholds of the rules, and which rules apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// A tool must be among this many hits of a search for its own words.
    pub hits: usize,
    /// Maximum number of tokens of a tool definition.
    pub tokens: usize,
    /// Maximum number of tokens of a description.
    pub description_tokens: usize,
    /// Maximum length of a name in bytes; the strictest provider accepts 64.
    pub name_bytes: usize,
    /// The share of common words, 0 to 1, from which two tools are confusable.
    pub likeness: f64,
    /// Rules that are disabled.
    pub allowed: BTreeSet<Rule>,
    /// Rules whose findings are errors.
    pub denied: BTreeSet<Rule>,
    /// The severity from which findings count; without it, only those of denied rules count.
    pub fail_on: Option<Severity>,
    /// Maximum number of findings that count as success.
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

/// A weakness of one tool, or of several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The severity.
    pub severity: Severity,
    /// The server of the first tool.
    pub server: Option<String>,
    /// The identities of the tools; usually one.
    pub tools: Vec<String>,
    /// The parameters concerned.
    pub parameters: Vec<String>,
    /// What is wrong, with figures.
    pub message: String,
    /// How to fix it.
    pub suggestion: String,
}

/// All findings about a catalog, by server, tool and rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of tools.
    pub tools: usize,
    /// Number of tools of each server; those without a server come first.
    pub servers: BTreeMap<Option<String>, usize>,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns the number of findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Returns the number of findings by rule; rules without findings are left out.
    pub fn by_rule(&self) -> BTreeMap<Rule, usize> {
        let mut counts = BTreeMap::new();
        for finding in &self.findings {
            *counts.entry(finding.rule).or_default() += 1;
        }
        counts
    }

    /// Returns whether there are more findings than `thresholds` allow.
    pub fn is_over(&self, thresholds: &Thresholds) -> bool {
        let is_bad = |finding: &&Finding| thresholds.fail_on.is_some_and(|least| finding.severity >= least);
        // Findings of denied rules always count.
        let is_denied = |finding: &Finding| thresholds.denied.contains(&finding.rule);
        self.findings.iter().any(is_denied) || self.findings.iter().filter(is_bad).count() > thresholds.max_findings
    }
}
