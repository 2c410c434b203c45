//! Records of searches and calls.

use std::{fs, path::PathBuf};

use pegboard_discovery::DialectName;
use pegboard_gateway::{
    Profile,
    record::{RecordWriter, Recorder},
};
use serde_json::{Value, json};

use super::world::{Folder, Server, World, settings, tool};

/// What arguments hold, and no record may.
const PRIVATE: &str = "my-private-words";

/// A record of several runs.
struct Stage(Folder);

impl Stage {
    fn new(test: &str) -> Self {
        Self(Folder::new(&format!("record-{test}")))
    }

    fn record(&self) -> PathBuf {
        self.0.path().join("record.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.record()).expect("a record")
    }

    /// The lines that can be read.
    fn lines(&self) -> Vec<Value> {
        self.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many lines of each kind there are: `begin`, `tool`, `search`, `call`.
    fn counts(&self) -> [usize; 4] {
        let lines = self.lines();
        ["begin", "tool", "search", "call"].map(|kind| lines.iter().filter(|line| line.get(kind).is_some()).count())
    }

    /// A gateway that records, to at most so many bytes.
    async fn world(&self, limit: u64) -> (World, RecordWriter) {
        let tools = vec![
            tool("echo", "Returns its arguments as they came"),
            tool("slow", "Sleeps and reports progress"),
            tool("mail", "Sends a mail"),
        ];
        let bridge = settings(Profile::Dialect(DialectName::Bridge));
        let world = World::new(vec![Server::with(tools).config("one")], bridge).await;
        let (recorder, writing) = Recorder::open(self.record(), limit).expect("a record");
        world.gateway.record_to(recorder);
        (world, writing)
    }
}

/// Waits until everything is written.
async fn end((world, writing): (World, RecordWriter)) {
    world.gateway.stop_recording();
    tokio::task::spawn_blocking(|| writing.finish()).await.expect("it is written");
}

#[tokio::test]
async fn searches_and_calls_are_recorded_without_arguments() {
    let stage = Stage::new("whole");
    let (world, writing) = stage.world(1 << 20).await;
    let session = world.legacy().await;
    let queries = r#"{"queries":["returns its arguments as they came","sleeps and reports progress"]}"#;
    assert!(session.call("search_tools", queries).await.contains("echo("));
    let call = json!({"name": "echo", "arguments": {"text": PRIVATE}});
    assert_eq!(session.call("call_tool", &call.to_string()).await, "done");
    session.call("search_tools", r#"{"query":"nothing of the kind"}"#).await;
    // One client without a session.
    let search = json!({"name": "search_tools", "arguments": {"query": "its arguments back"}});
    world.modern("tools/call", search).await;
    world.modern("tools/call", json!({"name": "call_tool", "arguments": call})).await;
    let id = session.id().to_owned();
    end((world, writing)).await;
    let text = stage.text();
    assert!(!text.contains(PRIVATE) && !text.contains(&id), "{text}");
    assert_eq!(stage.counts(), [1, 3, 4, 2], "{text}");
    let lines = stage.lines();
    let searches: Vec<&Value> = lines.iter().filter_map(|line| line.get("search")).collect();
    assert_eq!(searches[0]["conversation"], searches[1]["conversation"]);
    assert_ne!(searches[0]["conversation"], searches[3]["conversation"]);
    assert_eq!((searches[0].get("isGuess"), &searches[3]["isGuess"]), (None, &json!(true)));
    assert!(searches[0]["offered"].as_array().is_some_and(|ids| ids.contains(&json!("one/echo"))), "{searches:?}");

    // Another run goes on with the same file, and does not repeat the tools. A line that was cut
    // in the middle is lost alone.
    let cut = text.trim_end();
    fs::write(stage.record(), &cut[..cut.len() - 5]).expect("a file");
    let (world, writing) = stage.world(1 << 20).await;
    let session = world.legacy().await;
    session.call("search_tools", r#"{"query":"as they came"}"#).await;
    session.call("call_tool", r#"{"name":"echo","arguments":{}}"#).await;
    end((world, writing)).await;
    assert_eq!(stage.counts(), [2, 3, 5, 2], "{}", stage.text());
}

#[cfg(unix)]
#[tokio::test]
async fn a_record_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::new("private");
    end(stage.world(1 << 20).await).await;
    assert_eq!(fs::metadata(stage.record()).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_record_stops_at_its_limit() {
    let stage = Stage::new("limit");
    let (world, writing) = stage.world(400).await;
    world.legacy().await.call("search_tools", r#"{"query":"echo"}"#).await;
    end((world, writing)).await;
    let text = stage.text();
    assert!(text.len() <= 400 && text.ends_with('\n'), "{text}");
    let [begins, tools, searches, calls] = stage.counts();
    assert!(begins == 1 && (1..3).contains(&tools) && searches + calls == 0, "{text}");
}

#[tokio::test]
async fn other_files_are_not_taken_for_records() {
    let stage = Stage::new("other");
    fs::write(stage.record(), "buy milk\n").expect("a file");
    let error = Recorder::open(stage.record(), 1 << 20).expect_err("it is something else");
    assert!(error.to_string().contains("is not a record"), "{error}");
    assert_eq!(stage.text(), "buy milk\n");
}
