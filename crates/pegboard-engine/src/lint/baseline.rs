//! The baseline: known findings that are ignored, so that only new ones count.

use serde_json::{Value, json};

use super::{
    report::{Finding, Report},
    rule::Rule,
};

/// The version of the format.
const VERSION: u64 = 1;

/// Findings of an earlier run, by rule, tools and parameters. Messages are left out: their figures
/// change with every added or removed tool.
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
    /// The version is not supported.
    #[error("not a baseline of version {VERSION}")]
    Version,
    /// An entry is invalid.
    #[error("entry {number} has no known `rule` or no list of `tools`")]
    Entry {
        /// The number of the entry, counted from 1.
        number: usize,
    },
}

impl Baseline {
    /// Creates a baseline of all findings in `report`.
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

    /// Parses the output of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// If the text is invalid; see [`BaselineError`].
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

    /// Serializes to JSON, in an order that does not depend on that of the catalog.
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

    /// Returns the number of findings.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the known findings from `report`; returns how many there were, and how many entries
    /// match nothing any more.
    pub fn apply(&self, report: &mut Report) -> (usize, usize) {
        let mut is_used = vec![false; self.entries.len()];
        let before = report.findings.len();
        report.findings.retain(|finding| {
            // A group that has become smaller is known; one that has grown is new.
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
