//! Findings that are known and let pass, so that only new ones count.

use serde_json::{Value, json};

use super::{
    report::{Finding, Report},
    rule::Rule,
};

/// The form in which baselines are written.
const VERSION: u64 = 1;

/// Findings of an earlier time, by rule, tools and parameters. What they said is left out:
/// figures change with every tool that comes or goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    rule: Rule,
    tools: Vec<String>,
    parameters: Vec<String>,
}

/// Why a baseline cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// It is not JSON.
    #[error("not JSON")]
    NotJson(#[from] serde_json::Error),
    /// It is of a version that is not known here.
    #[error("not a baseline of version {VERSION}")]
    Version,
    /// An entry is not of the right form.
    #[error("entry {number} has no known `rule` or no list of `tools`")]
    Entry {
        /// Counted from 1.
        number: usize,
    },
}

impl Baseline {
    /// Everything in `report`.
    pub fn of(report: &Report) -> Self {
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        let entry = |finding: &Finding| Entry {
            rule: finding.rule,
            tools: sorted(&finding.tools),
            parameters: sorted(&finding.parameters),
        };
        let mut entries: Vec<Entry> = report.findings.iter().map(entry).collect();
        entries.sort_unstable();
        entries.dedup();
        Self { entries }
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// When it is something else; see [`BaselineError`].
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let value: Value = serde_json::from_str(text)?;
        let findings = value["findings"].as_array().filter(|_| value["version"] == VERSION);
        let findings = findings.ok_or(BaselineError::Version)?;
        let entry = |(at, value): (usize, &Value)| {
            let number = at + 1;
            Entry::parse(value).ok_or(BaselineError::Entry { number })
        };
        Ok(Self { entries: findings.iter().enumerate().map(entry).collect::<Result<_, _>>()? })
    }

    /// As JSON, in an order that does not depend on that of the catalog.
    pub fn to_json(&self) -> Value {
        let entry = |entry: &Entry| {
            let mut value = json!({"rule": entry.rule.as_str(), "tools": entry.tools});
            if !entry.parameters.is_empty() {
                value["parameters"] = json!(entry.parameters);
            }
            value
        };
        json!({"version": VERSION, "findings": self.entries.iter().map(entry).collect::<Vec<_>>()})
    }

    /// How many findings it lets pass.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it lets none pass.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the known findings out of `report`; how many there were, and how many entries
    /// nothing corresponds to any more.
    pub fn apply(&self, report: &mut Report) -> (usize, usize) {
        let mut is_used = vec![false; self.entries.len()];
        let before = report.findings.len();
        report.findings.retain(|finding| {
            // A group that has become smaller is no news; one that has grown is.
            let covering = self.entries.iter().zip(&mut is_used).filter(|(entry, _)| entry.covers(finding));
            covering.map(|(_, is_used)| *is_used = true).count() == 0
        });
        (before - report.findings.len(), is_used.iter().filter(|is_used| !**is_used).count())
    }
}

impl Entry {
    fn parse(value: &Value) -> Option<Self> {
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let parameters = value.get("parameters").map_or(Some(Vec::new()), texts)?;
        Some(Self { rule: Rule::find(value["rule"].as_str()?)?, tools: texts(&value["tools"])?, parameters })
    }

    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule
            && finding.tools.iter().all(|tool| self.tools.contains(tool))
            && finding.parameters.iter().all(|parameter| self.parameters.contains(parameter))
    }
}
