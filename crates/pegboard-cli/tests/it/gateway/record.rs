//! `pegboard serve --record` and `pegboard eval` of it. The recorded content is tested in
//! `pegboard-gateway`.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::{Served, command, fixture, text};
use crate::harness::{Folder, json as json_of};

/// A folder for a record of several runs.
struct Stage(Folder);

impl Stage {
    fn new(test: &str) -> Self {
        Self(Folder::new(&format!("record-{test}")))
    }

    fn record(&self) -> PathBuf {
        self.0.path().join("record.jsonl")
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.record()).expect("a record");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn count(&self, kind: &str) -> usize {
        self.lines().iter().filter(|line| line.get(kind).is_some()).count()
    }

    async fn serve(&self, run: &str, more: &[&str]) -> Served {
        let folder = self.0.path().join(run);
        fs::create_dir_all(&folder).expect("a folder");
        let config = json!({
            "mcpServers": {"one": fixture(&["--extras"])},
            "pegboard": {"exposure": "always", "dialect": "bridge"}
        });
        let file = folder.join("pegboard.json");
        fs::write(&file, config.to_string()).expect("a file");
        let (file, record) = (file.to_str().expect("a path").to_owned(), self.record());
        let args = [&[file.as_str(), "--record", record.to_str().expect("a path")], more].concat();
        Served::spawn(folder, &args, "127.0.0.1:0").await
    }
}

async fn end(mut served: Served) {
    served.signal("TERM");
    assert_eq!(served.wait_for_exit().await, Some(0));
}

#[tokio::test]
async fn a_record_of_two_runs_can_be_measured() {
    let stage = Stage::new("whole");
    for (run, query) in [("first", "returns its arguments as they came"), ("second", "as they came")] {
        let served = stage.serve(run, &[]).await;
        let session = served.legacy().await;
        let found = session.call("search_tools", json!({"query": query})).await;
        assert!(text(&found).contains("echo"), "{found:?}");
        session.call("call_tool", json!({"name": "echo", "arguments": {}})).await.result();
        session.call("search_tools", json!({"query": "nothing of the kind"})).await.result();
        end(served).await;
    }
    assert_eq!((stage.count("begin"), stage.count("search"), stage.count("call")), (2, 4, 2));
    // A gateway that was killed in the middle of a line has spoiled that line alone.
    let record = fs::read_to_string(stage.record()).expect("a record");
    fs::write(stage.record(), &record[..record.len() - 5]).expect("a file");
    let output = stage.0.run(&["eval", "record.jsonl", "--format", "json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.contains("one line of") && error.contains("2 of 3 searches led to a call"), "{error}");
    let report = json_of(&output);
    assert_eq!((&report["tools"], &report["queries"]), (&json!(stage.count("tool")), &json!(2)));
    assert_eq!(report["rankers"]["hybrid"]["recall@10"], json!(1), "{report}");
}

#[tokio::test]
async fn a_record_stops_at_its_limit() {
    let stage = Stage::new("limit");
    let served = stage.serve("one", &["--record-limit", "600"]).await;
    served.wait_for_log("recording stopped: size limit reached").await;
    let session = served.legacy().await;
    session.call("search_tools", json!({"query": "echo"})).await.result();
    let log = served.log();
    end(served).await;
    assert_eq!(log.matches("size limit reached").count(), 1, "{log}");
    let text = fs::read_to_string(stage.record()).expect("a record");
    assert!(text.len() <= 600 && text.ends_with('\n') && stage.count("search") == 0, "{text}");
}

#[tokio::test]
async fn other_files_are_left_alone() {
    let stage = Stage::new("other");
    stage.0.file("notes.txt", "buy milk\n");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--record", "notes.txt"]).current_dir(stage.0.path());
    let output = serve.output().await.expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("`notes.txt` is not a record"), "{error}");
    assert_eq!(fs::read_to_string(stage.0.path().join("notes.txt")).expect("a file"), "buy milk\n");
    let output = stage.0.run(&["eval", "notes.txt"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("is not a record"), "{error}");
}
