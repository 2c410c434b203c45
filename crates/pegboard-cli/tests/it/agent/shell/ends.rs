//! Processes after a command ends, is cancelled, or loses its agent.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use pegboard_agent::{Program, shell::Shell};

use super::{KINDS, PATIENCE, PROGRAM, Place, in_each_sandbox, settings};

/// A script that starts everything that could outlive a command.
const LEAVING: &str = "setsid sleep 1000 & nohup sleep 1000 > /dev/null 2>&1 & (setsid bash -c 'sleep 1000 & sleep 1000' &); \
                       trap '' TERM HUP; touch started";

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    in_each_sandbox(
        "left",
        |_| (),
        async |place| {
            let ran = place.run(&format!("{LEAVING}; echo done")).await;
            assert_eq!((ran.exit_code, ran.stdout.as_str(), ran.ended_by), (0, "done\n", None), "{}", place.kind);
        },
    )
    .await;
}

#[tokio::test]
async fn a_command_that_is_given_up_ends() {
    in_each_sandbox(
        "dropped",
        |_| (),
        async |place| {
            let shell = std::sync::Arc::clone(&place.shell);
            let task = tokio::spawn(async move { shell.run(&format!("{LEAVING}; sleep 1000"), None).await });
            place.wait_for_file("started").await;
            place.wait_until_running().await;
            task.abort();
            place.wait_until_empty().await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_command_ends_with_the_program_that_ordered_it() {
    in_each_sandbox(
        "killed",
        |_| (),
        async |place| {
            let temporary = place.outside.join("temporary");
            fs::create_dir(&temporary).expect("a folder");
            let mut agent = Agent::start(place, &format!("{LEAVING}; sleep 1000"), &[], &temporary);
            place.wait_for_file("started").await;
            place.wait_until_running().await;
            agent.0.kill().expect("it runs");
            agent.0.wait().expect("it ends");
            place.wait_until_empty().await;
            // The confining program tidies up last.
            let start = std::time::Instant::now();
            while fs::read_dir(&temporary).expect("a folder").next().is_some() {
                assert!(start.elapsed() < PATIENCE, "{}: temporary files are left", place.kind);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_command_ends_with_its_watcher() {
    for kind in KINDS.into_iter().chain(["none"]) {
        let Some(place) = Place::new("watcher", kind, &|_| (), None) else { continue };
        let temporary = place.outside.join("temporary");
        fs::create_dir(&temporary).expect("a folder");
        // Without a sandbox nothing keeps a command from doing it itself.
        let last = if kind == "none" { "kill -9 $PPID; sleep 1000" } else { "sleep 1000" };
        let mut agent = Agent::start(&place, &format!("{LEAVING}; {last}"), &[], &temporary);
        place.wait_for_file("started").await;
        if kind != "none" {
            let watcher = place.watcher().expect("it watches");
            let kill = Command::new("kill").args(["-9", &watcher.to_string()]).status();
            assert!(kill.expect("it is installed").success(), "{kind}");
        }
        assert!(!agent.0.wait().expect("it ends").success(), "{kind}: nobody says how it ended");
        place.wait_until_empty().await;
        assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "{kind}: temporary files are left");
    }
}

/// Where commands have a process namespace, the kernel ends them when its first process is gone.
#[tokio::test]
async fn a_command_ends_when_all_that_confines_it_is_killed() {
    in_each_sandbox(
        "all-killed",
        |_| (),
        async |place| {
            if place.landlock().is_some() {
                return;
            }
            let temporary = place.outside.join("temporary");
            fs::create_dir(&temporary).expect("a folder");
            let mut agent = Agent::start(place, &format!("{LEAVING}; sleep 1000"), &[], &temporary);
            place.wait_for_file("started").await;
            let watcher = place.watcher().expect("it watches");
            let stat = fs::read_to_string(format!("/proc/{watcher}/stat")).expect("it runs");
            let keeper = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).expect("a parent");
            // A stopped process cannot end anything.
            for signal in ["-STOP", "-KILL"] {
                let both = [signal, keeper, &watcher.to_string()];
                assert!(Command::new("kill").args(both).status().expect("it is installed").success());
            }
            assert!(!agent.0.wait().expect("it ends").success(), "{}: nobody says how it ended", place.kind);
            place.wait_until_empty().await;
        },
    )
    .await;
}

#[tokio::test]
async fn what_a_command_closes_is_removed() {
    in_each_sandbox(
        "closes",
        |_| (),
        async |place| {
            let temporary = place.outside.join("temporary");
            fs::create_dir(&temporary).expect("a folder");
            let command = "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/f; chmod 500 $TMPDIR/a/b $TMPDIR/a; chmod 0 $TMPDIR; \
                           chmod 0 $TMPDIR/..; true";
            let mut agent = Agent::start(place, command, &[], &temporary);
            assert!(agent.0.wait().expect("it ends").success(), "{}", place.kind);
            assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "{}", place.kind);
        },
    )
    .await;
}

#[tokio::test]
async fn the_agents_environment_and_open_files_stay_its_own() {
    in_each_sandbox(
        "secrets",
        |_| (),
        async |place| {
            let secret = place.secret();
            let command = "env; cat /proc/*/environ /proc/1/environ /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'; \
                       cat <&7; cat <&23; cat /proc/*/fd/7 /proc/*/fd/23; for p in /proc/[0-9]*; do cat $p/fd/23; done";
            let temporary = std::env::temp_dir();
            let opened = ["bash", "-c", "exec 7<\"$0\" 23<\"$0\"; exec \"$@\"", secret.to_str().expect("a path")];
            let mut agent = Agent::start(place, command, &opened, &temporary);
            assert!(agent.0.wait().expect("it ends").success());
            let said = fs::read_to_string(place.outside.join("said")).expect("it says what the command did");
            assert!(said.starts_with("exit_code: ") && said.contains("PEGBOARD_TEST_MARK"), "{}: {said}", place.kind);
            assert!(!said.contains("the-secret") && !said.contains("AGENT_SECRET"), "{}: {said}", place.kind);
        },
    )
    .await;
}

/// A process that orders one command, as an agent would.
struct Agent(Child);

impl Agent {
    /// Starts it; `wrapper` is a command line in front of it.
    fn start(place: &Place, command: &str, wrapper: &[&str], temporary: &Path) -> Self {
        let own = std::env::current_exe().expect("this program");
        let words: Vec<&str> = wrapper.iter().copied().chain([own.to_str().expect("a path")]).collect();
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(["--ignored", "--exact", concat!(module_path!(), "::an_agent").split_once("::").expect("a path").1])
            .env("AGENT_PLACE", format!("{}\n{}\n{}", place.kind, place.mark, place.outside.display()))
            .env("AGENT_COMMAND", command)
            .env("AGENT_SECRET", "the-secret")
            .env("TMPDIR", temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("this program starts"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "the other process of the tests above"]
async fn an_agent() {
    let (Ok(place), Ok(command)) = (std::env::var("AGENT_PLACE"), std::env::var("AGENT_COMMAND")) else { return };
    let mut lines = place.lines();
    let (kind, mark, outside) = (lines.next(), lines.next(), lines.next());
    let outside = Path::new(outside.expect("a folder"));
    let kind = KINDS.into_iter().chain(["none"]).find(|known| kind == Some(known)).expect("a kind");
    let settings = settings(kind, &outside.join("work"), mark.expect("a mark")).expect("it is installed");
    let shell = Shell::new(settings, Some(Program::at(PROGRAM)), None).expect("a shell");
    let ran = shell.run(&command, None).await.expect("it runs");
    fs::write(outside.join("said"), ran.to_string()).expect("a file");
}
