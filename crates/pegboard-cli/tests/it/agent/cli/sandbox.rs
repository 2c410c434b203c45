//! The agent on machines without a sandbox.

use std::process::{Command, Output};

use pegboard_testkit::provider::Part;
use serde_json::json;

use super::{MODEL, Place, say, stderr, text, turn};

/// Runs a command in an agent for which no sandbox works.
fn run(test: &str, args: &[&str]) -> (Place, Output) {
    let command = json!({"command": "echo from-$((40 + 2))"});
    let place = Place::new(test, [turn([Part::call("execute_shell_command", command)]), say("Done.")]);
    let plain = place.command(&[&["--model", MODEL, "Compute", "--mode", "code-execution", "--yes"], args].concat());
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent/cli/no_sandbox.py"));
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(&place.folder);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().expect("python3 is installed");
    (place, output)
}

#[test]
fn without_a_sandbox_the_agent_does_not_start() {
    for (test, args) in [("no-sandbox", &[][..]), ("no-sandbox-required", &["--sandbox", "require"])] {
        let (place, output) = run(test, args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in
            ["no sandbox is available on this machine", "bubblewrap: ", "namespaces: ", "Landlock: ", "`--sandbox off`"]
        {
            assert!(said.contains(part), "`{part}`: {said}");
        }
        assert!(place.provider.requests().is_empty(), "nothing was asked");
    }
}

#[test]
fn a_sandbox_can_be_done_without_by_name() {
    for (test, policy) in [("sandbox-off", "off"), ("sandbox-auto", "auto")] {
        let (place, output) = run(test, &["--sandbox", policy]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "Done.\n"), "{}", stderr(&output));
        assert!(stderr(&output).contains("WITHOUT A SANDBOX"), "{}", stderr(&output));
        assert!(place.request_text(1).contains("from-42"), "{}", place.request_text(1));
    }
}
