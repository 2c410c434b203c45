//! Start-up from cached tool lists, lazy servers, and servers that do not answer.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{PATIENCE, Served, fixture_path, is_running, kill, names, text, wait_until_gone};

/// A folder of one test, with a state folder that outlives each gateway.
pub(super) struct Stage {
    folder: PathBuf,
    test: &'static str,
}

impl Stage {
    pub(super) fn new(test: &'static str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("starting-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self { folder, test }
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Starts a gateway that keeps its state here.
    pub(super) async fn serve(&self, config: &Value) -> Served {
        self.serve_as("one", config).await
    }

    /// [`serve`](Self::serve) for several at a time.
    pub(super) async fn serve_as(&self, name: &str, config: &Value) -> Served {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-starting-{}-{name}", self.test));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        let file = folder.join("pegboard.json");
        fs::write(&file, config.to_string()).expect("a temporary file");
        let (file, state) = (file.to_str().expect("a path").to_owned(), self.state());
        Served::spawn(folder, &[&file, "--state", state.to_str().expect("a path")], "127.0.0.1:0").await
    }

    /// Creates a server whose behaviour can be changed without changing its configuration.
    pub(super) fn controlled_server(&self, name: &str, args: &str) -> ControlledServer {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        let script = format!(
            "echo $$ >> '{0}/pids'\nwhile [ -e '{0}/hold' ]; do sleep 0.02; done\nexec '{1}' $(cat '{0}/args')\n",
            folder.display(),
            fixture_path().display()
        );
        fs::write(folder.join("server.sh"), script).expect("a file");
        let puppet = ControlledServer(folder);
        puppet.set_args(args);
        puppet
    }

    /// Returns the existing manifests.
    fn manifests(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("manifests")).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "manifest")).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A server that the test controls.
pub(super) struct ControlledServer(PathBuf);

impl ControlledServer {
    /// Returns its entry in a configuration, which never changes.
    pub(super) fn entry(&self) -> Value {
        json!({"command": "/bin/sh", "args": [self.0.join("server.sh")]})
    }

    /// Sets the arguments of the fixture from now on.
    pub(super) fn set_args(&self, args: &str) {
        fs::write(self.0.join("args"), args).expect("a file");
    }

    /// Lets it start without answering.
    pub(super) fn hold(&self) {
        fs::write(self.0.join("hold"), "").expect("a file");
    }

    pub(super) fn release(&self) {
        fs::remove_file(self.0.join("hold")).expect("it was held");
    }

    /// Returns the processes that it was started as so far.
    pub(super) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.0.join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Stops a gateway as an operator would.
pub(super) async fn end(mut served: Served) {
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
}

fn config(servers: &Value) -> Value {
    json!({"mcpServers": servers, "pegboard": {"exposure": "never", "startupWait": 60}})
}

/// Returns a configuration without time for servers to start.
fn impatient(servers: &Value) -> Value {
    json!({"mcpServers": servers, "pegboard": {"exposure": "never", "startupWait": 0}})
}

pub(super) async fn tools(served: &Served) -> Vec<String> {
    names(&served.legacy().await.request("tools/list", json!({})).await, "tools")
}

#[tokio::test]
async fn what_was_kept_answers_before_servers_do() {
    let stage = Stage::new("kept");
    let (one, two) = (stage.controlled_server("one", "--extras"), stage.controlled_server("two", "--tools 50"));
    let servers = json!({"one": one.entry(), "two": two.entry()});
    let served = stage.serve(&config(&servers)).await;
    let session = served.legacy().await;
    let lists = async |session: &super::Legacy| {
        let mut lists = Vec::new();
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            lists.push(session.request(method, json!({})).await.result().clone());
        }
        lists
    };
    let (hello, fresh) = (session.hello.clone(), lists(&session).await);
    assert!(fresh[0]["tools"].as_array().is_some_and(|tools| tools.len() > 70));
    end(served).await;
    assert_eq!(stage.manifests().len(), 2);

    one.hold();
    two.hold();
    let served = stage.serve(&config(&servers)).await;
    let session = served.legacy().await;
    assert_eq!(session.hello, hello, "instructions come from the servers as well");
    assert_eq!(lists(&session).await, fresh);
    // Neither has said a word.
    assert!(!served.log().contains("server ready"), "{}", served.log());
    // A call waits for its server.
    let call = session.call("one___echo", json!({"message": "at last"}));
    let release = async {
        served.wait_for_log("cached tool list loaded").await;
        one.release();
    };
    let (reply, ()) = tokio::join!(call, release);
    assert!(text(&reply).contains("at last"), "{reply:?}");
    end(served).await;

    // Searches too.
    one.hold();
    let searching = json!({"mcpServers": servers, "pegboard": {"dialect": "bridge"}});
    let served = stage.serve(&searching).await;
    let session = served.legacy().await;
    let found = session.call("search_tools", json!({"query": "echo a message"})).await;
    assert!(text(&found).contains("echo"), "{found:?}");
    assert!(!served.log().contains("server ready"), "{}", served.log());
}

#[tokio::test]
async fn another_configuration_does_not_use_it() {
    let stage = Stage::new("changed");
    let one = stage.controlled_server("one", "--extras");
    let with = |env: Value| {
        let mut entry = one.entry();
        entry["env"] = env;
        json!({"one": entry})
    };
    let served = stage.serve(&config(&with(json!({"TOKEN": "a"})))).await;
    assert!(!tools(&served).await.is_empty());
    end(served).await;
    one.hold();
    let served = stage.serve(&impatient(&with(json!({"TOKEN": "b"})))).await;
    assert_eq!(tools(&served).await, Vec::<String>::new());
    end(served).await;
    // Cached tools need no waiting.
    let served = stage.serve(&config(&with(json!({"TOKEN": "a"})))).await;
    assert!(!tools(&served).await.is_empty());
    // Switched off, nothing is read.
    let mut off = impatient(&with(json!({"TOKEN": "a"})));
    off["pegboard"]["stateFolder"] = json!("none");
    let folder = stage.folder.join("off");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("pegboard.json");
    fs::write(&file, off.to_string()).expect("a file");
    let mut command = super::command();
    command.env_remove("PEGBOARD_STATE").env("XDG_STATE_HOME", &folder).arg("serve").arg(file);
    let mut child = command.args(["--listen", "127.0.0.1:0"]).stderr(std::process::Stdio::piped()).spawn().expect("it");
    let log = super::follow(child.stderr.take().expect("a pipe"));
    let listens = |log: &String| log.contains("listening");
    tokio::time::timeout(PATIENCE, log.clone().wait_for(listens)).await.expect("in time").expect("a log");
    kill(child.id().expect("it runs"), "TERM");
    child.wait().await.expect("it ends");
    assert!(!folder.join("pegboard").exists());
}

/// Returns the notifications on a session's stream up to one for prompts, which `mark` brings
/// about.
async fn read_notifications(events: &mut super::client::Events) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let method = events.message().await["method"].as_str().unwrap_or_default().to_owned();
        if method == "notifications/prompts/list_changed" {
            return seen;
        }
        seen.push(method);
    }
}

#[tokio::test]
async fn what_is_stale_is_corrected_and_announced_once() {
    for (test, now, expected) in [
        ("stale", "--extras --tools 3", vec!["notifications/tools/list_changed"]),
        ("fresh", "--extras --tools 2", vec![]),
    ] {
        let stage = Stage::new(test);
        let one = stage.controlled_server("one", "--extras --tools 2");
        let servers = json!({"one": one.entry()});
        let served = stage.serve(&config(&servers)).await;
        let before = tools(&served).await;
        end(served).await;
        one.set_args(now);
        one.hold();
        let served = stage.serve(&config(&servers)).await;
        let session = served.legacy().await;
        assert_eq!(names(&session.request("tools/list", json!({})).await, "tools"), before);
        let mut events = session.stream().await;
        one.release();
        served.wait_for_log("server ready").await;
        // A change that is always announced, after all effects of the connection.
        session.call("test_trigger_prompt_change", json!({})).await.result();
        assert_eq!(read_notifications(&mut events).await, expected, "{test}");
        let after = names(&session.request("tools/list", json!({})).await, "tools");
        assert_eq!(after.len(), before.len() + expected.len());
        end(served).await;
        // The corrected list is cached.
        one.hold();
        let served = stage.serve(&config(&servers)).await;
        assert_eq!(tools(&served).await, after);
    }
}

#[tokio::test]
async fn a_lazy_server_starts_when_it_is_called() {
    let stage = Stage::new("lazy");
    // A server of both eras would have a second process for legacy clients.
    let one = stage.controlled_server("one", "--era legacy --extras");
    let mut entry = one.entry();
    entry["idleTimeout"] = json!("300ms");
    let mut config = config(&json!({"one": entry}));
    config["pegboard"]["lazy"] = json!(true);
    // The first time it has to be asked what it offers, and once more for what the first client can be asked for.
    let served = stage.serve(&config).await;
    let listed = tools(&served).await;
    assert!(!listed.is_empty());
    assert_eq!(one.pids().len(), 2);
    for pid in one.pids() {
        wait_until_gone(pid).await;
    }
    assert!(text(&served.legacy().await.call("echo", json!({"message": "again"})).await).contains("again"));
    assert_eq!(one.pids().len(), 3);
    end(served).await;

    let served = stage.serve(&config).await;
    let session = served.legacy().await;
    assert_eq!(names(&session.request("tools/list", json!({})).await, "tools"), listed);
    served.wait_for_log("(cached lists of 1 server)").await;
    assert_eq!(one.pids().len(), 3, "nobody has called it");
    let reply = session.call("echo", json!({"message": "hello"})).await;
    assert!(text(&reply).contains("hello"), "{reply:?}");
    assert_eq!(one.pids().len(), 4);
    served.wait_for_log("idle server stopped").await;
    wait_until_gone(one.pids()[3]).await;
    // Prompts and resources start it as well.
    let prompt = session.request("prompts/get", json!({"name": "test_simple_prompt"})).await;
    assert!(prompt.result()["messages"].is_array());
    assert_eq!(one.pids().len(), 5);
    // The setting of one server takes precedence, and does not affect others.
    let mut eager = config.clone();
    eager["mcpServers"]["one"]["lazy"] = json!(false);
    end(served).await;
    let served = stage.serve(&eager).await;
    served.wait_for_log("server ready").await;
    assert_eq!(one.pids().len(), 6);
}

#[tokio::test]
async fn a_damaged_manifest_is_as_good_as_none() {
    let stage = Stage::new("damaged");
    let one = stage.controlled_server("one", "--extras");
    let servers = json!({"one": one.entry()});
    let served = stage.serve(&config(&servers)).await;
    let listed = tools(&served).await;
    end(served).await;
    let file = stage.manifests().pop().expect("a manifest");
    let content = fs::read(&file).expect("a file");
    fs::write(&file, &content[..content.len() / 2]).expect("a file");
    one.hold();
    let served = stage.serve(&impatient(&servers)).await;
    served.wait_for_log("cached tool list not used").await;
    assert_eq!(tools(&served).await, Vec::<String>::new());
    one.release();
    served.wait_for_log("server ready").await;
    end(served).await;
    one.hold();
    let served = stage.serve(&config(&servers)).await;
    assert_eq!(tools(&served).await, listed, "it was written anew");
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_a_warning() {
    let stage = Stage::new("blocked");
    fs::write(stage.state(), "a file where the folder should be").expect("a file");
    let servers = json!({"one": stage.controlled_server("one", "--extras").entry(), "two": stage.controlled_server("two", "").entry()});
    let served = stage.serve(&config(&servers)).await;
    assert!(!tools(&served).await.is_empty());
    let warning = "cannot cache tool lists";
    served.wait_for_log(warning).await;
    assert_eq!(served.log().matches(warning).count(), 1);
    end(served).await;

    // The folder is there, and nothing can be put in the place of the manifests.
    fs::remove_file(stage.state()).expect("it is there");
    let served = stage.serve(&config(&servers)).await;
    let listed = tools(&served).await;
    end(served).await;
    for file in stage.manifests() {
        fs::remove_file(&file).expect("it is there");
        fs::create_dir_all(file.join("in the way")).expect("a folder");
    }
    let mut served = stage.serve(&config(&servers)).await;
    assert_eq!(tools(&served).await, listed);
    served.wait_for_log(warning).await;
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
    let warnings = served.log().lines().filter(|line| line.contains(warning)).count();
    assert_eq!(warnings, 1, "{}", served.log());
}

#[tokio::test]
async fn two_gateways_share_a_folder() {
    let stage = Stage::new("shared");
    let (one, two) = (stage.controlled_server("one", "--extras"), stage.controlled_server("two", "--tools 200"));
    let servers = json!({"one": one.entry(), "two": two.entry()});
    let config = config(&servers);
    let (first, second) = tokio::join!(stage.serve_as("one", &config), stage.serve_as("two", &config));
    let listed = tools(&first).await;
    assert_eq!(tools(&second).await, listed);
    tokio::join!(end(first), end(second));
    assert_eq!(stage.manifests().len(), 2);
    one.hold();
    two.hold();
    let (first, second) = tokio::join!(stage.serve_as("one", &config), stage.serve_as("two", &config));
    assert_eq!(tools(&first).await, listed);
    assert_eq!(tools(&second).await, listed);
}

/// Killed while it writes, a gateway leaves the old manifest or the new one.
#[tokio::test]
async fn a_kill_in_mid_write_leaves_old_or_new() {
    let stage = Stage::new("killed");
    let one = stage.controlled_server("one", "--extras --tools 2000");
    let servers = json!({"one": one.entry()});
    let served = stage.serve(&config(&servers)).await;
    let mut counts = vec![tools(&served).await.len()];
    end(served).await;
    for more in [2500, 3000, 3500] {
        one.set_args(&format!("--extras --tools {more}"));
        let file = stage.manifests().pop().expect("a manifest");
        let before = fs::metadata(&file).map(|data| data.len()).ok();
        let mut served = stage.serve(&config(&servers)).await;
        let began = Instant::now();
        // The moment may be missed; then the new one must be there.
        let has_written = || {
            let entries = fs::read_dir(stage.state().join("manifests")).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let size = fs::metadata(&file).map(|data| data.len()).ok();
            size != before || names.into_iter().any(|name| name.starts_with(".writing"))
        };
        while !has_written() {
            assert!(began.elapsed() < PATIENCE, "nothing is written");
            tokio::task::yield_now().await;
        }
        served.signal("KILL");
        served.wait_for_exit().await;
        counts.push(counts[0] + more - 2000);
        one.hold();
        let served = stage.serve(&config(&servers)).await;
        let found = tools(&served).await.len();
        assert!(counts.contains(&found), "{found} is none of {counts:?}");
        end(served).await;
        one.release();
    }
}

/// A server that never answers is waited for once, and not at every start.
#[tokio::test]
async fn a_silent_server_keeps_nobody_waiting_twice() {
    let stage = Stage::new("silent");
    let silent = stage.controlled_server("silent", "--fault hang");
    let mut entry = silent.entry();
    entry["connectTimeout"] = json!("300ms");
    let mut config = config(&json!({"silent": entry, "good": stage.controlled_server("good", "--extras").entry()}));
    let served = stage.serve(&config).await;
    served.wait_for_log("not ready within 0.3 s").await;
    let listed = tools(&served).await;
    end(served).await;
    // It may now take longer than any client waits.
    config["mcpServers"]["silent"]["connectTimeout"] = json!(600);
    config["pegboard"]["startupWait"] = json!(600);
    let served = stage.serve(&config).await;
    assert_eq!(tools(&served).await, listed);
    end(served).await;
    silent.set_args("--tools 3");
    let served = stage.serve(&config).await;
    served.wait_for_log("server ready server=\"silent\"").await;
    end(served).await;
    silent.hold();
    let served = stage.serve(&config).await;
    let now = tools(&served).await;
    assert!(now.iter().any(|name| name == "silent___tool_00002"), "it has answered, and is known now: {now:?}");
}

#[tokio::test]
async fn a_server_that_hangs_slows_nobody_and_is_left_alone() {
    let stage = Stage::new("hangs");
    let (stuck, silent) = (stage.controlled_server("stuck", "--extras"), stage.controlled_server("silent", "--extras"));
    let mut entry = stuck.entry();
    entry["timeout"] = json!("10s");
    entry["circuitBreaker"] = json!({"failures": 3, "pause": "15s"});
    let servers =
        json!({"stuck": entry, "silent": silent.entry(), "good": stage.controlled_server("good", "--extras").entry()});
    let served = stage.serve(&config(&servers)).await;
    tools(&served).await;
    end(served).await;
    // From now on one never connects, and another never answers.
    silent.set_args("--fault hang");
    let served = stage.serve(&config(&servers)).await;
    let session = served.legacy().await;
    assert!(text(&session.call("stuck___echo", json!({"message": "hi"})).await).contains("hi"));
    // Its catalog connection may start after the call, and in a process of its own.
    served.wait_for_log("server ready server=\"stuck\"").await;
    let pids: Vec<u32> = stuck.pids().into_iter().filter(|pid| is_running(*pid)).collect();
    assert!(!pids.is_empty(), "it runs");
    pids.iter().for_each(|pid| kill(*pid, "STOP"));
    let waiting = session.call("silent___echo", json!({"message": "nobody hears this"}));
    let others = async {
        // A list and a call of other servers, while calls of both wait: all of them begin at once,
        // and those without a wait end first.
        let ended = std::cell::RefCell::new(Vec::new());
        let noted = async |name: &'static str, reply: super::Reply| {
            ended.borrow_mut().push(name);
            reply
        };
        let hang = async || noted("hang", session.call("stuck___echo", json!({})).await).await;
        let (one, two, three, listed, called) = tokio::join!(
            hang(),
            hang(),
            hang(),
            async { noted("list", session.request("tools/list", json!({})).await).await },
            async { noted("call", session.call("good___echo", json!({"message": "quick"})).await).await },
        );
        for reply in [one, two, three] {
            assert!(text(&reply).contains("no response within 10 s"), "{reply:?}");
        }
        assert!(text(&called).contains("quick"));
        assert!(!names(&listed, "tools").is_empty());
        assert_eq!(ended.borrow()[2..], ["hang"; 3]);
        // Three in a row were enough: it is not asked, or there would be no answer again.
        let refused = session.call("stuck___echo", json!({})).await;
        assert!(text(&refused).contains("the last 3 calls failed (no response within 10 s)"), "{refused:?}");
        assert!(text(&refused).contains("; try again in "), "{refused:?}");
    };
    tokio::select! {
        reply = waiting => panic!("a server that is silent answers: {reply:?}"),
        () = others => {}
    }
    pids.iter().for_each(|pid| kill(*pid, "CONT"));
    loop {
        let reply = session.call("stuck___echo", json!({"message": "back"})).await;
        if reply.result()["isError"] != true {
            assert!(text(&reply).contains("back"));
            break;
        }
        assert!(text(&reply).contains("circuit breaker open"), "{reply:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    served.wait_for_log("circuit breaker closed").await;
    assert!(pids.iter().all(|pid| is_running(*pid)), "it was never restarted");
}
