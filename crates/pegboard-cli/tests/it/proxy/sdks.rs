//! The providers' own SDKs as clients of the proxy, unmodified, with their stream assemblers as judges. `cargo xtask peers`
//! installs them; without them these tests say that they are skipped.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    thread::JoinHandle,
};

use pegboard_testkit::provider::{Output, Part, Provider, Script, ScriptedTurn, Sending, Stop, Wire};
use serde_json::{Value, json};

use super::{
    RunningProxy,
    conversation::{WIRES, arguments, query, reach, tool_name},
    programs::{base, model, node, peer, repository},
};

/// As many questions as make twenty turns of the model.
const QUESTIONS: usize = 10;

/// Enough tools to be deferred.
const TOOLS: usize = 60;

/// The name of a wire for the drivers.
fn name(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "anthropic",
        Wire::Chat => "chat",
        Wire::Responses => "responses",
        Wire::Gemini => "gemini",
    }
}

/// A running `converse.py` or `converse.mjs`: one process for all conversations, because an SDK takes a while to load.
struct Driver {
    child: Child,
    tasks: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl Driver {
    fn start(program: &[PathBuf]) -> Self {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the driver starts");
        let reports = BufReader::new(child.stdout.take().expect("a pipe"));
        let errors = child.stderr.take().expect("a pipe");
        let errors = Some(std::thread::spawn(|| read_all(errors)));
        Self { tasks: child.stdin.take(), child, reports, errors }
    }

    /// Holds a conversation, and returns the report.
    #[track_caller]
    fn converse(&mut self, task: &Value) -> Value {
        let tasks = self.tasks.as_mut().expect("a pipe");
        // A driver that has failed does not read.
        let _ = writeln!(tasks, "{task}").and_then(|()| tasks.flush());
        let mut report = String::new();
        let _ = self.reports.read_line(&mut report);
        serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {}", self.end()))
    }

    /// Ends the driver, and returns what it wrote as errors.
    fn end(&mut self) -> String {
        drop(self.tasks.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_all(mut pipe: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The rounds that the program must not see.
enum HiddenRounds {
    Some,
    Exactly(usize),
}

/// A conversation with the proxy and without it.
struct Scenario {
    name: &'static str,
    /// What the model says when it sees all tools.
    direct: Vec<ScriptedTurn>,
    /// What it says behind the proxy.
    proxied: Vec<ScriptedTurn>,
    /// The tasks of the driver. The proxy is restarted after each, and the next one goes on with the conversation.
    tasks: Vec<Value>,
    /// Options of the proxy.
    options: &'static [&'static str],
    hidden: HiddenRounds,
    /// Whether every request must continue the one before it.
    is_stable: bool,
    /// Whether what it costs is the same too.
    is_untouched: bool,
}

impl Scenario {
    /// A conversation in which the model says the same with and without the proxy.
    fn new(name: &'static str, turns: Vec<ScriptedTurn>, task: Value) -> Self {
        Self {
            name,
            direct: turns.clone(),
            proxied: turns,
            tasks: vec![task],
            options: &[],
            hidden: HiddenRounds::Some,
            is_stable: true,
            is_untouched: false,
        }
    }
}

fn say(text: &str) -> ScriptedTurn {
    ScriptedTurn::say([Part::text(text)])
}

/// Two turns for each question; in every second question the model makes two calls at once.
fn turns(wire: Wire, questions: usize) -> Vec<ScriptedTurn> {
    let thought = |text: &str| if wire == Wire::Chat { Vec::new() } else { vec![Part::thinking(text)] };
    let turn = |question: usize| {
        let number = question * 19 % 200;
        let mut parts = thought("Now I know.");
        parts.push(Part::call(tool_name(number), arguments(number)));
        if question % 2 == 1 {
            parts.push(Part::call(tool_name(0), arguments(question)));
        }
        let reach = ScriptedTurn::reach(query(number), parts).before_search(thought("Which tool?"));
        [reach, say(&format!("Answer {question} — où ☀?"))]
    };
    (0..questions).flat_map(turn).collect()
}

/// A task of the drivers.
fn task(wire: Wire, tools: usize, questions: &[&str]) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string", "description": "The number in the books"}},
        "required": ["id"],
        "additionalProperties": false,
    });
    let tool = |number: usize| {
        let description = format!("To {} of the company, with everything that belongs to it.", query(number));
        json!({"name": tool_name(number), "description": description, "parameters": schema})
    };
    json!({
        "wire": name(wire),
        "model": model(wire),
        "tools": (0..tools).map(tool).collect::<Vec<_>>(),
        "questions": questions,
        "thinking": true,
    })
}

/// The same task with another field.
fn with(mut task: Value, key: &str, value: impl Into<Value>) -> Value {
    task[key] = value.into();
    task
}

/// Conversations that are the same by history and by the identifier of the response before.
fn chainable(wire: Wire, is_chained: bool) -> [Scenario; 3] {
    let task = |tools, questions: &[&str]| with(task(wire, tools, questions), "chain", is_chained);
    let long = Scenario::new("twenty turns", turns(wire, QUESTIONS), task(200, &["Go on"; QUESTIONS]));

    let half = task(TOOLS, &["Go on"; 2]);
    let rest = with(half.clone(), "goOn", true);
    let restarted = Scenario { tasks: vec![half, rest], ..Scenario::new("restart", turns(wire, 4), Value::Null) };

    // The first question finds the tool, so that the second may be answered by its call beside another search.
    let call = match wire {
        Wire::Messages => Part::call(tool_name(3), arguments(3)),
        _ => Part::call("call_tool", json!({"name": tool_name(3), "arguments": arguments(3)})),
    };
    let search = Part::call("search_tools", json!({"query": query(11)}));
    let around = |turn| vec![reach(3), say("ok"), turn, reach(11), say("done")];
    let mixed = Scenario {
        proxied: around(ScriptedTurn::say([search, call])),
        hidden: HiddenRounds::Exactly(1),
        ..Scenario::new(
            "search beside a call",
            around(ScriptedTurn::say([Part::call(tool_name(3), arguments(3))])),
            task(TOOLS, &["One", "Both"]),
        )
    };
    [long, restarted, mixed]
}

fn scenarios(wire: Wire) -> Vec<Scenario> {
    let mut scenarios = Vec::from(chainable(wire, false));
    if wire == Wire::Responses {
        scenarios.extend(chainable(wire, true));
    }

    let question = format!("Please {}.", query(9));
    scenarios.push(Scenario {
        options: &["--mode", "prefetch"],
        hidden: HiddenRounds::Exactly(0),
        ..Scenario::new(
            "prefetch",
            vec![reach(9), say("done"), reach(9), say("done")],
            task(wire, TOOLS, &[question.as_str(); 2]),
        )
    });

    // The tokens of the next request are those of the definitions that the provider gets.
    scenarios.push(Scenario {
        hidden: HiddenRounds::Exactly(0),
        is_stable: false,
        is_untouched: true,
        ..Scenario::new("few tools", vec![reach(1), say("ok")], with(task(wire, 5, &["One"]), "count", true))
    });

    // A forced tool that is not declared passes with all tools, between requests that are deferred.
    let forced = ScriptedTurn::say([Part::call(tool_name(17), arguments(17))]);
    let forcing = with(task(wire, TOOLS, &["One", "Two", "Three"]), "force", json!([1, tool_name(17)]));
    scenarios.push(Scenario {
        hidden: HiddenRounds::Exactly(1),
        is_stable: false,
        // Anthropic refuses a forced tool where the model thinks.
        ..Scenario::new(
            "forced tool",
            vec![reach(1), say("ok"), forced, say("ok"), reach(1), say("ok")],
            with(with(forcing, "thinking", false), "count", true),
        )
    });

    let search = || ScriptedTurn::say([Part::call("search_tools", json!({"query": query(3)}))]);
    let end = |text: &str, stop| {
        ScriptedTurn::Say(Output { parts: vec![Part::text(text)], stop: Some(stop), ..Output::default() })
    };
    let ends = vec![end("It ends he", Stop::MaxTokens), end("No.", Stop::Refusal), say("Fine.")];
    scenarios.push(Scenario {
        proxied: ends.iter().flat_map(|end| [search(), end.clone()]).collect(),
        hidden: HiddenRounds::Exactly(3),
        // An SDK parses calls of strict tools, and fails where it cannot.
        ..Scenario::new("stops", ends, with(task(wire, TOOLS, &["One", "Two", "Three"]), "strict", false))
    });
    scenarios
}

/// What the driver's user sees: everything but what it costs.
fn seen(reports: &[Value]) -> Vec<Value> {
    let answers = reports.iter().flat_map(|report| report["answers"].as_array().expect("answers"));
    answers.map(|answer| json!([answer["calls"], answer["text"], answer["stop"]])).collect()
}

/// Faults that the provider itself causes: fields that this version of an SDK does not know.
fn is_known(fault: &Value) -> bool {
    let fault = fault.as_str().unwrap_or_default();
    fault.ends_with("unknown field `store`") || fault == "ResponseFunctionCallArgumentsDoneEvent: unknown field `name`"
}

/// Plays the same conversation with and without the proxy, and compares what the SDK's assembler makes of it.
fn compare(driver: &mut Driver, test: &str, wire: Wire, is_streamed: bool, scenario: Scenario) {
    let Scenario { name: about, direct, proxied, tasks, options, hidden, is_stable, is_untouched } = scenario;
    let about =
        format!("{} {}, {about}, {}", name(wire), if is_streamed { "streamed" } else { "plain" }, tasks[0]["chain"]);
    let at = |task: &Value, url: String| with(with(task.clone(), "url", url), "streamed", is_streamed);

    let provider = Provider::start(Script::new(direct));
    let converse = |task: &Value| driver.converse(&at(task, base(wire, provider.url(), false)));
    let expected: Vec<Value> = tasks.iter().map(converse).collect();
    provider.assert_clean();
    assert_eq!(provider.turns_taken(), seen(&expected).len(), "{about}: {expected:?}");
    let requests = provider.requests().len();

    let sending = if is_streamed { Sending::chunks_of(11) } else { Sending::default() };
    let script = Script { stable_prefix: is_stable, ..Script::new(proxied).sending(sending) };
    let provider = Provider::start(if is_stable { script.bind_thinking() } else { script });
    let mut proxy = RunningProxy::with_options(test, &provider, options);
    let mut reports = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        if number > 0 {
            proxy.restart();
        }
        reports.push(driver.converse(&at(task, base(wire, &proxy.url, true))));
    }
    assert_eq!(seen(&reports), seen(&expected), "{about}: {reports:?} {:?}", provider.violations());
    let faults = reports.iter().flat_map(|report| report["faults"].as_array().expect("a list"));
    let faults: Vec<&Value> = faults.filter(|fault| !is_known(fault)).collect();
    assert!(faults.is_empty(), "{about}: {faults:#?}");
    provider.assert_clean();
    let rounds = provider.requests().len() - requests;
    match hidden {
        HiddenRounds::Some => assert!(rounds > 0, "{about}: there were no hidden rounds"),
        HiddenRounds::Exactly(expected) => assert_eq!(rounds, expected, "{about}: hidden rounds"),
    }
    if is_untouched {
        assert_eq!(reports, expected, "{about}: a request that passes is not changed");
    } else if let (Some(all), Some(counted)) = (expected[0]["counted"].as_u64(), reports[0]["counted"].as_u64()) {
        // Gemini's SDKs count no tools, and the request passes.
        let is_less = if wire == Wire::Gemini { counted == all } else { counted < all / 4 };
        assert!(is_less, "{about}: {counted} of {all} tokens are counted");
    }
}

fn compare_all(test: &str, program: &[PathBuf]) {
    let mut driver = Driver::start(program);
    for wire in WIRES {
        for is_streamed in [false, true] {
            for scenario in scenarios(wire) {
                compare(&mut driver, test, wire, is_streamed, scenario);
            }
        }
    }
}

#[test]
fn python_sdks_see_the_same_conversations() {
    let Some(python) = peer("python-sdks.stamp", "python-sdks/bin/python") else { return };
    compare_all("python_sdks", &[python, repository().join("testkit/peers/sdks/converse.py")]);
}

#[test]
fn typescript_sdks_see_the_same_conversations() {
    let (Some(node), Some(_)) = (node(), peer("npm-sdks.stamp", "npm-sdks")) else { return };
    compare_all("typescript_sdks", &[node, repository().join("testkit/peers/sdks/converse.mjs")]);
}
