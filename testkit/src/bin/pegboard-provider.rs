//! `pegboard-provider`: the scripted LLM provider as a program.

use std::{
    fs,
    io::{self, Write, stderr, stdin, stdout},
    process::ExitCode,
    thread,
};

use pegboard_testkit::provider::{Provider, Script};
use serde_json::{Value, json};

const USAGE: &str = "\
Usage: pegboard-provider [OPTIONS]

A scripted LLM provider for tests. Prints {\"url\": …} once it listens and runs until it is
killed. GET /_requests tells what it was asked, PUT /_script gives it another script.

  --script FILE   the script, as JSON; `-` reads standard input; without one, no turns
  --port N        the port on 127.0.0.1 (default: a free one)
  --until-eof     stop when standard input ends
  --help          print this
";

#[derive(Default)]
struct Args {
    script: Option<String>,
    port: u16,
    until_eof: bool,
}

fn main() -> ExitCode {
    let outcome = match parse(std::env::args().skip(1)) {
        Ok(Some(args)) => run(&args),
        Ok(None) => stdout().write_all(USAGE.as_bytes()).map_err(|error| error.to_string()),
        Err(error) => Err(format!("{error}\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr is no reason for another error.
            let _ = writeln!(stderr(), "pegboard-provider: {error}");
            ExitCode::from(2)
        }
    }
}

/// Reads the arguments that follow the program's name; none if help is asked for.
fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Args>, String> {
    let mut args = Args::default();
    let mut words = words.into_iter();
    while let Some(flag) = words.next() {
        let mut value = || words.next().ok_or(format!("`{flag}` needs a value"));
        match flag.as_str() {
            "--script" => args.script = Some(value()?),
            "--port" => args.port = value()?.parse().map_err(|_| "`--port` takes a port number".to_owned())?,
            "--until-eof" => args.until_eof = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument `{flag}`")),
        }
    }
    Ok(Some(args))
}

fn run(args: &Args) -> Result<(), String> {
    let script = args.script.as_deref().map_or(Ok(Script::default()), read_script)?;
    let provider = Provider::bind(script, args.port).map_err(|error| format!("cannot listen: {error}"))?;
    writeln!(stdout(), "{}", json!({"url": provider.url()})).map_err(|error| error.to_string())?;
    if args.until_eof {
        io::copy(&mut stdin(), &mut io::sink()).map_err(|error| error.to_string())?;
        return Ok(());
    }
    loop {
        thread::park();
    }
}

fn read_script(path: &str) -> Result<Script, String> {
    let text = if path == "-" { io::read_to_string(stdin()) } else { fs::read_to_string(path) };
    let text = text.map_err(|error| format!("cannot read the script `{path}`: {error}"))?;
    let script: Value = serde_json::from_str(&text).map_err(|error| format!("the script is no JSON: {error}"))?;
    Script::from_json(&script).map_err(|error| error.to_string())
}
