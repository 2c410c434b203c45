//! What `pegboard lint` lets pass.

use clap::ValueEnum;
use pegboard_engine::lint::Rule;
use pegboard_upstream::config::{
    document::Node,
    keys::{Key, Kind, Scope, Section},
};

use crate::commands::lint::{FailOn, LintConfig, MAX_HITS, RULES};

const RULE_LIST: Kind = Kind::List(&Kind::OneOf(RULES));

const COUNT: Kind = Kind::Count { least: 0 };

const SEVERITIES: &[&str] = &["error", "warning", "note", "never"];

pub(super) static LINT: Section<LintConfig> = Section::new(
    "lint",
    "What `pegboard lint` looks for, and how much it lets pass; flags count more.",
    &[
        Key::new("allow", RULE_LIST, "Rules that are not looked at.", |node, lint: &mut LintConfig, scope| {
            lint.allow = rules(node, scope);
        })
        .default("[]"),
        Key::new(
            "deny",
            RULE_LIST,
            "Rules whose findings are errors, none of which is let pass.",
            |node, lint: &mut LintConfig, scope| {
                lint.deny = rules(node, scope);
            },
        )
        .default("[]"),
        Key::new(
            "failOn",
            Kind::OneOf(SEVERITIES),
            "How bad findings must be for the exit code to be 1; `never` leaves it to `deny`.",
            |node, lint: &mut LintConfig, scope| {
                let name = node.as_one_of(SEVERITIES, scope.problems);
                lint.fail_on = name.and_then(|name| FailOn::from_str(name, false).ok());
            },
        )
        .default("\"warning\""),
        Key::new("maxFindings", COUNT, "So many of them are let pass.", |node, lint: &mut LintConfig, scope| {
            lint.max_findings = node.as_count(scope.problems);
        })
        .default("0"),
        Key::new(
            "maxTokens",
            COUNT,
            "Tokens (estimated) that the schema of a tool may cost.",
            |node, lint: &mut LintConfig, scope| lint.max_tokens = node.as_count(scope.problems),
        )
        .default("1500"),
        Key::new(
            "maxDescriptionTokens",
            COUNT,
            "Tokens (estimated) that a description may cost.",
            |node, lint: &mut LintConfig, scope| lint.max_description_tokens = node.as_count(scope.problems),
        )
        .default("600"),
        Key::new(
            "hits",
            Kind::Count { least: 1 },
            "A search for its own words must find a tool among so many hits, at most 50.",
            |node, lint: &mut LintConfig, scope| {
                let hits = node.as_count_from(1, scope.problems);
                lint.hits = hits.map(|hits| hits.min(MAX_HITS));
            },
        )
        .default("5"),
        Key::new(
            "baseline",
            Kind::Word,
            "A file with findings that are let pass, relative to this file; `pegboard lint --write-baseline` writes it.",
            |node, lint: &mut LintConfig, scope| lint.baseline = node.as_word(scope.problems).map(Into::into),
        ),
    ],
);

fn rules(node: &Node<'_>, scope: &mut Scope<'_>) -> Vec<Rule> {
    let entries = node.as_list(scope.problems).unwrap_or_default();
    entries.iter().filter_map(|entry| Rule::find(entry.as_one_of(RULES, scope.problems)?)).collect()
}
