//! The fixture over its pipe, as a gateway meets it. What the conformance suite asks of
//! it is checked by running the suite against the gateway.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

struct Fixture {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Fixture {
    fn start(flags: &str) -> Fixture {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pegboard-fixture"))
            .args(flags.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the fixture");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Fixture { process, input, output }
    }

    /// One that has been through `initialize`.
    fn legacy(flags: &str) -> Fixture {
        let mut fixture = Fixture::start(flags);
        let capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let client = json!({"name": "test", "version": "0"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
        let result = fixture.ask(0, "initialize", &params)["result"].take();
        assert_eq!(result["protocolVersion"], "2025-06-18");
        fixture.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        fixture
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("an open pipe");
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// The next message; what is none is skipped.
    fn next(&mut self) -> Value {
        loop {
            let mut line = Vec::new();
            assert_ne!(self.output.read_until(b'\n', &mut line).expect("an open pipe"), 0, "the fixture has gone");
            if let Ok(message @ Value::Object(_)) = serde_json::from_slice(&line) {
                return message;
            }
        }
    }

    /// Sends a request and returns the next message, which has to be its response.
    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.request(id, method, params);
        let response = self.next();
        assert_eq!(response["id"], id, "{response}");
        response
    }

    fn ask_modern(&mut self, id: u64, method: &str, mut params: Value) -> Value {
        params["_meta"] = modern_meta();
        self.ask(id, method, &params)
    }

    fn exit_code(mut self) -> Option<i32> {
        drop(self.input);
        self.process.wait().expect("a child").code()
    }
}

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    })
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[test]
fn both_eras_are_served_on_one_pipe() {
    let mut fixture = Fixture::legacy("");
    let legacy = fixture.ask(1, "tools/list", &json!({}));
    let modern = fixture.ask_modern(2, "tools/list", json!({}));
    assert_eq!(legacy["result"]["tools"], modern["result"]["tools"]);
    assert_eq!(legacy["result"]["resultType"], Value::Null);
    assert_eq!(modern["result"]["resultType"], "complete");
    assert_eq!(fixture.exit_code(), Some(0));
}

#[test]
fn an_era_that_is_not_spoken_is_refused() {
    let mut fixture = Fixture::start("--era legacy");
    assert_eq!(fixture.ask_modern(1, "server/discover", json!({}))["error"]["code"], -32601);
    let mut fixture = Fixture::start("--era modern");
    let refusal = fixture.ask(1, "initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(refusal["error"]["code"], -32022);
    assert_eq!(refusal["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[test]
fn a_question_leaves_the_pipe_to_others() {
    let mut fixture = Fixture::legacy("");
    fixture.request(1, "tools/call", &call("test_sampling", &json!({"prompt": "well?"})));
    let question = fixture.next();
    assert_eq!(question["method"], "sampling/createMessage");
    assert_eq!(fixture.ask(2, "ping", &json!({}))["result"], json!({}));
    let answer = json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "well."}});
    fixture.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    assert_eq!(fixture.next()["result"]["content"][0]["text"], "LLM response: well.");
}

#[test]
fn a_cancelled_call_stays_silent() {
    let mut fixture = Fixture::legacy("--extras");
    fixture.request(1, "tools/call", &call("slow", &json!({"ms": 100})));
    fixture.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    fixture.ask(2, "ping", &json!({}));
    drop(fixture.input);
    let mut rest = String::new();
    fixture.output.read_to_string(&mut rest).expect("an open pipe");
    assert_eq!(rest, "");
}

#[test]
fn state_that_was_changed_is_refused() {
    let mut fixture = Fixture::start("");
    let mut params = call("test_input_required_result_request_state", &json!({}));
    let first = fixture.ask_modern(1, "tools/call", params.clone());
    assert_eq!(first["result"]["resultType"], "input_required");
    let state = first["result"]["requestState"].as_str().expect("a state");
    params["inputResponses"] = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    params["requestState"] = format!("{state}0").into();
    assert_eq!(fixture.ask_modern(2, "tools/call", params.clone())["error"]["code"], -32602);
    params["requestState"] = state.into();
    assert_eq!(fixture.ask_modern(3, "tools/call", params)["result"]["resultType"], "complete");
}

#[test]
fn subscriptions_carry_their_id() {
    let mut fixture = Fixture::start("--extras");
    let filter = json!({"toolsListChanged": true});
    fixture.request(7, "subscriptions/listen", &json!({"_meta": modern_meta(), "notifications": filter}));
    let acknowledged = fixture.next();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let mut params = call("change_tools", &json!({"name": "fresh"}));
    params["_meta"] = modern_meta();
    fixture.request(8, "tools/call", &params);
    let changed = fixture.next();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"], acknowledged["params"]["_meta"]);
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
}

#[test]
fn echo_returns_the_bytes_it_got() {
    let mut fixture = Fixture::legacy("--extras");
    let arguments = r#"{"z": 1e2,"a":123456789012345678901234567890}"#;
    writeln!(
        fixture.input,
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
    )
    .expect("an open pipe");
    assert_eq!(fixture.next()["result"]["content"][0]["text"], arguments);
}

#[test]
fn pages_cover_the_list() {
    let mut fixture = Fixture::legacy("--tools 20 --paginate 7 --fault garbage");
    let (mut names, mut params) = (Vec::new(), json!({}));
    for id in 1.. {
        let result = fixture.ask(id, "tools/list", &params)["result"].take();
        let tools = result["tools"].as_array().expect("tools");
        assert!(tools.len() <= 7);
        names.extend(tools.iter().map(|tool| tool["name"].clone()));
        let Some(cursor) = result.get("nextCursor") else { break };
        params = json!({"cursor": cursor});
    }
    assert_eq!(names.iter().filter(|name| name.as_str().is_some_and(|name| name.starts_with("tool_"))).count(), 20);
    assert_eq!(names.last(), Some(&json!("tool_00019")));
}

#[test]
fn deliberate_exits_have_their_code() {
    let mut fixture = Fixture::start("--fault exit");
    fixture.request(1, "ping", &json!({}));
    assert_eq!(fixture.exit_code(), Some(3));
    let mut fixture = Fixture::legacy("--extras");
    fixture.request(1, "tools/call", &call("exit", &json!({})));
    assert_eq!(fixture.exit_code(), Some(3));
}
