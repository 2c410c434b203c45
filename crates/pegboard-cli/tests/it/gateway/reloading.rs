//! Files of the configuration change while the gateway runs. What a change means for clients is
//! tested in `pegboard-gateway`.

use serde_json::{Value, json};

use super::{
    Legacy, Served, fixture, modern_with, names,
    starting::{Stage, tools},
    text, wait_until_gone,
};

fn config(servers: &Value) -> Value {
    json!({"mcpServers": servers, "pegboard": {"exposure": "never", "prefix": "always"}})
}

async fn listed(session: &Legacy) -> Vec<String> {
    names(&session.request("tools/list", json!({})).await, "tools")
}

#[tokio::test]
async fn another_file_is_taken_over() {
    let stage = Stage::new("reload");
    let stays = stage.controlled_server("stays", "--extras");
    let before = json!({
        "stays": stays.entry(), "changes": fixture(&["--tools", "2"]), "goes": fixture(&["--tools", "1"])
    });
    let served = Served::start("reload", &config(&before)).await;
    let session = served.legacy().await;
    let after = json!({
        "stays": stays.entry(), "changes": fixture(&["--tools", "4"]), "comes": fixture(&["--tools", "1"])
    });
    assert!(served.reconfigure(&config(&after).to_string()).await);
    let line = served.wait_for_log("configuration reloaded").await;
    for part in ["added=\"comes\"", "changed=\"changes\"", "removed=\"goes\"", "settings=false"] {
        assert!(line.contains(part), "{line}");
    }
    // The same content in another order of keys is not a change.
    assert!(served.reconfigure(&format!("// the same\n{}", config(&after))).await);
    served.wait_for_log("configuration reloaded without changes").await;
    assert!(listed(&session).await.contains(&"stays___echo".to_owned()));
    assert_eq!(stays.pids().len(), 1, "a server of which nothing changed was started again");
}

#[tokio::test]
async fn a_bad_file_is_refused_and_the_old_one_stays() {
    let good = config(&json!({"one": fixture(&["--extras"])}));
    let served = Served::start("reload-bad", &good).await;
    let session = served.legacy().await;
    let before = listed(&session).await;
    for (bad, reason) in [
        ("{", "has errors"),
        (r#"{"mcpServers": {"one": {"comand": "x"}}}"#, "comand"),
        (r#"{"mcpServers": {"one": {"command": "${NOT_SET_ANYWHERE}"}}}"#, "NOT_SET_ANYWHERE"),
        ("\u{0}\u{1}", "has errors"),
    ] {
        assert!(!served.reconfigure(bad).await, "{bad}");
        let line =
            served.log().lines().rfind(|line| line.contains("configuration rejected")).unwrap_or_default().to_owned();
        assert!(line.contains(reason), "{line}");
        assert_eq!(listed(&session).await, before);
    }
    // Not even the file.
    std::fs::remove_file(served.folder().join("pegboard.json")).expect("it was there");
    served.wait_for_log("no configuration file").await;
    assert_eq!(listed(&session).await, before);
    let more = config(&json!({"one": fixture(&["--extras"]), "two": fixture(&["--tools", "1"])}));
    assert!(served.reconfigure(&more.to_string()).await);
    served.wait_for_log("added=\"two\"").await;
}

#[tokio::test]
async fn tokens_of_another_file_open_the_door() {
    let with = |name: &str| {
        let tokens = json!([{"name": name, "token": format!("secret-token-of-{name}")}]);
        json!({
            "mcpServers": {"one": fixture(&["--extras"])},
            "pegboard": {"exposure": "never", "tokens": tokens}
        })
    };
    let served = Served::start("reload-tokens", &with("ann")).await;
    let status = async |name: &str| {
        let bearer = format!("Bearer secret-token-of-{name}");
        modern_with(&served.url, "tools/list", json!({}), &json!({}), &[("authorization", &bearer)]).await.status
    };
    assert_eq!((status("ann").await, status("bob").await), (200, 401));
    assert!(served.reconfigure(&with("bob").to_string()).await);
    assert_eq!((status("ann").await, status("bob").await), (401, 200));
    assert!(!served.log().contains("secret-"), "a secret in the log");
}

#[tokio::test]
async fn other_files_count_as_well() {
    let stage = Stage::new("reload-env");
    let one = stage.controlled_server("one", "--extras");
    let file = stage.state().with_file_name("one.env");
    std::fs::write(&file, "A=1\n").expect("a file");
    let mut entry = one.entry();
    entry["envFile"] = json!(file);
    let served = Served::start("reload-env", &config(&json!({"one": entry}))).await;
    assert!(!tools(&served).await.is_empty());
    std::fs::write(&file, "A=another value\n").expect("a file");
    served.wait_for_log("changed=\"one\"").await;
    assert!(!tools(&served).await.is_empty());
    wait_until_gone(one.pids()[0]).await;
}

/// Returns the built-in model.
fn shipped() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../pegboard-engine/model/pegboard.model");
    std::fs::read(path).expect("a model")
}

/// Returns the same model with no confidence: it withholds all hits.
fn doubtful() -> Vec<u8> {
    let shipped = shipped();
    let length = u32::from_le_bytes(shipped[12..16].try_into().expect("four bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&shipped[16..16 + length]).expect("JSON");
    for rule in ["short", "long", "words"] {
        header["confidence"][rule]["bias"] = json!(-1000);
    }
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

/// Returns a configuration with the model at `file`.
fn with_model(file: &std::path::Path, servers: &[&str]) -> Value {
    let servers: Value = servers.iter().map(|name| ((*name).to_owned(), fixture(&["--extras"]))).collect();
    json!({"mcpServers": servers, "pegboard": {"exposure": "always", "model": file}})
}

/// Returns whether a tool is found that the query does not name: names are found with any model.
async fn finds(session: &Legacy) -> bool {
    text(&session.call("search_tools", json!({"query": "return a picture"})).await).contains("Returns a picture")
}

/// Searches until there is a hit, or none.
async fn wait_until_found(session: &Legacy, expected: bool) {
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
    wait_until_found(&session, false).await;
    // The previous model stays while the file is damaged, and other changes are still applied.
    std::fs::write(&file, &good[..good.len() / 2]).expect("a file");
    served.wait_for_log("model file rejected, previous model kept: ").await;
    served.reconfigure(&with_model(&file, &["one", "two"]).to_string()).await;
    served.wait_for_log("added=\"two\"").await;
    assert!(!finds(&session).await);
    std::fs::write(&file, &good).expect("a file");
    wait_until_found(&session, true).await;
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
    wait_until_found(&session, false).await;
}

#[tokio::test]
async fn a_new_server_without_its_variable_is_added_as_failed() {
    let served = Served::start("reload-missing", &config(&json!({"one": fixture(&["--extras"])}))).await;
    let broken = json!({"command": "x", "args": ["${NOT_SET_ANYWHERE}"]});
    let more = config(&json!({"one": fixture(&["--extras"]), "two": broken}));
    assert!(served.reconfigure(&more.to_string()).await);
    let line = served.wait_for_log("server not started").await;
    assert!(line.contains("server=\"two\"") && line.contains("NOT_SET_ANYWHERE"), "{line}");
    // A further change is not rejected because of it.
    let other = config(&json!({"one": fixture(&["--extras", "--tools", "3"]), "two": more["mcpServers"]["two"]}));
    assert!(served.reconfigure(&other.to_string()).await);
}
