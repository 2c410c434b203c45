//! `cargo xtask full`: the checks that take too long for `cargo xtask test`.

use std::{path::Path, process::Command, time::Instant};

use crate::{
    bench_gateway, bench_llm, bench_proxy, build_release, cargo, cargo_command, compare,
    conformance::{self, Scope},
    debian, fleet, fuzz, mutants, peers, quality, run, say, screenshots, step,
};

/// Labelled data sets, and the tools of real servers.
const DATA: &str = "../shared/data";

/// How long the gateway is under load, in seconds.
const SOAK_SECONDS: u64 = 20 * 60;

/// One step of the run.
struct FullStep {
    name: &'static str,
    /// Returns what the machine lacks for the step, if anything.
    lacks: fn() -> Option<String>,
    run: fn() -> Result<(), String>,
}

/// In this order: the quick ones first, so that a mistake shows early.
const STEPS: [FullStep; 16] = [
    FullStep { name: "quality", lacks: lacks_data, run: || quality(DATA) },
    FullStep { name: "guide", lacks: lacks_peers, run: || build_release().and_then(|()| guide()) },
    FullStep {
        name: "conformance",
        lacks: lacks_peers,
        run: || {
            step("build", cargo(&["build", "--workspace"]))?;
            step("conformance", |_: &str| conformance::run(Scope::All))
        },
    },
    FullStep { name: "questions", lacks: || None, run: questions },
    FullStep {
        name: "bench-gateway",
        lacks: || None,
        run: || build_release().and_then(|()| step("gateway", |_: &str| bench_gateway::run(None))),
    },
    FullStep {
        name: "bench-consoles",
        lacks: lacks_browser,
        run: || build_release().and_then(|()| step("consoles", |_: &str| bench_gateway::consoles::run())),
    },
    FullStep {
        name: "screenshots",
        lacks: lacks_browser,
        run: || build_release().and_then(|()| screenshots::run(false)),
    },
    FullStep {
        name: "bench-proxy",
        lacks: lacks_peers,
        run: || build_release().and_then(|()| step("proxy", |_: &str| bench_proxy::run(&bench_proxy::Scale::FULL))),
    },
    FullStep {
        name: "attack",
        lacks: || None,
        run: || build_release().and_then(|()| step("attacks", |_: &str| bench_gateway::attack::run("release"))),
    },
    FullStep { name: "bench-llm", lacks: lacks_catalog, run: || bench_llm(&format!("{DATA}/fleet/tools.jsonl")) },
    FullStep {
        name: "bench-real",
        lacks: lacks_peers,
        run: || build_release().and_then(|()| step("real servers", |_: &str| bench_gateway::real_servers::run())),
    },
    FullStep {
        name: "fleet",
        lacks: lacks_peers,
        run: || build_release().and_then(|()| step("fleet", |_: &str| fleet::run("release"))),
    },
    FullStep {
        name: "compare",
        lacks: lacks_peers,
        run: || build_release().and_then(|()| step("other gateways", |_: &str| compare::run(false))),
    },
    FullStep { name: "mutants", lacks: || None, run: || mutants::task(&[]) },
    FullStep { name: "fuzz", lacks: || fuzz::check_tools().err(), run: || fuzz::task(std::iter::empty()) },
    FullStep {
        name: "soak",
        lacks: || None,
        run: || {
            build_release()?;
            step("under load", |_: &str| bench_gateway::soak::run("release", SOAK_SECONDS))
        },
    },
];

/// Runs the commands of the README, the guide and the tutorial with the release build.
fn guide() -> Result<(), String> {
    let program = std::path::absolute("target/release/pegboard").map_err(|error| error.to_string())?;
    let tests = ["test", "--package", "pegboard-cli", "--test", "it", "guide::"];
    step("pages", |name: &str| run(name, cargo_command().args(tests).env("PEGBOARD_PROGRAM", &program)))
}

/// Runs the tests of clients that are asked at the same time, a thousand times each.
fn questions() -> Result<(), String> {
    step("build", cargo(&["build", "--workspace", "--bins"]))?;
    let tests = ["test", "--package", "pegboard-gateway", "--package", "pegboard-cli", "--test", "it", "connections::"];
    let rounds = ("PEGBOARD_QUESTION_ROUNDS", "1000");
    step("questions", |name: &str| run(name, cargo_command().args(tests).env(rounds.0, rounds.1)))
}

/// How a part ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// Runs the parts that are named, or all of them. A part that fails does not stop the others.
pub(crate) fn task(chosen: &[String]) -> Result<(), String> {
    if let Some(unknown) = chosen.iter().find(|name| STEPS.iter().all(|part| part.name != **name)) {
        let names = STEPS.map(|part| part.name).join(", ");
        return Err(format!("no part `{unknown}`\nhint: the parts are {names}"));
    }
    let mut rows = Vec::new();
    for part in STEPS.iter().filter(|part| chosen.is_empty() || chosen.iter().any(|name| name == part.name)) {
        say(&format!("==> {}", part.name));
        let began = Instant::now();
        let outcome = match (part.lacks)() {
            Some(missing) => Outcome::Skipped(missing),
            None => (part.run)().map_or_else(Outcome::Failed, |()| Outcome::Passed),
        };
        match &outcome {
            Outcome::Passed => {}
            Outcome::Skipped(why) => say(&format!("{} skipped: {why}", part.name)),
            Outcome::Failed(why) => say(&format!("{} failed: {why}", part.name)),
        }
        rows.push((part.name, outcome, began.elapsed().as_secs()));
    }
    say(&summary(&rows));
    let failed: Vec<&str> =
        rows.iter().filter(|row| matches!(row.1, Outcome::Failed(_))).map(|(name, ..)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// One line per part: its name, how it ended, how long it took, and the first line of the reason.
fn summary(rows: &[(&str, Outcome, u64)]) -> String {
    let mut lines = vec![format!("{:<14} {:<8} {:>11}  reason", "part", "outcome", "time")];
    for (name, outcome, seconds) in rows {
        let (word, reason) = match outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
            Outcome::Failed(why) => ("failed", why.as_str()),
        };
        let time = format!("{} min {:02} s", seconds / 60, seconds % 60);
        let reason = reason.lines().next().unwrap_or_default();
        lines.push(format!("{name:<14} {word:<8} {time:>11}  {reason}").trim_end().to_owned());
    }
    lines.join("\n")
}

fn lacks_data() -> Option<String> {
    (!Path::new(DATA).is_dir()).then(|| format!("no folder `{DATA}` with labelled data"))
}

fn lacks_catalog() -> Option<String> {
    let catalog = format!("{DATA}/fleet/tools.jsonl");
    (!Path::new(&catalog).is_file()).then(|| format!("no catalog `{catalog}`"))
}

fn lacks_browser() -> Option<String> {
    lacks_peers().or_else(|| debian::install().err()).or_else(|| {
        let has_browser = Path::new(".tools/chromium").exists();
        (!has_browser).then(|| "no Chromium on this machine".to_owned())
    })
}

fn lacks_peers() -> Option<String> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let missing: Vec<&str> = ["npm", "python3"].into_iter().filter(|program| !has(program)).collect();
    if missing.is_empty() {
        return peers::install().err().map(|error| format!("the servers cannot be installed: {error}"));
    }
    Some(format!("no {} on this machine", missing.join(" and no ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_line_per_part() {
        let rows = [
            ("quality", Outcome::Skipped("no folder".to_owned()), 0),
            ("mutants", Outcome::Failed("80 % of 10\nmore".to_owned()), 754),
            ("soak", Outcome::Passed, 1200),
        ];
        let expected = "part           outcome         time  reason\n\
                        quality        skipped   0 min 00 s  no folder\n\
                        mutants        failed   12 min 34 s  80 % of 10\n\
                        soak           passed   20 min 00 s";
        assert_eq!(summary(&rows), expected);
    }

    #[test]
    fn a_part_that_does_not_exist_is_an_error() {
        let error = task(&["soak".to_owned(), "mutant".to_owned()]).expect_err("no such part");
        assert!(error.contains("no part `mutant`") && error.contains("quality, guide, conformance"), "{error}");
    }
}
