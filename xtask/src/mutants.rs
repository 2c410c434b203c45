//! Mutation testing of the code that decides what a caller may see and do.
//!
//! cargo-mutants changes one place of the code after the other; a change that no unit test of the
//! package notices is a gap in the tests. Mutants that unit tests cannot catch are listed with the
//! reason in `xtask/mutants.txt`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use serde_json::Value;

use crate::{run, say, step};

/// The version of cargo-mutants: another one makes other mutants.
const VERSION: &str = "27.1.0";

/// Where it is installed.
const ROOT: &str = ".tools/cargo-mutants";

/// Where it builds and reports.
const FOLDER: &str = "target/mutants";

/// The mutants that are explained.
const EXPLAINED: &str = "xtask/mutants.txt";

/// The share of an area's mutants that must be caught or explained, in percent.
const LEAST: usize = 90;

/// Code that is tested together.
struct Area {
    name: &'static str,
    /// The package whose own tests must catch the mutants, and no others: so a mutant costs
    /// seconds.
    package: &'static str,
    /// Files, as patterns from the root.
    files: &'static [&'static str],
}

const AREAS: [Area; 7] = [
    Area { name: "selection", package: "pegboard-core", files: &["crates/pegboard-core/src/selection.rs"] },
    Area {
        name: "policy",
        package: "pegboard-discovery",
        files: &["crates/pegboard-discovery/src/policy.rs", "crates/pegboard-discovery/src/policy/*.rs"],
    },
    Area {
        name: "pins",
        package: "pegboard-upstream",
        files: &[
            "crates/pegboard-upstream/src/pins.rs",
            "crates/pegboard-upstream/src/pins/*.rs",
            "crates/pegboard-upstream/src/server/pinning.rs",
        ],
    },
    Area {
        name: "tokens",
        package: "pegboard-http",
        files: &["crates/pegboard-http/src/guard.rs", "crates/pegboard-http/src/failures.rs"],
    },
    Area {
        name: "connections",
        package: "pegboard-http",
        files: &["crates/pegboard-http/src/connections.rs", "crates/pegboard-http/src/address.rs"],
    },
    Area { name: "token-settings", package: "pegboard-cli", files: &["crates/pegboard-cli/src/config/access.rs"] },
    Area {
        name: "limits",
        package: "pegboard-gateway",
        files: &[
            "crates/pegboard-gateway/src/limits.rs",
            "crates/pegboard-gateway/src/shares.rs",
            "crates/pegboard-gateway/src/bounds.rs",
        ],
    },
];

/// Tests the areas that are named, or all of them.
pub(crate) fn task(chosen: &[String]) -> Result<(), String> {
    if let Some(unknown) = chosen.iter().find(|name| AREAS.iter().all(|area| area.name != **name)) {
        let names = AREAS.map(|area| area.name).join(", ");
        return Err(format!("no area `{unknown}`\nhint: the areas are {names}"));
    }
    let program = install()?;
    let text = fs::read_to_string(EXPLAINED).map_err(|error| format!("cannot read `{EXPLAINED}`: {error}"))?;
    let explained = parse_explained(&text)?;
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    for area in AREAS.iter().filter(|area| chosen.is_empty() || chosen.iter().any(|name| name == area.name)) {
        let began = Instant::now();
        step(&format!("mutants of {}", area.name), |_: &str| test(&program, area))?;
        let report = Report::read(area, &explained)?;
        lines.push(format!("{:<15} {report} in {} s", area.name, began.elapsed().as_secs()));
        problems.extend(report.problems(area.name));
    }
    lines.iter().for_each(|line| say(line));
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Installs cargo-mutants unless this version is there.
fn install() -> Result<PathBuf, String> {
    let root = std::path::absolute(ROOT).map_err(|error| format!("cannot find `{ROOT}`: {error}"))?;
    let program = root.join("bin/cargo-mutants");
    let version = Command::new(&program).args(["mutants", "--version"]).output();
    if version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(VERSION)) {
        return Ok(program);
    }
    step(&format!("install cargo-mutants {VERSION}"), |name: &str| {
        let mut install = crate::cargo_command();
        install.args(["install", "cargo-mutants", "--version", VERSION, "--locked", "--root"]).arg(&root);
        // Its target folder is not ours.
        run(name, install.env_remove("CARGO_TARGET_DIR"))
    })?;
    Ok(program)
}

/// Runs the unit tests of the area's package against each of its mutants.
fn test(program: &Path, area: &Area) -> Result<(), String> {
    let folder = Path::new(FOLDER).join(area.name);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create `{}`: {error}", folder.display()))?;
    let build = std::path::absolute(Path::new(FOLDER).join("build")).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["mutants", "--no-shuffle", "--colors", "never", "--package", area.package, "--output"]).arg(&folder);
    area.files.iter().for_each(|file| _ = command.args(["--file", file]));
    // Generous: a test that is slow on a busy machine must not count as one that caught something.
    command.args(["--minimum-test-timeout", "120"]);
    if crate::has_nextest() {
        // A mutant can let one test wait for ever; what counts is that another one fails.
        command.args(["--test-tool", "nextest", "--", "--lib", "--max-fail", "1:immediate"]);
    } else {
        command.args(["--", "--lib"]);
    }
    if area.package == "pegboard-gateway" {
        // Its integration tests run in one process, and take a second.
        command.args(["--test", "it"]);
    }
    // The source is copied for each run; what does not change is built once for all of them.
    command.env("CARGO_TARGET_DIR", build);
    let status = command.status().map_err(|error| format!("cannot start cargo-mutants: {error}"))?;
    match status.code() {
        // All caught, some missed, some not ended in time: the report tells.
        Some(0 | 2 | 3) => Ok(()),
        Some(4) => Err(format!("the tests of `{}` fail without any mutant", area.package)),
        _ => Err(format!("cargo-mutants failed with {status}")),
    }
}

/// What became of the mutants of an area. Mutants are counted by their names without line and
/// column, which other changes move.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    /// All that could be built.
    total: usize,
    caught: usize,
    explained: usize,
    /// Neither caught nor explained.
    missed: Vec<String>,
    /// Entries of the list that explain nothing any more.
    stale: Vec<String>,
}

impl Report {
    fn read(area: &Area, explained: &BTreeMap<String, usize>) -> Result<Self, String> {
        let path = Path::new(FOLDER).join(area.name).join("mutants.out/outcomes.json");
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let outcomes = serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
        let of_area = |mutant: &str| area.files.iter().any(|pattern| is_of(pattern, mutant));
        Ok(Self::of(&outcomes, explained.iter().filter(|(mutant, _)| of_area(mutant))))
    }

    /// Reads the outcomes that cargo-mutants has written, beside the explained mutants of the area.
    fn of<'a>(outcomes: &Value, explained: impl Iterator<Item = (&'a String, &'a usize)>) -> Self {
        let mut report = Self::default();
        let mut missed: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in outcomes["outcomes"].as_array().into_iter().flatten() {
            let Some(name) = outcome["scenario"]["Mutant"]["name"].as_str() else { continue };
            match outcome["summary"].as_str() {
                Some("CaughtMutant" | "Timeout") => report.caught += 1,
                Some("MissedMutant") => *missed.entry(without_place(name)).or_default() += 1,
                // What does not compile says nothing about tests.
                _ => continue,
            }
            report.total += 1;
        }
        for (mutant, count) in explained {
            let left = missed.remove(mutant).unwrap_or_default();
            report.explained += left.min(*count);
            match left.checked_sub(*count) {
                None => report.stale.push(format!("{mutant} ({left} of {count} left)")),
                Some(0) => {}
                Some(more) => _ = missed.insert(mutant.clone(), more),
            }
        }
        report.missed = missed.into_iter().flat_map(|(mutant, count)| vec![mutant; count]).collect();
        report
    }

    fn problems(&self, area: &str) -> Vec<String> {
        let mut problems: Vec<String> = self
            .stale
            .iter()
            .map(|mutant| format!("`{EXPLAINED}` explains a mutant that is caught or does not exist: {mutant}"))
            .collect();
        let done = self.caught + self.explained;
        if done * 100 < LEAST * self.total {
            problems.push(format!("{area}: {done} of {} mutants are caught or explained, under {LEAST} %", self.total));
            problems.extend(self.missed.iter().map(|mutant| format!("  missed: {mutant}")));
        }
        if self.total == 0 {
            problems.push(format!("{area}: no mutants; the files of the area have moved (xtask/src/mutants.rs)"));
        }
        problems
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (total, missed) = (self.total, self.missed.len());
        write!(f, "{total:>4} mutants: {} caught, {} explained, {missed} missed", self.caught, self.explained)
    }
}

/// `file.rs:12:5: replace …` without the place.
fn without_place(name: &str) -> String {
    let Some((file, rest)) = name.split_once(".rs:") else { return name.to_owned() };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
    format!("{file}.rs: {}", rest.trim_start())
}

/// Whether a mutant is one of the files that a pattern means. A `*` stands for one file name.
fn is_of(pattern: &str, mutant: &str) -> bool {
    let Some((file, _)) = mutant.split_once(": ") else { return false };
    match pattern.split_once('*') {
        None => file == pattern,
        Some((before, after)) => {
            let name = file.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            name.is_some_and(|name| !name.contains('/'))
        }
    }
}

/// Reads the list: a mutant on a line of its own, ` x2` behind it if there are two of that name,
/// and the reason on indented lines below. Lines with `#` are comments.
fn parse_explained(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let mut explained = BTreeMap::new();
    let mut without_reason: Option<&str> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            without_reason = None;
            continue;
        }
        if let Some(mutant) = without_reason {
            return Err(format!("`{EXPLAINED}` gives no reason for: {mutant}"));
        }
        let counted = line.rsplit_once(" x").and_then(|(mutant, count)| Some((mutant, count.parse().ok()?)));
        let (mutant, count) = counted.unwrap_or((line, 1));
        if explained.insert(mutant.to_owned(), count).is_some() {
            return Err(format!("`{EXPLAINED}` has two entries for: {mutant}"));
        }
        without_reason = Some(line);
    }
    match without_reason {
        Some(mutant) => Err(format!("`{EXPLAINED}` gives no reason for: {mutant}")),
        None => Ok(explained),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_do_not_count() {
        let name = "crates/a/src/b.rs:12:5: replace Bucket::take -> bool with true";
        assert_eq!(without_place(name), "crates/a/src/b.rs: replace Bucket::take -> bool with true");
    }

    #[test]
    fn patterns_mean_files() {
        assert!(is_of("a/b.rs", "a/b.rs: replace x"));
        assert!(is_of("a/*.rs", "a/b.rs: replace x"));
        assert!(!is_of("a/*.rs", "a/b/c.rs: replace x"));
        assert!(!is_of("a/b.rs", "a/bb.rs: replace x"));
    }

    #[test]
    fn every_explained_mutant_has_a_reason_and_belongs_to_an_area() {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants.txt")).expect("the list");
        let explained = parse_explained(&text).expect("a list");
        let patterns = || AREAS.iter().flat_map(|area| area.files);
        for mutant in explained.keys() {
            assert!(patterns().any(|pattern| is_of(pattern, mutant)), "{mutant}");
        }
        assert!(parse_explained("a.rs: replace x\n").expect_err("no reason").contains("no reason for: a.rs"));
        assert!(parse_explained("a\n  r\nb x2\n  r\n").expect("a list") == [("a".into(), 1), ("b".into(), 2)].into());
        assert!(parse_explained("a\n  r\na\n  r\n").is_err());
    }

    #[test]
    fn what_is_explained_is_not_missed() {
        let outcome = |name: &str, summary: &str| json!({"scenario": {"Mutant": {"name": name}}, "summary": summary});
        let outcomes = json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            outcome("a.rs:1:1: replace f", "CaughtMutant"),
            outcome("a.rs:2:1: replace g", "Timeout"),
            outcome("a.rs:3:1: replace h", "Unviable"),
            outcome("a.rs:4:1: replace i", "MissedMutant"),
            outcome("a.rs:5:1: replace i", "MissedMutant"),
            outcome("a.rs:6:1: replace j", "MissedMutant"),
        ]});
        let explained = BTreeMap::from([("a.rs: replace i".to_owned(), 1), ("a.rs: replace k".to_owned(), 1)]);
        let report = Report::of(&outcomes, explained.iter());
        let expected = Report {
            total: 5,
            caught: 2,
            explained: 1,
            missed: vec!["a.rs: replace i".to_owned(), "a.rs: replace j".to_owned()],
            stale: vec!["a.rs: replace k (0 of 1 left)".to_owned()],
        };
        assert_eq!(report, expected);
        assert_eq!(report.problems("a").len(), 4, "a stale entry, the share, and two that are missed");
    }
}
