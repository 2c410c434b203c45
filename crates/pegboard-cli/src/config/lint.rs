//! `lint`: which findings of `pegboard lint` are tolerated.

use clap::ValueEnum;
use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section},
};
use pegboard_engine::lint::Rule;

use crate::commands::lint::{FailOn, LintConfig, MAX_HITS, RULES};

const RULE_LIST: Kind = Kind::List(&Kind::OneOf(RULES));

const COUNT: Kind = Kind::Count { least: 0 };

const SEVERITIES: &[&str] = &["error", "warning", "note", "never"];

pub(super) static LINT: Section<LintConfig> = Section::new(
    "lint",
    "Rules and limits of `pegboard lint`; command-line flags take precedence.",
    &[
        Key::new("allow", RULE_LIST, "Rules that are not checked.", |node, lint: &mut LintConfig, scope| {
            lint.allow = rules(node, scope);
        })
        .default("[]"),
        Key::new(
            "deny",
            RULE_LIST,
            "Rules whose findings are errors; `maxFindings` does not apply to them.",
            |node, lint: &mut LintConfig, scope| {
                lint.deny = rules(node, scope);
            },
        )
        .default("[]"),
        Key::new(
            "failOn",
            Kind::OneOf(SEVERITIES),
            "Minimum severity for exit code 1; with `never`, only the rules of `deny` count.",
            |node, lint: &mut LintConfig, scope| {
                let name = node.as_one_of(SEVERITIES, scope.problems);
                lint.fail_on = name.and_then(|name| FailOn::from_str(name, false).ok());
            },
        )
        .default("\"warning\""),
        Key::new("maxFindings", COUNT, "Number of such findings to tolerate.", |node, lint: &mut LintConfig, scope| {
            lint.max_findings = node.as_count(scope.problems);
        })
        .default("0"),
        Key::new(
            "maxTokens",
            COUNT,
            "Maximum size of a tool's schema, in estimated tokens.",
            |node, lint: &mut LintConfig, scope| lint.max_tokens = node.as_count(scope.problems),
        )
        .default("1500"),
        Key::new(
            "maxDescriptionTokens",
            COUNT,
            "Maximum size of a description, in estimated tokens.",
            |node, lint: &mut LintConfig, scope| lint.max_description_tokens = node.as_count(scope.problems),
        )
        .default("600"),
        Key::new(
            "hits",
            Kind::Count { least: 1 },
            "A search for a tool's own words must find it among this many hits, at most 50.",
            |node, lint: &mut LintConfig, scope| {
                let hits = node.as_count_from(1, scope.problems);
                lint.hits = hits.map(|hits| hits.min(MAX_HITS));
            },
        )
        .default("5"),
        Key::new(
            "baseline",
            Kind::Word,
            "File with findings to ignore, relative to this file; `pegboard lint --write-baseline` writes it.",
            |node, lint: &mut LintConfig, scope| lint.baseline = node.as_non_blank(scope.problems).map(Into::into),
        ),
    ],
);

fn rules(node: &Node<'_>, scope: &mut Scope<'_>) -> Vec<Rule> {
    let entries = node.as_list(scope.problems).unwrap_or_default();
    entries.iter().filter_map(|entry| Rule::find(entry.as_one_of(RULES, scope.problems)?)).collect()
}
