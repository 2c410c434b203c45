//! The file of habits. What each caller learns is tested in `pegboard-gateway`.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};

use super::{Legacy, PATIENCE, Served, command, fixture_path, text};
use crate::harness::Folder;

/// A frequent query; lexical search alone finds `create_issue` first.
const QUERY: &str = "open an issue";

const ISSUE: &str = "create_issue";

const TICKET: &str = "create_ticket";

/// A configuration with two tokens, and a folder for their habits.
struct Stage {
    folder: Folder,
    test: String,
}

impl Stage {
    fn new(test: &str) -> Self {
        let folder = Folder::new(&format!("usage-{test}"));
        let tool = |name: &str, description: &str| {
            json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string()
        };
        let tools = [
            tool(ISSUE, "Open an issue in a repository"),
            tool(TICKET, "Open a ticket about an issue with a customer"),
            tool("list_issues", "List the issues of a repository"),
            tool("send_mail", "Send a mail to a customer"),
        ];
        folder.file("tools.jsonl", tools.join("\n"));
        Self { folder, test: test.to_owned() }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn file(&self) -> PathBuf {
        self.state().join("usage/habits.usage")
    }

    /// Serves in a folder that is the same for every run: it is part of the catalog's identity.
    async fn serve(&self, learning: Value) -> Served {
        let tools = self.folder.path().join("tools.jsonl");
        let mut config = json!({
            "mcpServers": {"desk": {"command": fixture_path(), "args": ["--catalog", tools], "env": {"PASSWORD": "hunter-pass-phrase"}}},
            "pegboard": {
                "exposure": "always",
                "dialect": "bridge",
                "startupWait": 60,
                "usageLearning": learning.clone(),
                "tokens": [{"name": "ann", "token": "secret-token-of-ann"}, {"name": "bob", "token": "secret-token-of-bob"}]
            }
        });
        if learning.is_null() {
            config["pegboard"].as_object_mut().expect("an object").remove("usageLearning");
        }
        let state = self.state();
        let args = ["--state", state.to_str().expect("a path")];
        Served::start_with(&format!("usage-{}", self.test), &config, &args, &[("PEGBOARD_LOG", "debug")]).await
    }

    /// Returns the output of `pegboard usage`.
    async fn usage(&self, args: &[&str]) -> String {
        let mut command = command();
        command.env_remove("PEGBOARD_STATE").arg("usage").args(args).arg("--state").arg(self.state());
        let output = command.output().await.expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Waits until the file holds exactly these habits, each as often as it was practised.
    ///
    /// The gateway writes in the background, a few lessons at a time, and `pegboard usage` prints
    /// the strongest first: a file that is not complete yet has another order.
    async fn wait_until_learned(&self, expected: &[(&str, u64)]) {
        let expected: Vec<String> = expected.iter().map(|(habit, times)| format!("{habit} x{times}")).collect();
        let mut found = Vec::new();
        let waited = async {
            while found != expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let printed = self.usage(&["--format", "json"]).await;
                let habits: Value = serde_json::from_str(&printed).expect("JSON");
                found = habits["habits"].as_array().into_iter().flatten().map(shown).collect();
            }
        };
        let is_learned = tokio::time::timeout(PATIENCE, waited).await.is_ok();
        assert!(is_learned, "expected {expected:?}, found {found:?}");
    }
}

/// Renders a habit as caller, words, tool and how often it was practised.
fn shown(habit: &Value) -> String {
    let [caller, words, tool] = ["caller", "words", "tool"].map(|key| habit[key].as_str().unwrap_or_default());
    let times = habit["strength"].as_f64().unwrap_or_default().round();
    format!("{caller}: {words}: {tool} x{times}")
}

async fn begin(served: &Served, token: &str) -> Legacy {
    Legacy::begin_as(&served.url, "test", json!({}), Some(token)).await
}

/// Returns the tools that a search shows, in their order.
async fn search(session: &Legacy, query: &str) -> Vec<&'static str> {
    let found = text(&session.call("search_tools", json!({"query": query})).await);
    let mut places: Vec<(usize, &str)> = [ISSUE, TICKET, "list_issues", "send_mail"]
        .into_iter()
        .filter_map(|name| found.find(&format!("{name}(")).map(|at| (at, name)))
        .collect();
    places.sort_unstable();
    places.into_iter().map(|(_, name)| name).collect()
}

async fn call(session: &Legacy, tool: &str) {
    let called = session.call("call_tool", json!({"name": tool, "arguments": {}})).await;
    assert_ne!(called.result()["isError"], true, "{called:?}");
}

/// How often [`practise`] repeats.
const TIMES: u64 = 8;

/// Searches and calls, several times.
async fn practise(session: &Legacy, query: &str, tool: &str) {
    for _ in 0..TIMES {
        search(session, query).await;
        call(session, tool).await;
    }
}

async fn end(mut served: Served) {
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
}

#[tokio::test]
async fn habits_outlive_a_restart_and_hold_no_secrets() {
    let stage = Stage::new("tokens");
    let served = stage.serve(json!(true)).await;
    let (ann, bob) = (begin(&served, "secret-token-of-ann").await, begin(&served, "secret-token-of-bob").await);
    let before = search(&bob, QUERY).await;
    assert_eq!(before[..2], [ISSUE, TICKET]);
    practise(&ann, "open an issue. open issue secret-token-of-bob hunter-pass-phrase", TICKET).await;
    assert_eq!(search(&ann, QUERY).await[0], TICKET);
    stage.wait_until_learned(&[("ann: issu open: desk/create_ticket", TIMES)]).await;
    end(served).await;

    let written = fs::read_to_string(stage.file()).expect("a file");
    assert!(!["secret-", "hunter-", QUERY].iter().any(|text| written.contains(text)), "{written}");
    let served = stage.serve(json!({"halfLifeDays": 60})).await;
    assert_eq!(search(&begin(&served, "secret-token-of-ann").await, QUERY).await[0], TICKET);
    assert_eq!(search(&begin(&served, "secret-token-of-bob").await, QUERY).await, before);
}

#[tokio::test]
async fn off_by_default() {
    let stage = Stage::new("off");
    for learning in [json!(false), Value::Null] {
        let served = stage.serve(learning).await;
        let ann = begin(&served, "secret-token-of-ann").await;
        practise(&ann, QUERY, TICKET).await;
        assert_eq!(search(&ann, QUERY).await[0], ISSUE);
        end(served).await;
        assert!(!stage.state().join("usage").exists());
    }
    assert!(stage.usage(&["--format", "text"]).await.contains("no usage has been learned"));
}

#[tokio::test]
async fn a_running_gateway_forgets() {
    let stage = Stage::new("reset");
    let served = stage.serve(json!(true)).await;
    let (ann, bob) = (begin(&served, "secret-token-of-ann").await, begin(&served, "secret-token-of-bob").await);
    practise(&ann, QUERY, TICKET).await;
    practise(&bob, QUERY, TICKET).await;
    let both = ["ann", "bob"].map(|caller| format!("{caller}: issu open: desk/create_ticket"));
    stage.wait_until_learned(&[(&both[0], TIMES), (&both[1], TIMES)]).await;
    assert!(stage.usage(&["--reset", "--caller", "ann", "--format", "text"]).await.contains("1 habit deleted"));
    let forgotten = async {
        while search(&ann, QUERY).await[0] != ISSUE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, forgotten).await.expect("it is forgotten");
    assert_eq!(search(&bob, QUERY).await[0], TICKET);
    stage.wait_until_learned(&[(&both[1], TIMES)]).await;
    // And learns anew.
    practise(&ann, QUERY, TICKET).await;
    assert_eq!(search(&ann, QUERY).await[0], TICKET);
    // After learning is switched off, no caller has habits any more.
    let file = served.folder().join("pegboard.json");
    let config = fs::read_to_string(file).expect("a file").replace("\"usageLearning\":true", "\"usageLearning\":false");
    assert!(served.reconfigure(&config).await);
    assert_eq!(search(&begin(&served, "secret-token-of-bob").await, QUERY).await[0], ISSUE);
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_a_whole_file() {
    let stage = Stage::new("killed");
    for round in 0..6 {
        let mut served = stage.serve(json!(true)).await;
        let ann = begin(&served, "secret-token-of-ann").await;
        let (pid, file) = (served.pid(), stage.file());
        let written = move || fs::metadata(&file).and_then(|data| data.modified()).ok();
        let before = written();
        // At another moment each time, in the middle of what is written all the time.
        let killed = tokio::spawn(async move {
            while written() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(37 * round)).await;
            super::kill(pid, "KILL");
        });
        for number in 0.. {
            let search =
                ann.try_call("search_tools", json!({"query": format!("open issue for customer {number} x{number}y")}));
            let Some(_) = search.await else { break };
            let Some(_) = ann.try_call("call_tool", json!({"name": TICKET, "arguments": {}})).await else { break };
        }
        killed.await.expect("it is killed");
        served.wait_for_exit().await;
        let printed = stage.usage(&["--format", "json"]).await;
        assert!(serde_json::from_str::<Value>(&printed).is_ok(), "{printed}");
    }
    assert!(!stage.state().join("usage/habits.damaged").exists());
    assert!(stage.file().exists(), "something was learned before the end");
}

#[tokio::test]
async fn a_damaged_file_is_put_aside() {
    let stage = Stage::new("damaged");
    let served = stage.serve(json!(true)).await;
    practise(&begin(&served, "secret-token-of-ann").await, QUERY, TICKET).await;
    stage.wait_until_learned(&[("ann: issu open: desk/create_ticket", TIMES)]).await;
    end(served).await;
    let mut bytes = fs::read(stage.file()).expect("a file");
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    fs::write(stage.file(), &bytes).expect("written");
    let served = stage.serve(json!(true)).await;
    served.wait_for_log("learned usage is unreadable; moved to").await;
    let ann = begin(&served, "secret-token-of-ann").await;
    assert_eq!(search(&ann, QUERY).await[0], ISSUE);
    assert_eq!(fs::read(stage.state().join("usage/habits.damaged")).expect("put aside"), bytes);
    practise(&ann, QUERY, TICKET).await;
    stage.wait_until_learned(&[("ann: issu open: desk/create_ticket", TIMES)]).await;
}
