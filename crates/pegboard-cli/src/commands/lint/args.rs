//! Rules and thresholds of `pegboard lint`: flags and configuration.

use std::{collections::BTreeSet, path::PathBuf};

use clap::{Args, ValueEnum, builder::PossibleValue};
use pegboard_engine::lint::{Rule, Severity, Thresholds};

use super::LintConfig;
use crate::{
    cli::options::{OutputArgs, SourceArgs},
    error::CliError,
};

/// The names of all rules.
pub(crate) const RULES: &[&str] = &{
    let mut names = [""; Rule::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Rule::ALL[at].as_str();
        at += 1;
    }
    names
};

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,

    /// State folder with the logins to remote servers; `none` uses no logins
    /// [default: `pegboard` in the user's state folder]
    #[arg(long, value_name = "FOLDER", env = "PEGBOARD_STATE")]
    pub(super) state: Option<String>,

    /// Check only these rules
    #[arg(long, value_name = "RULE", value_delimiter = ',', hide_possible_values = true)]
    only: Vec<RuleName>,

    /// Do not check these rules
    #[arg(long, value_name = "RULE", value_delimiter = ',', hide_possible_values = true)]
    allow: Vec<RuleName>,

    /// Treat findings of these rules as errors; `--max-findings` does not apply to them
    #[arg(long, value_name = "RULE", value_delimiter = ',', hide_possible_values = true)]
    deny: Vec<RuleName>,

    /// Exit with 1 for findings of at least this severity [default: warning]
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,

    /// Number of such findings to tolerate [default: 0]
    #[arg(long, value_name = "N")]
    max_findings: Option<usize>,

    /// Maximum size of a tool's schema, in estimated tokens [default: 1500]
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,

    /// Maximum size of a description, in estimated tokens [default: 600]
    #[arg(long, value_name = "N")]
    max_description_tokens: Option<usize>,

    /// A search for a tool's own words must find it among this many hits [default: 5]
    #[arg(long, value_name = "N", value_parser = parse_hits)]
    hits: Option<usize>,

    /// Ignore the findings in this file, so that only new ones count
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,

    /// Write the findings to the baseline instead of showing them
    #[arg(long)]
    pub(super) write_baseline: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl LintArgs {
    /// Returns the thresholds: of the flags, else of the file, else the defaults.
    pub(super) fn thresholds(&self, file: &LintConfig) -> Result<Thresholds, CliError> {
        let set = |names: &[RuleName]| names.iter().map(|name| name.0).collect::<BTreeSet<Rule>>();
        let (only, allow, deny) = (set(&self.only), set(&self.allow), set(&self.deny));
        if let Some(rule) = allow.intersection(&deny).next() {
            return Err(CliError::new(format!("`{rule}` is both allowed and denied")));
        }
        let is_left_out = |rule: &Rule| match only.is_empty() {
            true => allow.contains(rule) || (file.allow.contains(rule) && !deny.contains(rule)),
            false => allow.contains(rule) || !only.contains(rule),
        };
        let is_denied = |rule: &Rule| deny.contains(rule) || (file.deny.contains(rule) && !allow.contains(rule));
        let usual = Thresholds::default();
        Ok(Thresholds {
            hits: self.hits.or(file.hits).unwrap_or(usual.hits),
            tokens: self.max_tokens.or(file.max_tokens).unwrap_or(usual.tokens),
            description_tokens: self
                .max_description_tokens
                .or(file.max_description_tokens)
                .unwrap_or(usual.description_tokens),
            allowed: Rule::ALL.into_iter().filter(is_left_out).collect(),
            denied: Rule::ALL.into_iter().filter(is_denied).collect(),
            fail_on: self.fail_on.or(file.fail_on).map_or(usual.fail_on, FailOn::severity),
            max_findings: self.max_findings.or(file.max_findings).unwrap_or(usual.max_findings),
            ..usual
        })
    }
}

/// A rule by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RuleName(Rule);

impl ValueEnum for RuleName {
    fn value_variants<'a>() -> &'a [Self] {
        const NAMES: [RuleName; Rule::ALL.len()] = {
            let mut names = [RuleName(Rule::ALL[0]); Rule::ALL.len()];
            let mut at = 0;
            while at < names.len() {
                names[at] = RuleName(Rule::ALL[at]);
                at += 1;
            }
            names
        };
        &NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()).help(self.0.about()))
    }
}

/// Minimum severity of findings that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Errors
    Error,
    /// Errors and warnings
    Warning,
    /// Everything
    Note,
    /// Only the rules of `--deny`
    Never,
}

impl FailOn {
    fn severity(self) -> Option<Severity> {
        match self {
            Self::Error => Some(Severity::Error),
            Self::Warning => Some(Severity::Warning),
            Self::Note => Some(Severity::Note),
            Self::Never => None,
        }
    }
}

/// Maximum of `--hits`; a model would not read more.
pub(crate) const MAX_HITS: usize = 50;

fn parse_hits(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(hits) if (1..=MAX_HITS).contains(&hits) => Ok(hits),
        _ => Err(format!("expected a number from 1 to {MAX_HITS}")),
    }
}
