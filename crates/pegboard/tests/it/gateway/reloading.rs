//! The configuration changes while the gateway runs.

use serde_json::{Value, json};

use super::{
    Legacy, Served,
    client::Events,
    fixture, gone, modern_with, names,
    starting::{Stage, tools},
    text,
};

fn config(servers: &Value) -> Value {
    json!({"mcpServers": servers, "pegboard": {"exposure": "never", "prefix": "always"}})
}

/// Waits for the news that the tools have changed.
async fn changed(events: &mut Events) {
    while events.message().await["method"] != "notifications/tools/list_changed" {}
}

async fn listed(session: &Legacy) -> Vec<String> {
    names(&session.request("tools/list", json!({})).await, "tools")
}

/// Lists until the list is as it should be; what is new is told of a little earlier or later.
async fn lists(session: &Legacy, events: &mut Events, is_right: impl Fn(&[String]) -> bool) {
    while !is_right(&listed(session).await) {
        changed(events).await;
    }
}

#[tokio::test]
async fn servers_come_change_and_go_alone() {
    let stage = Stage::new("reload");
    let stays = stage.puppet("stays", "--extras");
    let before = json!({
        "stays": stays.entry(), "changes": fixture(&["--tools", "2"]), "goes": fixture(&["--tools", "1"])
    });
    let served = Served::start("reload", &config(&before)).await;
    let session = served.legacy().await;
    let mut events = session.stream().await;
    assert!(listed(&session).await.contains(&"goes___tool_00000".to_owned()));
    let after = json!({
        "stays": stays.entry(), "changes": fixture(&["--tools", "4"]), "comes": fixture(&["--tools", "1"])
    });
    assert!(served.reconfigure(&config(&after).to_string()).await);
    let line = served.logged("the configuration was taken over").await;
    for part in ["added=\"comes\"", "changed=\"changes\"", "removed=\"goes\"", "settings=false"] {
        assert!(line.contains(part), "{line}");
    }
    lists(&session, &mut events, |names| {
        let has = |name: &str| names.iter().any(|one| one == name);
        has("comes___tool_00000") && has("changes___tool_00003") && !has("goes___tool_00000") && has("stays___echo")
    })
    .await;
    let reply = session.call("comes___tool_00000", json!({})).await;
    assert_eq!(reply.result()["isError"], Value::Null, "{reply:?}");
    assert_eq!(stays.pids().len(), 1, "a server of which nothing changed was started again");
    // The same content in another order of keys is no change.
    assert!(served.reconfigure(&format!("// the same\n{}", config(&after))).await);
    served.logged("nothing is different").await;
    assert_eq!(stays.pids().len(), 1);
}

#[tokio::test]
async fn a_bad_file_is_refused_and_the_old_one_stays() {
    let good = config(&json!({"one": fixture(&["--extras"])}));
    let served = Served::start("reload-bad", &good).await;
    let session = served.legacy().await;
    let before = listed(&session).await;
    for (bad, reason) in [
        ("{", "has mistakes"),
        (r#"{"mcpServers": {"one": {"comand": "x"}}}"#, "comand"),
        (r#"{"mcpServers": {"one": {"command": "${NOT_SET_ANYWHERE}"}}}"#, "NOT_SET_ANYWHERE"),
        ("\u{0}\u{1}", "has mistakes"),
    ] {
        assert!(!served.reconfigure(bad).await, "{bad}");
        let line = served.log().lines().rfind(|line| line.contains("not taken over")).unwrap_or_default().to_owned();
        assert!(line.contains(reason), "{line}");
        assert_eq!(listed(&session).await, before);
    }
    // Not even the file.
    std::fs::remove_file(served.folder().join("pegboard.json")).expect("it was there");
    served.logged("cannot read").await;
    assert_eq!(listed(&session).await, before);
    let more = config(&json!({"one": fixture(&["--extras"]), "two": fixture(&["--tools", "1"])}));
    assert!(served.reconfigure(&more.to_string()).await);
    served.logged("added=\"two\"").await;
}

#[tokio::test]
async fn calls_under_way_are_finished_and_new_ones_wait() {
    let stage = Stage::new("reload-calls");
    let one = stage.puppet("one", "--extras");
    let entry = |description: &str| {
        let mut entry = one.entry();
        entry["description"] = description.into();
        config(&json!({"one": entry}))
    };
    let served = Served::start("reload-calls", &entry("before")).await;
    let session = served.legacy().await;
    let slow = session.call("one___slow", json!({"ms": 1500}));
    let change = async {
        served.logged("slow: started").await;
        assert!(served.reconfigure(&entry("after").to_string()).await);
        // Nothing else than the words has changed, so that its tools are still known.
        session.call("one___echo", json!({"message": "to the new one"})).await
    };
    let (slow, echo) = tokio::join!(slow, change);
    assert_eq!(slow.result()["isError"], Value::Null, "{slow:?}");
    assert!(text(&echo).contains("to the new one"), "{echo:?}");
    let pids = one.pids();
    assert_eq!(pids.len(), 2);
    gone(pids[0]).await;
}

#[tokio::test]
async fn who_may_see_what_changes_under_way() {
    let with = |tokens: Value| {
        json!({
            "mcpServers": {"one": fixture(&["--extras"])},
            "pegboard": {"exposure": "never", "tokens": tokens}
        })
    };
    let all = json!([{"name": "ann", "token": "secret-token-of-ann"}, {"name": "bob", "token": "secret-token-of-bob"}]);
    let served = Served::start("reload-tokens", &with(all)).await;
    let begin = async |token| Legacy::begin_as(&served.url, "test", json!({}), Some(token)).await;
    let (ann, bob) = (begin("secret-token-of-ann").await, begin("secret-token-of-bob").await);
    let (mut for_ann, mut for_bob) = (ann.stream().await, bob.stream().await);
    // Bob is gone, somebody has his place in the list, and Ann may see less.
    let fewer = json!([
        {"name": "cat", "token": "secret-token-of-cat"},
        {"name": "ann", "token": "secret-token-of-ann", "selection": {"tools": ["one:echo"]}}
    ]);
    assert!(served.reconfigure(&with(fewer).to_string()).await);
    lists(&ann, &mut for_ann, |names| names == ["echo"]).await;
    assert!(ann.call("slow", json!({})).await.response.to_string().contains("no tool"));
    assert_eq!(bob.request("tools/list", json!({})).await.status, 401);
    while for_bob.next().await.is_some() {}
    let cat = begin("secret-token-of-cat").await;
    assert!(listed(&cat).await.len() > 5);
    let stolen = super::client::http().post(&served.url).header("mcp-session-id", &bob.session);
    let stolen = stolen.bearer_auth("secret-token-of-cat").body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(stolen.send().await.expect("an answer").status().as_u16(), 404);
    let headers = [("authorization", "Bearer secret-token-of-bob")];
    assert_eq!(modern_with(&served.url, "tools/list", json!({}), &json!({}), &headers).await.status, 401);
    // Back again, he begins anew.
    let back = json!([{"name": "bob", "token": "secret-token-of-bob"}]);
    assert!(served.reconfigure(&with(back).to_string()).await);
    assert_eq!(bob.request("tools/list", json!({})).await.status, 404);
    assert!(listed(&begin("secret-token-of-bob").await).await.len() > 5);
    assert!(!served.log().contains("secret-"), "a secret in the log");
}

#[tokio::test]
async fn settings_change_for_conversations_that_go_on() {
    let with = |section: Value| json!({"mcpServers": {"one": fixture(&["--extras"])}, "pegboard": section});
    let served = Served::start("reload-settings", &with(json!({"exposure": "never"}))).await;
    let session = served.legacy().await;
    let mut events = session.stream().await;
    assert!(listed(&session).await.len() > 5);
    let filter = json!([{"type": "tool_filter", "config": {"allow": ["echo"]}}]);
    let mut steps = with(json!({"exposure": "never"}));
    steps["middleware"] = filter;
    let search = with(json!({"exposure": "always"}));
    assert!(served.reconfigure(&search.to_string()).await);
    lists(&session, &mut events, |names| names == ["search_tools", "call_tool"]).await;
    assert!(served.reconfigure(&with(json!({"exposure": "never", "prefix": "always"})).to_string()).await);
    lists(&session, &mut events, |names| names.contains(&"one___echo".to_owned())).await;
    assert!(served.reconfigure(&steps.to_string()).await, "{}", served.log());
    lists(&session, &mut events, |names| names == ["echo"]).await;
    assert_eq!(tools(&served).await, ["echo"]);
}

#[tokio::test]
async fn other_files_count_as_well() {
    let stage = Stage::new("reload-env");
    let one = stage.puppet("one", "--extras");
    let file = stage.state().with_file_name("one.env");
    std::fs::write(&file, "A=1\n").expect("a file");
    let mut entry = one.entry();
    entry["envFile"] = json!(file);
    let served = Served::start("reload-env", &config(&json!({"one": entry}))).await;
    assert!(!tools(&served).await.is_empty());
    std::fs::write(&file, "A=another value\n").expect("a file");
    served.logged("changed=\"one\"").await;
    assert!(!tools(&served).await.is_empty());
    gone(one.pids()[0]).await;
}

/// The model that ships with the program.
fn shipped() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../pegboard-engine/model/pegboard.model");
    std::fs::read(path).expect("a model")
}

/// The same model, which is never confident: it withholds whatever it finds.
fn doubtful() -> Vec<u8> {
    let shipped = shipped();
    let length = u32::from_le_bytes(shipped[12..16].try_into().expect("four bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&shipped[16..16 + length]).expect("JSON");
    header["confidence"]["bias"] = json!(-1000);
    header["confidence"]["words_bias"] = json!(-1000);
    let header = header.to_string();
    let mut bytes = shipped[..12].to_vec();
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(&shipped[16 + length..shipped.len() - 8]);
    // As `train/FORMAT.md` has it.
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let words = bytes.chunks(8).map(word).chain([bytes.len() as u64]);
    let mix = |sum: u64, word: u64| (sum ^ word).rotate_left(29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let sum = words.fold(0xCBF2_9CE4_8422_2325, mix);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// A gateway over the model at `file`.
fn with_model(file: &std::path::Path, servers: &[&str]) -> Value {
    let servers: Value = servers.iter().map(|name| ((*name).to_owned(), fixture(&["--extras"]))).collect();
    json!({"mcpServers": servers, "pegboard": {"exposure": "always", "model": file}})
}

/// Whether a tool is found that the query does not name: names are found with any model.
async fn finds(session: &Legacy) -> bool {
    text(&session.call("search_tools", json!({"query": "return a picture"})).await).contains("Returns a picture")
}

/// Searches until there is something, or nothing.
async fn until_finds(session: &Legacy, expected: bool) {
    let wait = async {
        while finds(session).await != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::PATIENCE, wait).await.expect("the other model");
}

#[tokio::test]
async fn another_model_at_the_same_place_is_taken_over() {
    let stage = Stage::new("reload-model");
    let file = stage.state().with_file_name("own.model");
    let (good, other) = (shipped(), doubtful());
    std::fs::write(&file, &good).expect("a file");
    let served = Served::start("reload-model", &with_model(&file, &["one"])).await;
    let session = served.legacy().await;
    assert!(finds(&session).await);
    std::fs::write(&file, &other).expect("a file");
    until_finds(&session, false).await;
    // What was read before stays while the file is damaged, and keeps nothing else from changing.
    std::fs::write(&file, &good[..good.len() / 2]).expect("a file");
    served.logged("the model that was read before stays: ").await;
    served.reconfigure(&with_model(&file, &["one", "two"]).to_string()).await;
    served.logged("added=\"two\"").await;
    assert!(!finds(&session).await);
    std::fs::write(&file, &good).expect("a file");
    until_finds(&session, true).await;
}

#[tokio::test]
async fn a_model_that_is_still_being_copied_is_waited_for() {
    let stage = Stage::new("reload-new-model");
    let (file, next) = (stage.state().with_file_name("own.model"), stage.state().with_file_name("next.model"));
    let other = doubtful();
    std::fs::write(&file, shipped()).expect("a file");
    let served = Served::start("reload-new-model", &with_model(&file, &["one"])).await;
    let session = served.legacy().await;
    std::fs::write(&next, &other[..other.len() / 2]).expect("a file");
    assert!(!served.reconfigure(&with_model(&next, &["one"]).to_string()).await);
    assert!(finds(&session).await);
    std::fs::write(&next, &other).expect("a file");
    until_finds(&session, false).await;
}
