//! `pegboard lint`.

mod args;
mod show;

use std::path::{Path, PathBuf};

use pegboard_core::{Catalog, Ranker};
use pegboard_discovery::estimate_tokens;
use pegboard_engine::{
    Hybrid, Lexical, Model,
    lint::{Baseline, Linter, Report, Rule, Thresholds},
};

pub(crate) use self::args::{FailOn, LintArgs, MAX_HITS, RULES};
use crate::{
    Outcome, catalogs,
    cli::options::Format,
    config, configured_tools,
    error::{CliError, say},
    output,
    progress::Progress,
    source::Source,
};

/// Maximum size of a baseline.
const MAX_BASELINE_BYTES: usize = 64 << 20;

/// Maximum number of tools for semantic search. It compares every tool, so that the time for all
/// searches would grow with the square of the catalog.
const MAX_TOOLS_BY_MEANING: usize = 20_000;

/// The effect of a baseline.
#[derive(Clone, Copy, Debug, Default)]
struct BaselineEffect {
    /// Number of findings that it suppresses.
    findings: usize,
    /// Number of entries without a finding.
    gone: usize,
}

/// The content of the output.
struct LintPage {
    report: Report,
    /// The ranker that was used for the searches.
    ranker: &'static str,
    known: Option<BaselineEffect>,
    is_over: bool,
}

pub(crate) fn run(args: &LintArgs) -> Result<Outcome, CliError> {
    let source = args.source.config.source();
    let config = match &args.source.catalog[..] {
        [] => source.load(args.state.as_deref())?.map(|content| content.read_offline()).transpose()?,
        _ => args.source.config.config.as_deref().map(config::read_offline).transpose()?,
    };
    let config = config.unwrap_or_default();
    let thresholds = args.thresholds(&config.lint)?;
    let baseline = args.baseline.as_deref().or(config.lint.baseline.as_deref());
    let catalog = catalog(args, &source)?;
    let progress = Progress::new(catalog.len(), "checking the tools");
    let on_searched = || progress.step();
    let ranker = ranker(&catalog);
    let linter = Linter::new(&*ranker, estimate_tokens, thresholds.clone()).model(Model::embedded());
    let report = linter.progress(&on_searched).check(&catalog);
    drop(progress);
    match baseline {
        Some(path) if args.write_baseline => write_baseline(path, &report),
        None if args.write_baseline => {
            Err(CliError::new("no baseline file to write to").hint("name it with `--baseline FILE`"))
        }
        _ => show(args, report, ranker.name(), &thresholds, baseline),
    }
}

/// Returns the tools to check.
fn catalog(args: &LintArgs, source: &Source) -> Result<Catalog, CliError> {
    let catalog = match &args.source.catalog[..] {
        [] => configured_tools::catalog_or_demo(source, args.state.as_deref())?.0,
        files => catalogs::read(files, args.source.max_catalog_bytes)?,
    };
    // An empty catalog without findings would be a misleading success.
    if catalog.is_empty() {
        return Err(CliError::new("there are no tools to check"));
    }
    Ok(catalog)
}

/// Returns the ranker for the searches.
fn ranker(catalog: &Catalog) -> Box<dyn Ranker> {
    if catalog.len() > MAX_TOOLS_BY_MEANING { Box::new(Lexical::default()) } else { Box::new(Hybrid::default()) }
}

fn show(
    args: &LintArgs,
    mut report: Report,
    ranker: &'static str,
    thresholds: &Thresholds,
    baseline: Option<&Path>,
) -> Result<Outcome, CliError> {
    let known = match baseline {
        Some(path) => {
            let (findings, gone) = read_baseline(path)?.apply(&mut report);
            Some(BaselineEffect { findings, gone })
        }
        None => None,
    };
    let is_over = report.is_over(thresholds);
    let page = LintPage { report, ranker, known, is_over };
    match args.output.format() {
        Format::Json => output::json(&show::json(&page))?,
        Format::Text => output::text(&show::text(&page, output::width()))?,
    }
    Ok(if is_over { Outcome::No } else { Outcome::Yes })
}

fn read_baseline(path: &Path) -> Result<Baseline, CliError> {
    let unusable = || CliError::new(format!("`{}` is not a valid baseline", path.display()));
    if !path.exists() {
        return Err(CliError::new(format!("baseline `{}` not found", path.display()))
            .hint("`--write-baseline` creates it from the current findings"));
    }
    let bytes = catalogs::read_bounded(path, MAX_BASELINE_BYTES)?;
    if bytes.len() > MAX_BASELINE_BYTES {
        return Err(unusable().because(format!("it is larger than {MAX_BASELINE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| unusable().because(error))?;
    Baseline::parse(&text).map_err(|error| unusable().because(error).hint("`--write-baseline` creates a new one"))
}

fn write_baseline(path: &Path, report: &Report) -> Result<Outcome, CliError> {
    let baseline = Baseline::of(report);
    let text = format!("{:#}\n", baseline.to_json());
    std::fs::write(path, text)
        .map_err(|error| CliError::new(format!("cannot write `{}`", path.display())).because(error))?;
    say(&format!(
        "wrote {} to `{}`; from now on, only new findings count",
        output::pluralize(baseline.len(), "finding"),
        path.display()
    ));
    Ok(Outcome::Yes)
}

/// Renders the rules as a table in Markdown.
pub(crate) fn reference() -> String {
    let row = |rule: &Rule| format!("| [`{rule}`](#{rule}) | {} | {} |\n", rule.severity().as_str(), rule.about());
    Rule::ALL.iter().map(row).collect()
}

/// The `lint` section of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LintConfig {
    pub(crate) allow: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    pub(crate) fail_on: Option<FailOn>,
    pub(crate) max_findings: Option<usize>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) max_description_tokens: Option<usize>,
    pub(crate) hits: Option<usize>,
    /// The baseline file, relative to the configuration file.
    pub(crate) baseline: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use pegboard_core::RawTool;

    use super::*;

    #[test]
    fn large_catalogs_are_searched_by_words() {
        let catalog = |count: usize| {
            let tool = |at| RawTool { name: format!("tool{at}"), ..RawTool::default() };
            Catalog::from_tools((0..count).map(tool).collect()).0
        };
        for (count, name, is_told) in [(20_000, "hybrid", false), (20_001, "lexical", true)] {
            let ranker = ranker(&catalog(count)).name();
            assert_eq!(ranker, name);
            let report = Report { tools: count, ..Report::default() };
            let page = LintPage { report, ranker, known: None, is_over: false };
            assert_eq!(show::text(&page, 100).contains("searched with the `lexical` ranker"), is_told);
            assert_eq!(show::json(&page)["ranker"], name);
        }
    }
}
