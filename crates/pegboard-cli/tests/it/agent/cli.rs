//! `pegboard agent`, with a scripted provider at the other end.

mod embeddings;
mod ends;
#[cfg(target_os = "linux")]
mod sandbox;
mod terminal;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use pegboard_testkit::provider::{self, Part, Provider, Script, ScriptedTurn};
use regex::Regex;
use serde_json::{Value, json};

use crate::gateway::{
    fixture,
    listener::{Collector, attribute},
};

const MODEL: &str = "anthropic/claude-haiku-4-5";

/// Timeout of every wait, longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for one test, and a scripted provider.
struct Place {
    folder: PathBuf,
    provider: Provider,
}

impl Place {
    fn new(test: &str, script: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self::with_script(test, Script::new(script))
    }

    fn with_script(test: &str, script: Script) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("agent-{test}"));
        // Left over from a run that was killed.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self { folder, provider: Provider::start(script) }
    }

    fn file(&self, name: &str, content: &Value) -> &Self {
        fs::write(self.folder.join(name), content.to_string()).expect("a temporary file");
        self
    }

    /// Returns the variables that point a program to the provider, and to its files here.
    fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("ANTHROPIC_API_KEY", "a-key".to_owned()),
            ("ANTHROPIC_BASE_URL", self.provider.url().to_owned()),
            ("XDG_STATE_HOME", self.folder.join("state").display().to_string()),
            ("HOME", self.folder.display().to_string()),
        ]
    }

    /// Returns the command with an otherwise empty environment.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pegboard"));
        for name in ["PEGBOARD_MODEL", "PEGBOARD_CONFIG", "PEGBOARD_RANKER", "PEGBOARD_LOG", "OPENAI_API_KEY"] {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OTEL_")) {
            command.env_remove(name);
        }
        command.arg("agent").args(args).envs(self.variables()).current_dir(&self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, b"")
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(args).spawn().expect("the binary starts");
        // The binary may end without reading everything.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("the binary ends")
    }

    /// Runs it with the usual model.
    fn ask(&self, args: &[&str]) -> Output {
        self.run(&[&["--model", MODEL], args].concat())
    }

    /// Starts it, and waits until it has sent a request to the provider.
    fn start(&self, args: &[&str]) -> Child {
        let child = self.command(&[&["--model", MODEL], args].concat()).spawn().expect("the binary starts");
        assert!(self.provider.wait_until(PATIENCE, |requests| !requests.is_empty()), "nothing was asked");
        child
    }

    /// Returns the content of request number `at`, as text.
    fn request_text(&self, at: usize) -> String {
        self.provider.requests().get(at).expect("a request").body.to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns a turn whose cost is the same in every build.
fn turn(parts: impl IntoIterator<Item = Part>) -> ScriptedTurn {
    turn_ending(parts, None)
}

fn turn_ending(parts: impl IntoIterator<Item = Part>, stop: Option<provider::Stop>) -> ScriptedTurn {
    let usage = provider::Usage { input: 2000, cache_read: 1500, output: 20, ..provider::Usage::default() };
    ScriptedTurn::Say(provider::Output {
        parts: parts.into_iter().collect(),
        stop,
        usage: Some(usage),
        ..provider::Output::default()
    })
}

fn say(text: &str) -> ScriptedTurn {
    turn([Part::text(text)])
}

fn call(name: &str, arguments: &Value) -> Part {
    Part::call("call_tool", json!({"name": name, "arguments": arguments}))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

/// Returns exit code, standard output and standard error, without parts that differ from run to
/// run.
fn show(output: &Output) -> String {
    let code = output.status.code().unwrap_or(-1);
    masked(&format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), stderr(output)))
}

fn masked(text: &str) -> String {
    let masks = [
        (r#""took_ms":\d+"#, r#""took_ms":[time]"#),
        (r#""(id|tool_use_id)":"[^"]*""#, r#""$1":"[id]""#),
        (r"\d+ ms\b|\d+\.\d s\b", "[time]"),
        (r"\d+ B\b|\d+\.\d kB\b", "[size]"),
        (r"\d+ tools\b", "[n] tools"),
        (r"visible of \d+", "visible of [n]"),
        (r"about \d+ tokens", "about [n] tokens"),
        (r#"tools":\d+"#, r#"tools":[n]"#),
    ];
    masks.iter().fold(text.to_owned(), |text, (pattern, mask)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, *mask).into_owned()
    })
}

/// Returns the turns of a model that searches for a tool, calls it, and answers.
fn errand() -> [ScriptedTurn; 3] {
    [
        turn([Part::text("Let me look."), Part::call("search_tools", json!({"query": "list github issues"}))]),
        turn([call("list_issues", &json!({"owner": "acme", "repo": "web"}))]),
        say("Two issues are open."),
    ]
}

#[test]
fn a_prompt_is_answered_with_the_tools_of_the_demo() {
    let place = Place::new("errand", errand());
    let output = place.ask(&["Which issues are open?"]);
    insta::assert_snapshot!(show(&output));
    place.provider.assert_clean();
    assert!(place.request_text(2).contains("acme"), "the model does not learn what the tool said");
}

#[test]
fn what_the_model_calls_after_a_search_is_learned_if_that_is_wanted() {
    let server = fixture(&["--extras"]);
    let config = |learning: bool| json!({"mcpServers": {"one": server}, "pegboard": {"usageLearning": learning}});
    let script = || {
        [
            turn([Part::call("search_tools", json!({"query": "give my arguments back"}))]),
            turn([call("echo", &json!({"text": "hello"}))]),
            say("Done."),
        ]
    };
    let learned = |learning: bool| {
        let place = Place::new(&format!("usage-{learning}"), script());
        place.file("pegboard.json", &config(learning));
        let output = place.ask(&["pegboard.json", "Echo hello.", "--dialect", "bridge", "--yes"]);
        assert!(output.status.success(), "{}", show(&output));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pegboard"));
        let output = command.args(["usage", "--format", "json"]).envs(place.variables()).output().expect("it ends");
        let habits: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let habit = &habits["habits"][0];
        ["caller", "words", "tool"].map(|key| habit[key].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(learned(true), ["local", "argument back give", "one/echo"]);
    assert_eq!(learned(false), ["", "", ""]);
}

#[test]
fn events_are_lines_of_json_for_programs() {
    let place = Place::new("events", errand());
    let output = place.ask(&["Which issues are open?", "--format", "json", "--prices", "1,5,0.1"]);
    let events: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    let expected = [
        "start", "delivery", "text", "turn", "call", "result", "turn", "call", "result", "text", "text", "turn",
        "answer",
    ];
    assert_eq!(kinds, expected);
    let answer = events.last().expect("an answer");
    assert_eq!(answer["text"], "Two issues are open.");
    assert_eq!(answer["usage"], json!({"input": 6000, "cached": 4500, "output": 60}));
    assert_eq!(answer["cost"], 0.00225);
    let shown: Vec<&Value> = events.iter().filter(|event| event["event"] != "result").collect();
    let shown: String = shown.iter().map(|event| format!("{event}\n")).collect();
    insta::assert_snapshot!(masked(&shown));
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_was_found_is_told_of() {
    let found = json!({"tool_names": ["list_issues", "get_issue"]});
    let script = [
        turn([Part::call("add_tool", found)]),
        turn([Part::call("list_issues", json!({"owner": "acme", "repo": "web"}))]),
        say("Two."),
    ];
    let place = Place::new("found", script);
    let mut command = place.command(&["--model", "openai/gpt-5", "--dialect", "explicit", "How many issues are open?"]);
    command.env("OPENAI_API_KEY", "a-key").env("OPENAI_BASE_URL", format!("{}/v1", place.provider.url()));
    insta::assert_snapshot!(show(&command.output().expect("the binary ends")));
    place.provider.assert_clean();
}

#[test]
fn the_prompt_may_come_on_standard_input() {
    for args in [&["-"][..], &[]] {
        let place = Place::new(&format!("stdin-{}", args.len()), [say("Hello.")]);
        let output = place.run_with(&[&["--model", MODEL], args].concat(), b"Say hello\nplease\n");
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "Hello.\n"), "{args:?}");
        assert!(place.request_text(0).contains(r"Say hello\nplease"));
    }
}

#[test]
fn a_conversation_goes_on_in_another_process() {
    let [search, list, _] = errand();
    let marked = say("**Two** issues are `open`.");
    let place = Place::new("transcript", [search, list, marked, say("I said it already.")]);
    let args = ["--transcript", "talk.json"];
    let first = place.ask(&[&args[..], &["Which issues are open?"]].concat());
    assert!(!stderr(&first).contains("going on"), "{}", stderr(&first));
    let second = place.ask(&[&args[..], &["And now?"]].concat());
    assert!(stderr(&second).contains("< Two issues are open."), "{}", stderr(&second));
    insta::assert_snapshot!(show(&second));
    let told = place.request_text(3);
    assert!(told.contains("Which issues are open?") && told.contains("And now?"));
    place.provider.assert_clean();
}

#[test]
fn nobody_consents_without_a_terminal() {
    let script = || {
        [
            turn([call("delete_file", &json!({"path": "/Team/notes.txt"}))]),
            turn([call("delete_file", &json!({"path": "/Team/notes.txt"}))]),
            say("I could not."),
        ]
    };
    let place = Place::new("consent", script());
    let output = place.ask(&["Delete the notes"]);
    insta::assert_snapshot!(show(&output));
    assert!(place.request_text(1).contains("no terminal to ask on"));
    // Without a terminal the model has no tool for questions.
    assert!(!place.request_text(0).contains("ask_human"));
    assert_eq!(output.status.code(), Some(1));
    let names = ["files:delete_*", "files___delete_*", "files___delete_file", "delete_file", "files/deleteFile"];
    for consent in [vec!["--yes"]].into_iter().chain(names.map(|name| vec!["--allow", name])) {
        let place = Place::new("consent-given", script());
        let output = place.ask(&[&["Delete the notes"], &consent[..]].concat());
        assert!(!place.request_text(1).contains("no terminal to ask on"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{consent:?}");
    }
    let place = Place::new("consent-other", script());
    let output = place.ask(&["Delete the notes", "--allow", "files:read_*"]);
    assert_eq!(output.status.code(), Some(1), "another tool was granted");
    let output = place.ask(&["Delete the notes", "--allow", "delete_*"]);
    assert!(stderr(&output).contains("or SERVER:TOOL"), "{}", stderr(&output));
    let output = place.ask(&["Delete the notes", "--allow", "no_such_tool"]);
    assert!(stderr(&output).contains("`--allow`: no tool `no_such_tool`"), "{}", stderr(&output));
    let output = place.ask(&["Delete the notes", "--allow", "delete_fiel"]);
    let named = "`--allow`: no tool `delete_fiel` (did you mean `files___delete_file`?)";
    assert!(stderr(&output).contains(named), "{}", stderr(&output));
}

#[test]
fn an_allowed_name_must_mean_one_tool() {
    let place = Place::new("consent-ambiguous", [say("Hello.")]);
    place.file("two.json", &json!({"mcpServers": {"one": fixture(&["--extras"]), "two": fixture(&["--extras"])}}));
    let output = place.ask(&["two.json", "Hello", "--allow", "echo"]);
    insta::assert_snapshot!(show(&output));
}

#[test]
fn a_search_needs_tools() {
    let place = Place::new("no-tools", [say("Hello.")]);
    place.file("pegboard.json", &json!({"mcpServers": {}}));
    let output = place.ask(&["pegboard.json", "Hello", "--dialect", "select"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("tools is required"), "{}", stderr(&output));
    // A server that is away may have tools.
    place.file("pegboard.json", &json!({"mcpServers": {"broken": {"command": "pegboard-no-such-program"}}}));
    let output = place.ask(&["pegboard.json", "Hello", "--dialect", "select"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_server_that_fails_is_told_of() {
    let place = Place::new("failing", [turn([Part::call("echo", json!({"message": "one"}))]), say("Done.")]);
    let servers = json!({
        "works": fixture(&["--extras"]),
        "broken": {"command": "pegboard-no-such-program"},
    });
    place.file("pegboard.json", &json!({"mcpServers": servers}));
    let output = place.ask(&["pegboard.json", "Echo one", "--approve", "never"]);
    insta::assert_snapshot!(show(&output));
    place.provider.assert_clean();
}

#[test]
fn the_configuration_says_what_may_be_seen() {
    let blocked = turn([Part::call("large", json!({"bytes": 13})), Part::call("echo", json!({"message": "x"}))]);
    let place = Place::new("selection", [say("Nothing."), blocked, say("Blocked.")]);
    let servers = json!({"one": fixture(&["--extras"])});
    place.file("some.json", &json!({"mcpServers": servers, "pegboard": {"selection": {"tools": ["echo"]}}}));
    let mut shut = fixture(&["--extras"]);
    shut["disabledTools"] = json!(["echo"]);
    let rules = json!({"rules": [{"name": "no thirteen", "pattern": "13", "block_message": "not thirteen"}]});
    let middleware = json!([{"type": "security", "enabled": true, "config": rules}]);
    place.file("shut.json", &json!({"mcpServers": {"one": shut}, "middleware": middleware}));
    let tools = |at: usize| {
        let request: Value = serde_json::from_str(&place.request_text(at)).expect("a request");
        let names = request["tools"].as_array().into_iter().flatten();
        names.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let output = place.ask(&["some.json", "What is there?"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(tools(0).contains(&"echo".to_owned()), "{:?}", tools(0));
    assert!(!tools(0).contains(&"slow".to_owned()), "{:?}", tools(0));
    let output = place.ask(&["shut.json", "Hello", "--yes", "--mode", "normal"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!tools(1).contains(&"echo".to_owned()) && tools(1).contains(&"slow".to_owned()), "{:?}", tools(1));
    let told = place.request_text(2);
    assert!(told.contains("not thirteen") && told.contains("no tool `echo`"), "{told}");
}

#[test]
fn the_variable_names_the_configuration() {
    let place = Place::new("variable", [say("Hello.")]);
    place.file("here.json", &json!({"mcpServers": {"one": fixture(&[])}}));
    let mut command = place.command(&["--model", MODEL, "hello"]);
    let output = command.env("PEGBOARD_CONFIG", "here.json").output().expect("the binary ends");
    assert!(stderr(&output).contains("1 server;"), "{}", stderr(&output));
}

/// Runs on several threads, because the collector must answer while the test waits for the binary.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_a_trace() {
    let collector = Collector::start().await;
    let place = Place::new("trace", errand());
    let mut command = place.command(&["--model", MODEL, "Which issues are open?"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.listener.url);
    let output = command.output().expect("the binary ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let spans: Vec<_> = collector.spans().into_iter().map(|(_, span)| span).collect();
    let run = spans.iter().find(|span| span.parent_span_id.is_empty()).expect("a span that begins");
    assert_eq!(run.name, format!("invoke_agent {MODEL}"));
    let below = |above: &[u8]| {
        let mut names: Vec<&str> =
            spans.iter().filter(|span| span.parent_span_id == above).map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        names
    };
    let chat = format!("chat {MODEL}");
    assert_eq!(below(&run.span_id), [&chat, &chat, &chat, "execute_tool list_issues"]);
    let call = spans.iter().find(|span| span.name == "execute_tool list_issues").expect("a call");
    assert_eq!(below(&call.span_id), ["tools/call list_issues"]);
    let asked = spans.iter().find(|span| span.name == chat).expect("a turn");
    assert_eq!(attribute(&asked.attributes, "gen_ai.usage.output_tokens").as_deref(), Some("20"));
    assert!(spans.iter().all(|span| span.trace_id == run.trace_id));
}

#[test]
fn large_outputs_go_to_files() {
    let place = Place::new("offload", errand());
    let output = place.ask(&["Which issues are open?", "--offload-above", "20", "--outputs", "kept"]);
    assert!(stderr(&output).contains("⇩"), "{}", stderr(&output));
    let kept = fs::read_dir(place.folder.join("kept")).expect("a folder").count();
    assert_eq!(kept, 1);
    let place = Place::new("offload-usual", errand());
    place.ask(&["Which issues are open?", "--offload-above", "20"]);
    assert!(place.folder.join("state/pegboard/outputs").is_dir());
}

#[test]
fn what_steers_a_terminal_does_not_reach_it() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}text";
    let place = Place::new("evil", [turn([call(evil, &json!({"a": evil}))]), say(evil)]);
    let output = place.ask(&["Hello"]);
    assert!(!stderr(&output).contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", stderr(&output));
    // A program gets what the model said.
    assert_eq!(text(&output.stdout), format!("{evil}\n"));
    let place = Place::new("evil-json", [say(evil)]);
    let output = place.ask(&["Hello", "--format", "json"]);
    assert!(!text(&output.stdout).contains(['\u{1b}', '\u{7}', '\u{202e}']));
}

#[cfg(unix)]
#[test]
fn commands_run_in_code_execution_mode() {
    let command = json!({"command": "echo from-$((40 + 2))"});
    let place = Place::new("code", [turn([Part::call("execute_shell_command", command)]), say("Done.")]);
    let output = place.ask(&["Compute", "--mode", "code-execution", "--yes"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "Done.\n"), "{}", stderr(&output));
    assert!(place.request_text(1).contains("from-42"), "{}", place.request_text(1));
    assert!(stderr(&output).contains("commands run"), "{}", stderr(&output));
    assert!(place.folder.join("state/pegboard/work").is_dir());
}
