//! Fuzzing: one target after the other, for a while each.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{run, say, step};

/// How long each target runs unless something else is said.
const SECONDS: u32 = 600;

/// An input that takes longer is a finding.
const TIMEOUT: &str = "-timeout=10";

/// So is one that takes more memory.
const MEMORY: &str = "-rss_limit_mb=2048";

/// Fuzzes the targets that are named, or all of them.
pub(crate) fn task(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut chosen, mut seconds) = (Vec::new(), SECONDS);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let number = args.next().and_then(|number| number.parse().ok());
                seconds = number.ok_or("`--seconds` needs a number")?;
            }
            _ => chosen.push(arg),
        }
    }
    let targets = targets()?;
    if let Some(unknown) = chosen.iter().find(|name| !targets.contains(name)) {
        return Err(format!("no target `{unknown}`; there are: {}", targets.join(", ")));
    }
    check_tools()?;
    for target in if chosen.is_empty() { targets } else { chosen } {
        step(&format!("fuzz {target} for {seconds} s"), |name: &str| run(name, &mut command(&target, seconds)?))?;
    }
    say("nothing was found");
    Ok(())
}

/// The names of the targets: each is a file.
fn targets() -> Result<Vec<String>, String> {
    let files = fs::read_dir("fuzz/targets").map_err(|error| format!("cannot read `fuzz/targets`: {error}"))?;
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let rust = files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let mut targets: Vec<String> = rust.filter_map(|path| name(&path)).collect();
    targets.sort();
    Ok(targets)
}

/// Whether a nightly toolchain and cargo-fuzz are there; the error says what is missing.
pub(crate) fn check_tools() -> Result<(), String> {
    let works = |args: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly"]).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !works(&["rustc", "--version"]) {
        return Err("fuzzing needs a nightly toolchain: `rustup toolchain install nightly`".to_owned());
    }
    if !works(&["cargo", "fuzz", "--version"]) {
        return Err("fuzzing needs cargo-fuzz: `cargo install cargo-fuzz --locked`".to_owned());
    }
    Ok(())
}

/// The run of one target. What it learns goes to `fuzz/corpus`, what it finds to `fuzz/artifacts`.
fn command(target: &str, seconds: u32) -> Result<Command, String> {
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(&corpus).map_err(|error| format!("cannot make `{corpus}`: {error}"))?;
    let mut command = Command::new("rustup");
    // Without a sanitizer: the one module of ours with unsafe code has its own tests, and it halves the speed.
    command.args(["run", "nightly", "cargo", "fuzz", "run", "--sanitizer", "none", target, &corpus]);
    command.args([&format!("fuzz/seeds/{target}"), "--", &format!("-max_total_time={seconds}"), TIMEOUT, MEMORY]);
    let dictionary = format!("fuzz/dictionaries/{target}.dict");
    if Path::new(&dictionary).is_file() {
        command.arg(format!("-dict={dictionary}"));
    }
    // Chosen by the alias that started us, and not meant for what we start.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    Ok(command)
}
