//! Queries of offloaded outputs, through the real binary.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use pegboard_agent::{
    Program,
    outputs::{OutputSettings, Outputs, QueryLimits, ReadError},
};
use pegboard_discovery::HostTool;
use serde_json::{Value, json};

/// A folder for each test, and a conversation in it.
struct Case {
    folder: PathBuf,
    outputs: Outputs,
}

impl Case {
    fn new(test: &str) -> Self {
        Self::with(test, |_| {})
    }

    fn with(test: &str, change: impl FnOnce(&mut OutputSettings)) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("outputs_{test}"));
        // Left over from a run that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        let mut settings = OutputSettings::new(&folder);
        change(&mut settings);
        let program = Program::at(env!("CARGO_BIN_EXE_pegboard"));
        let outputs = Outputs::new(settings, "chat", Some(program)).expect("outputs");
        Self { folder, outputs }
    }

    async fn store(&self, text: &str) -> String {
        let offloaded = self.outputs.store("list", text.to_owned()).await.expect("an output");
        offloaded.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    async fn query(&self, filename: &str, query: &str, more: Value) -> Result<String, ReadError> {
        self.ask(HostTool::QueryLargeOutput, filename, query, more).await
    }

    async fn ask(&self, tool: HostTool, filename: &str, query: &str, more: Value) -> Result<String, ReadError> {
        let mut arguments = json!({"filename": filename, "query": query, "operation": "query"});
        for (key, value) in more.as_object().into_iter().flatten() {
            arguments[key] = value.clone();
        }
        self.outputs.call_tool(tool, &arguments).await
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const ITEMS: &str = r#"{"items":[{"name":"ä","n":1},{"name":"b","n":2}]}"#;

#[tokio::test]
async fn results_are_printed_as_jq_prints_them() {
    let case = Case::new("print");
    let name = case.store(ITEMS).await;
    let check = async |query: &str, more: Value, expected: &str| {
        for tool in [HostTool::QueryLargeOutput, HostTool::SearchLargeOutput] {
            let answer = case.ask(tool, &name, query, more.clone()).await;
            assert_eq!(answer.expect("an answer"), expected, "{query}");
        }
    };
    check(".items[0]", json!({}), "{\n  \"name\": \"ä\",\n  \"n\": 1\n}").await;
    check(".items[]", json!({"compact": true}), "{\"name\":\"ä\",\"n\":1}\n{\"name\":\"b\",\"n\":2}").await;
    check(".items[].name", json!({}), "\"ä\"\n\"b\"").await;
    check(".items[].name", json!({"raw": true}), "ä\nb").await;
    check("-1", json!({}), "-1").await;
    check("empty", json!({}), "").await;
}

#[tokio::test]
async fn several_documents_are_queried_one_after_the_other() {
    let case = Case::new("documents");
    let name = case.store("{\"a\":1}\n{\"a\":2}\n").await;
    assert_eq!(case.query(&name, ".a", json!({})).await.expect("an answer"), "1\n2");
    let name = case.store("{\"a\":1}\nand then text").await;
    let answer = case.query(&name, ".a", json!({})).await.expect("an answer");
    assert!(answer.starts_with("1\n[Stopped here: the output is not JSON: byte offset 8"), "{answer}");
}

#[tokio::test]
async fn failures_are_told_and_nothing_is_harmed() {
    let change = |settings: &mut OutputSettings| {
        settings.query = QueryLimits {
            memory_bytes: 512 << 20,
            cpu: Duration::from_secs(2),
            wall: Duration::from_secs(120),
            ..QueryLimits::default()
        };
    };
    let case = Case::with("failures", change);
    let json = case.store(ITEMS).await;
    let text = case.store("just words").await;
    let deep = case.store(&("[".repeat(2_000_000) + &"]".repeat(2_000_000))).await;
    let check = async |name: &str, query: &str, expected: &str| {
        let error = case.query(name, query, json!({})).await.expect_err("an error").to_string();
        assert!(error.starts_with(expected), "{query:.50}: {error}");
        assert!(error.len() < 2000);
    };
    check(&json, "def f: 1+f; f", "the filter used more than 64 MiB of stack").await;
    check(&json, "def f: f; f", "the filter used more than 2 s").await;
    check(&json, "last(range(1e12))", "the filter used more than 2 s").await;
    check(&json, "\"x\" * 1000000000000 | length", "the filter").await;
    check(&json, "reduce range(40) as $i (\"0123456789\"; . + .)", "the filter used more than 512 MiB of memory").await;
    check(&deep, "length", "the filter used more than 64 MiB of stack").await;
    check(&text, ".", "the output is not JSON: byte offset 0").await;
    check(&json, ".items[", "the filter is not valid: expected closing bracket at the end").await;
    check(&json, ".items | .name", "the filter failed: cannot index").await;
    check(&json, "error(\"mine\")", "the filter failed: \"mine\"").await;
    check(&json, &".".repeat(1 << 20), "`query` is longer than 16384 bytes").await;
    check(&json, &"[".repeat(16_000), "the filter").await;
    check(&json, ".\0", "the filter is not valid: it contains a NUL byte").await;
    check("../../etc/passwd", ".", "`filename` is not an output of this conversation").await;
    assert_eq!(case.query(&json, ".items | length", json!({})).await.expect("an answer"), "2");
}

#[tokio::test]
async fn filters_see_nothing_but_the_output() {
    let case = Case::new("outside");
    let name = case.store(ITEMS).await;
    let check = async |query: &str, expected: &str| {
        let error = case.query(&name, query, json!({})).await.expect_err("an error").to_string();
        assert!(error.starts_with(&format!("the filter is not valid: {expected}")), "{query}: {error}");
    };
    for query in ["env", "env.PATH", "$ENV", "$ENV.PATH", "now", "halt", "halt_error", "input", "debug", "localtime"] {
        check(query, "no ").await;
    }
    for query in ["import \"a\" as a; .", "include \"a\" {search: \"/etc\"}; .", "import \"/etc/passwd\" as $p; $p"] {
        check(query, "a filter cannot read files").await;
    }
}

#[tokio::test]
async fn what_fills_the_memory_with_numbers_is_ended() {
    let change = |settings: &mut OutputSettings| {
        settings.query.memory_bytes = 512 << 20;
        settings.query.cpu = Duration::from_secs(60);
        settings.query.wall = Duration::from_secs(120);
    };
    let case = Case::with("memory", change);
    let name = case.store("0").await;
    let error = case.query(&name, "[range(3e8)]", json!({})).await.expect_err("an error");
    assert_eq!(error.to_string(), "the filter used more than 512 MiB of memory");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn time_is_also_that_of_the_clock() {
    let case = Case::with("wall", |settings| settings.query.wall = Duration::from_millis(300));
    let name = case.store("0").await;
    let error = case.query(&name, "def f: f; f", json!({})).await.expect_err("an error");
    assert_eq!(error.to_string(), "the filter used more than 1 s");
}

#[tokio::test]
async fn long_answers_are_cut() {
    let case = Case::with("long", |settings| settings.query.output_bytes = 1000);
    let name = case.store("0").await;
    // Without end: the process is ended with the answer.
    let answer = case.query(&name, "repeat(\"ä\")", json!({"raw": true})).await.expect("an answer");
    let (shown, note) = answer.split_once("\n[Truncated").expect("a note");
    assert!(shown.len() <= 1000 && shown.lines().all(|line| line == "ä"), "{shown}");
    assert!(note.contains("Narrow the filter"), "{note}");

    let case = Case::with("long_tokens", |settings| settings.threshold_tokens = 100);
    let name = case.store("0").await;
    let answer = case.query(&name, "range(5000)", json!({})).await.expect("an answer");
    assert!(answer.starts_with("0\n1\n2\n") && answer.contains("\n[Truncated") && answer.len() < 1000, "{answer}");
}

#[tokio::test]
async fn what_was_found_before_a_failure_is_not_lost() {
    let case = Case::new("partial");
    let name = case.store("[1, 2, \"x\"]").await;
    let answer = case.query(&name, ".[] | . + 1", json!({})).await.expect("an answer");
    assert!(answer.starts_with("2\n3\n[Stopped here: the filter failed: cannot "), "{answer}");
}

#[tokio::test]
async fn an_output_of_many_objects_can_be_queried() {
    let case = Case::with("many", |settings| {
        settings.query.cpu = Duration::from_secs(60);
        settings.query.wall = Duration::from_secs(120);
    });
    let object = |at: usize| {
        format!("{{\"id\":{at},\"name\":\"item {at}\",\"tags\":[\"a\",\"b\"],\"open\":{}}}", at.is_multiple_of(2))
    };
    let text = format!("[{}]", (0..20_000).map(object).collect::<Vec<_>>().join(","));
    let name = case.store(&text).await;
    let query = "map(select(.open)) | length, .[-1].name";
    assert_eq!(case.query(&name, query, json!({})).await.expect("an answer"), "10000\n\"item 19998\"");
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_is_not_ours_is_called_so() {
    let case = Case::new("foreign");
    let settings = OutputSettings::new(&case.folder);
    let name = case.store("0").await;
    let outputs = Outputs::new(settings, "chat", Some(Program::at("/bin/false"))).expect("outputs");
    let query = json!({"filename": name, "query": "."});
    let error = outputs.call_tool(HostTool::QueryLargeOutput, &query).await.expect_err("an error");
    assert!(matches!(error, ReadError::OtherProgram(_)), "{error:?}");
    assert!(error.hint().is_some());
}

/// A query whose caller stops waiting leaves no process behind.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_query_that_is_given_up_is_ended() {
    const FILTER: &str = "def given_up_by_its_test: given_up_by_its_test; given_up_by_its_test";
    let is_running = || {
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        let mut lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| line.windows(FILTER.len()).any(|part| part == FILTER.as_bytes()))
    };
    let wait_until = async |running: bool| {
        for _ in 0..500 {
            if is_running() == running {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("running: {}", !running);
    };
    let case = Case::new("given_up");
    let name = case.store("0").await;
    tokio::select! {
        _ = case.query(&name, FILTER, json!({})) => panic!("it ended"),
        () = wait_until(true) => {}
    }
    wait_until(false).await;
}
