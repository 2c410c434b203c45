//! Long results become references, which their callers read in parts.

use std::time::Duration;

use pegboard_core::Selection;
use pegboard_gateway::{GatewaySettings, OffloadSettings, Profile};
use pegboard_mcp::era::Era;
use serde_json::{Value, json};

use super::{
    tokens::{ADMIN, GUEST, token},
    world::{Legacy, Server, World, names, plain, settings},
};

const LIFETIME: Duration = Duration::from_secs(600);

fn offloading(base: GatewaySettings) -> GatewaySettings {
    let offload = OffloadSettings { tokens: 100, lifetime: LIFETIME, max_bytes: 64 << 10, program: None };
    let tokens = ["admin", "guest"].map(|name| token(name, Selection::everything()));
    GatewaySettings { offload: Some(offload), tokens: tokens.into(), ..base }
}

/// A client of either era.
enum Client<'a> {
    Legacy(Legacy),
    Modern(&'a World, usize),
}

impl Client<'_> {
    async fn request(&self, method: &str, params: Value) -> Value {
        match self {
            Self::Legacy(session) => session.request(method, params).await,
            Self::Modern(world, holder) => {
                world.modern_messages(Some(*holder), method, params, &[]).await.2.pop().expect("a response")
            }
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> Value {
        let called = self.request("tools/call", json!({"name": name, "arguments": arguments})).await;
        called["result"].clone()
    }

    /// The text of a part, or of the error.
    async fn read(&self, reference: &str, mut part: Value) -> Result<String, String> {
        part["reference"] = json!(reference);
        let result = self.call("read_result", part).await;
        let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    }
}

async fn client<'a>(world: &'a World, era: Era, holder: usize) -> Client<'a> {
    match era {
        Era::Legacy => Client::Legacy(world.legacy_as(holder).await),
        Era::Modern => Client::Modern(world, holder),
    }
}

fn reference(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str().expect("a text");
    let at = text.find("`result_").unwrap_or_else(|| panic!("no reference in {text}")) + 1;
    text[at..].split('`').next().unwrap_or_default().to_owned()
}

/// Lines that are too long together.
fn log() -> String {
    (1..=200).map(|at| format!("line {at} of the log")).collect::<Vec<_>>().join("\n")
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn a_long_result_is_read_in_parts_by_its_caller_alone() {
    for (server_era, client_era) in
        [(Era::Legacy, Era::Legacy), (Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy), (Era::Modern, Era::Modern)]
    {
        let servers = vec![Server::of(server_era, &["return"]).config("one")];
        let world = World::new(servers, offloading(plain())).await;
        let admin = client(&world, client_era, ADMIN).await;
        let listed = admin.request("tools/list", json!({})).await;
        assert_eq!(names(&listed), ["return", "read_result"], "{client_era:?}");

        let short = admin.call("return", json!({"result": text("short")})).await;
        assert_eq!(short["content"], text("short")["content"]);
        let long = admin.call("return", json!({"result": text(&log())})).await;
        let notice = long["content"][0]["text"].as_str().expect("a text");
        assert!(notice.starts_with("The result of `return` is too long to show ("), "{notice}");
        assert!(notice.contains("line 1 of the log") && !notice.contains("line 100 of the log"), "{notice}");
        let reference = reference(&long);

        let read = async |part: Value| admin.read(&reference, part).await;
        assert_eq!(read(json!({"start": 1, "end": 6})).await.as_deref(), Ok("line 1"));
        assert_eq!(read(json!({"first_line": 150, "last_line": 150})).await.as_deref(), Ok("line 150 of the log"));
        let found = read(json!({"pattern": "line 77 "})).await.expect("a part");
        assert!(found.contains("77:line 77 of the log"), "{found}");
        let whole = read(json!({})).await.expect("a part");
        assert!(whole.contains("[Truncated after character"), "an answer is bounded: {whole}");
        let wrong = read(json!({"pattern": "["})).await.expect_err("no pattern");
        assert!(wrong.starts_with("invalid `pattern`"), "{wrong}");
        let query = read(json!({"query": "."})).await.expect_err("no program");
        assert_eq!(query, "queries need the `pegboard` program, which was not found");

        for era in [Era::Legacy, Era::Modern] {
            let own = client(&world, era, ADMIN).await.read(&reference, json!({"end": 4})).await;
            assert_eq!(own.as_deref(), Ok("line"), "every session of the caller");
            let other = client(&world, era, GUEST).await.read(&reference, json!({"end": 4})).await;
            let error = other.expect_err("it is another caller's");
            assert!(error.starts_with(&format!("unknown reference `{reference}`")), "{error}");
        }
    }
}

#[tokio::test]
async fn a_token_for_single_tools_reads_its_results() {
    let mut settings = offloading(plain());
    settings.tokens[GUEST].selection = Selection::everything().allow_tools(["one:return"]);
    let world = World::new(vec![Server::of(Era::Legacy, &["return", "other"]).config("one")], settings).await;
    let guest = client(&world, Era::Modern, GUEST).await;
    let kept = reference(&guest.call("return", json!({"result": text(&log())})).await);
    let line = guest.read(&kept, json!({"first_line": 3, "last_line": 3})).await;
    assert_eq!(line.as_deref(), Ok("line 3 of the log"));
}

#[tokio::test]
async fn failures_and_structured_content() {
    let schema = json!({"type": "object", "properties": {"items": {"type": "array"}}});
    let definition = json!({"name": "return", "inputSchema": {"type": "object"}, "outputSchema": schema});
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::made(era, vec![definition.clone()]);
        let world = World::new(vec![server.config("one")], offloading(plain())).await;
        let admin = client(&world, era, ADMIN).await;
        let listed = admin.request("tools/list", json!({})).await;
        assert!(listed["result"]["tools"][0].get("outputSchema").is_none(), "clients would reject the results");

        let mut failed = text(&log());
        failed["isError"] = json!(true);
        let failed = admin.call("return", json!({"result": failed})).await;
        assert_eq!(failed["isError"], true);
        assert!(admin.read(&reference(&failed), json!({"end": 4})).await.is_ok());

        let items = json!({"items": (0..200).map(|at| format!("item {at}")).collect::<Vec<_>>()});
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let result = json!({"content": [image], "structuredContent": items});
        let result = admin.call("return", json!({"result": result})).await;
        assert!(result.get("structuredContent").is_none(), "{result}");
        assert_eq!(result["content"][1], image);
        let notice = result["content"][0]["text"].as_str().expect("a text");
        assert!(notice.contains("(JSON, ") && notice.contains("<jq filter>"), "{notice}");
        assert_eq!(admin.read(&reference(&result), json!({"end": 19})).await.as_deref(), Ok(r#"{"items":["item 0","#));
    }
}

#[tokio::test]
async fn results_expire() {
    let world = World::new(vec![Server::new(&["return"]).config("one")], offloading(plain())).await;
    for era in [Era::Legacy, Era::Modern] {
        let admin = client(&world, era, ADMIN).await;
        let reference = reference(&admin.call("return", json!({"result": text(&log())})).await);
        assert!(admin.read(&reference, json!({})).await.is_ok());
        // The clock of the runtime moves on, and runs again for the request.
        tokio::time::pause();
        tokio::time::advance(LIFETIME).await;
        tokio::time::resume();
        let error = admin.read(&reference, json!({})).await.expect_err("it has expired");
        assert!(error.contains("results are kept for 10 min"), "{error}");
    }
}

#[tokio::test]
async fn older_results_make_room() {
    let world = World::new(vec![Server::new(&["return"]).config("one")], offloading(plain())).await;
    for era in [Era::Legacy, Era::Modern] {
        let admin = client(&world, era, ADMIN).await;
        let call = async || reference(&admin.call("return", json!({"result": text(&"x ".repeat(15 << 10))})).await);
        let (first, second, third) = (call().await, call().await, call().await);
        let error = admin.read(&first, json!({"end": 1})).await.expect_err("it made room");
        assert!(error.contains("the oldest are removed above 65536 bytes in all (`offload`)"), "{error}");
        for kept in [second, third] {
            assert_eq!(admin.read(&kept, json!({"end": 1})).await.as_deref(), Ok("x"));
        }
        let huge = admin.call("return", json!({"result": text(&"x".repeat(100 << 10))})).await;
        assert_eq!(huge["isError"], true);
        assert_eq!(
            huge["content"][0]["text"],
            "`return` was called, but its result is 102400 bytes, over the limit of 65536 (`offload.maxBytes`); ask the \
             tool for less"
        );
    }
}

#[tokio::test]
async fn every_dialect_lists_it_and_no_tool_takes_its_name() {
    use pegboard_discovery::DialectName;
    for dialect in DialectName::ALL {
        let server = Server::new(&["return", "read_result"]);
        let world = World::new(vec![server.config("one")], offloading(settings(Profile::Dialect(dialect)))).await;
        for era in [Era::Legacy, Era::Modern] {
            let admin = client(&world, era, ADMIN).await;
            let listed = names(&admin.request("tools/list", json!({})).await);
            assert_eq!(listed.iter().filter(|name| *name == "read_result").count(), 1, "{dialect:?} {listed:?}");
            let error = admin.read("result_x", json!({})).await.expect_err("no such result");
            assert!(error.starts_with("unknown reference `result_x`"), "{error}");
        }
        assert_eq!(server.calls(), [], "{dialect:?}");
    }
    // Models call it like any other tool.
    let world = World::new(vec![Server::new(&["return"]).config("one")], {
        offloading(settings(Profile::Dialect(DialectName::Bridge)))
    })
    .await;
    let admin = client(&world, Era::Modern, ADMIN).await;
    let wrapped = json!({"name": "return", "arguments": {"result": text(&log())}});
    let result = admin.call("call_tool", wrapped).await;
    let notice = result["content"][0]["text"].as_str().expect("a text");
    assert!(notice.starts_with("The result of `return` is"), "{notice}");
    let part = json!({"name": "read_result", "arguments": {"reference": reference(&result), "end": 6}});
    assert_eq!(admin.call("call_tool", part).await["content"][0]["text"], "line 1");
}

#[tokio::test]
async fn nothing_is_offloaded_by_default() {
    let world = World::new(vec![Server::new(&["large"]).config("one")], plain()).await;
    let session = world.legacy().await;
    assert_eq!(names(&session.request("tools/list", json!({})).await), ["large"]);
    let result = session.request("tools/call", json!({"name": "large"})).await;
    assert_eq!(result["result"]["content"][0]["text"].as_str().map(str::len), Some(super::world::LARGE));
}
