//! Servers after the gateway and their supervisors are killed at once.

use std::process::{Command, Output};

use serde_json::json;

use super::{
    Served,
    faults::{children, descendants},
    fixture_path, is_running, kill, wait_until_gone,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pegboard");

/// Kills the gateway and the supervisors of its servers. A supervisor that is stopped first cannot
/// end its server when the gateway is gone.
fn kill_at_once(gateway: u32, supervisors: &[u32]) {
    supervisors.iter().for_each(|pid| kill(*pid, "STOP"));
    kill(gateway, "KILL");
    supervisors.iter().for_each(|pid| kill(*pid, "KILL"));
}

/// Returns whether this kind of process namespace is available here.
#[expect(clippy::print_stderr, reason = "the developer must see what was left out")]
fn is_possible(kind: &str) -> bool {
    let options: &[&str] = match kind {
        "off" => return true,
        "auto" => &["--pid", "--fork", "--mount-proc"],
        _ => &["--map-root-user", "--pid", "--fork", "--mount-proc"],
    };
    let tried = Command::new("unshare").args(options).arg("true").output();
    let is_possible = tried.is_ok_and(|output| output.status.success());
    if !is_possible {
        eprintln!("SKIPPED: processNamespace {kind}: no process namespace can be made here");
    }
    is_possible
}

#[tokio::test]
async fn servers_end_when_gateway_and_supervisor_are_killed() {
    for kind in ["off", "auto", "on"] {
        if !is_possible(kind) {
            continue;
        }
        // A child, an orphan in a session of its own, and the server itself.
        let script = format!(
            "(setsid sleep 1000 > /dev/null 2>&1 &); sleep 1000 > /dev/null 2>&1 & exec {} --extras",
            fixture_path().display()
        );
        // Set for one server, and for all that set nothing themselves.
        let server = json!({"command": "bash", "args": ["-c", script]});
        let mut own = server.clone();
        own["pegboard"] = json!({"processNamespace": kind});
        let config = json!({
            "mcpServers": {"one": own, "two": server},
            "pegboard": {"exposure": "never", "processNamespace": kind},
        });
        let served = Served::start(&format!("killed-{kind}"), &config).await;
        let session = served.legacy().await;
        let listed = session.request("tools/list", json!({})).await;
        assert!(listed.result()["tools"].as_array().is_some_and(|tools| tools.len() > 20), "{kind}: {listed:?}");
        let (supervisors, all) = (children(served.pid()), descendants(served.pid()));
        let line = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let (left, servers): (Vec<u32>, Vec<u32>) = all.iter().partition(|pid| line(**pid).starts_with("sleep"));
        assert_eq!((supervisors.len(), left.len()), (2, 4), "{kind}: {all:?}");
        kill_at_once(served.pid(), &supervisors);
        for pid in servers {
            wait_until_gone(pid).await;
        }
        for pid in left {
            match kind {
                // No process is left to find them.
                "off" => kill(pid, "KILL"),
                _ => wait_until_gone(pid).await,
            }
        }
    }
}

#[tokio::test]
async fn a_server_ends_with_its_supervisor() {
    let server = json!({"command": fixture_path(), "args": ["--extras"]});
    let served = Served::start("supervisor-killed", &json!({"mcpServers": {"one": server}})).await;
    served.legacy().await.request("tools/list", json!({})).await.result();
    let all = descendants(served.pid());
    assert_eq!(all.len(), 2, "a supervisor and a server");
    kill(all[0], "KILL");
    for pid in all {
        wait_until_gone(pid).await;
    }
    assert!(is_running(served.pid()));
}

/// Runs a command under a supervisor, behind another command line.
fn supervise(before: &[&str], kind: &str, command: &str) -> Output {
    let option = format!("--process-namespace={kind}");
    let own = [PROGRAM, "supervise", &option, "--", "sh", "-c", command];
    let words: Vec<&str> = before.iter().copied().chain(own).collect();
    Command::new(words[0]).args(&words[1..]).output().expect("it starts")
}

#[test]
fn a_process_namespace_passes_the_exit_status_on() {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let ways: &[&[&str]] = if rustix::process::geteuid().is_root() { &[&[], &unprivileged] } else { &[&[]] };
    for (kind, before) in ["off", "auto", "on"].iter().flat_map(|kind| ways.iter().map(move |before| (*kind, *before)))
    {
        if !is_possible(kind) {
            continue;
        }
        // It sees itself, and its first process is ours.
        let output = supervise(before, kind, "echo $$ $PPID; grep CapEff /proc/self/status >&2; exit 7");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(7), "{kind} {before:?}: {out}{err}");
        let is_apart = out == "2 1\n";
        assert_eq!(is_apart, kind == "on" || (kind == "auto" && before.is_empty()), "{kind} {before:?}: {out}");
        if !before.is_empty() {
            assert!(err.contains("0000000000000000"), "a user gets no capabilities: {err}");
        }
        let killed = supervise(before, kind, "kill -KILL $$").status.code();
        assert_eq!(killed, Some(137), "{kind} {before:?}");
        let missing = supervise(before, kind, "exec /no/such/program").status.code();
        assert_eq!(missing, Some(127), "{kind} {before:?}");
    }
}

#[test]
fn a_process_namespace_that_is_refused() {
    let refusing = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent/cli/no_sandbox.py");
    let run = |kind| supervise(&["python3", refusing], kind, "echo started; exit 7");
    let output = run("on");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(126), 0), "{said}");
    assert!(said.contains("cannot create a process namespace (`processNamespace` is `on`)"), "{said}");
    for kind in ["auto", "off"] {
        let output = run(kind);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"started\n"[..]), "{kind}");
        assert!(output.stderr.is_empty(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
