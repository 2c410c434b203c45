//! Clients that come back: after a restart, after a crash, after a long time.

use std::fs;

use serde_json::{Value, json};

use super::{
    Legacy, fixture, names,
    starting::{Stage, end},
};

fn config(section: Value) -> Value {
    let mut section = section;
    section["exposure"] = "always".into();
    json!({"mcpServers": {"one": fixture(&["--extras"]), "two": fixture(&["--tools", "30"])}, "pegboard": section})
}

async fn listed(session: &Legacy) -> Vec<String> {
    names(&session.request("tools/list", json!({})).await, "tools")
}

/// The conversations on the disk.
fn kept(stage: &Stage) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(stage.state().join("sessions")).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "session")).collect()
}

/// Loads two tools in each dialect that loads them.
async fn load(session: &Legacy, dialect: &str) {
    let calls = match dialect {
        "explicit" => vec![("add_tool", json!({"tool_names": ["one___echo", "two___tool_00007"]}))],
        "select" => vec![("tool_search", json!({"query": "select:one___echo,two___tool_00007"}))],
        _ => vec![("search_available_tools", json!({"query": "echo a message"}))],
    };
    for (tool, arguments) in calls {
        let reply = session.call(tool, arguments).await;
        assert_ne!(reply.result()["isError"], true, "{reply:?}");
    }
}

#[tokio::test]
async fn what_was_loaded_is_there_after_a_restart_and_after_a_crash() {
    for dialect in ["explicit", "select", "gateway"] {
        let stage = Stage::new(match dialect {
            "explicit" => "back-explicit",
            "select" => "back-select",
            _ => "back-gateway",
        });
        let settings = config(json!({"dialect": dialect}));
        let served = stage.serve(&settings).await;
        let session = served.legacy().await;
        let bare = listed(&session).await;
        load(&session, dialect).await;
        let loaded = listed(&session).await;
        assert_ne!(loaded, bare, "{dialect}");
        end(served).await;
        let mut served = stage.serve(&settings).await;
        let session = session.moved_to(&served.url);
        assert_eq!(listed(&session).await, loaded, "{dialect} after a restart");
        served.signal("KILL");
        served.ended().await;
        let served = stage.serve(&settings).await;
        let session = session.moved_to(&served.url);
        // Somebody may have been told nothing of what happened meanwhile.
        let mut events = session.stream().await;
        assert_eq!(events.message().await["method"], "notifications/prompts/list_changed");
        assert_eq!(listed(&session).await, loaded, "{dialect} after a crash");
        assert_eq!(session.call("one___echo", json!({"message": "x"})).await.status, 200);
        assert_eq!(kept(&stage).len(), 1);
        assert_eq!(session.end().await, 200);
        assert_eq!(session.request("tools/list", json!({})).await.status, 404);
        end(served).await;
        assert!(kept(&stage).is_empty(), "one that was ended is forgotten");
    }
}

#[tokio::test]
async fn a_conversation_is_for_whoever_began_it() {
    let stage = Stage::new("back-tokens");
    let with = |tokens: Value| config(json!({"dialect": "explicit", "tokens": tokens}));
    let ann = json!({"name": "ann", "token": "secret-token-of-ann"});
    let bob = json!({"name": "bob", "token": "secret-token-of-bob"});
    let served = stage.serve(&with(json!([ann, bob]))).await;
    let session = Legacy::begin_as(&served.url, "test", json!({}), Some("secret-token-of-ann")).await;
    load(&session, "explicit").await;
    let loaded = listed(&session).await;
    end(served).await;
    for file in kept(&stage) {
        let text = fs::read_to_string(&file).expect("a file");
        assert!(!text.contains("secret-") && !text.contains(&session.session), "{text}");
        assert!(!file.to_string_lossy().contains(&session.session));
    }
    // In another order of tokens, for the same holder.
    let served = stage.serve(&with(json!([bob, ann]))).await;
    let ping = async |token: &str| {
        let request = super::client::http().post(&served.url).header("mcp-session-id", &session.session);
        let request = request.bearer_auth(token).body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(ping("secret-token-of-bob").await, 404);
    assert_eq!(ping("secret-token-of-ann").await, 200);
    assert_eq!(ping("secret-token-of-bob").await, 404);
    let url = served.url.clone();
    let session = session.moved_to(&url);
    assert_eq!(listed(&session).await, loaded);
    // Whoever may see less finds less.
    let narrowed = json!({"name": "ann", "token": "secret-token-of-ann", "selection": {"tools": ["one:echo"]}});
    end(served).await;
    let served = stage.serve(&with(json!([narrowed]))).await;
    let session = session.moved_to(&served.url);
    let fewer = listed(&session).await;
    assert!(fewer.contains(&"one___echo".to_owned()) && !fewer.contains(&"two___tool_00007".to_owned()), "{fewer:?}");
}

#[tokio::test]
async fn what_is_damaged_old_or_strange_is_not_found() {
    let stage = Stage::new("back-damaged");
    let settings = config(json!({"dialect": "explicit"}));
    let served = stage.serve(&settings).await;
    let session = served.legacy().await;
    end(served).await;
    let file = kept(&stage).pop().expect("one conversation");
    let good = fs::read(&file).expect("a file");
    let found = async |settings: &Value, session: Legacy| {
        let served = stage.serve(settings).await;
        let session = session.moved_to(&served.url);
        let status = session.request("tools/list", json!({})).await.status;
        end(served).await;
        (status, session)
    };
    fs::write(&file, &good[..good.len() - 1]).expect("written");
    let (status, session) = found(&settings, session).await;
    assert_eq!(status, 404, "cut");
    fs::write(&file, b"").expect("written");
    let (status, session) = found(&settings, session).await;
    assert_eq!(status, 404, "empty");
    fs::write(&file, &good).expect("written");
    let (status, mut session) = found(&settings, session).await;
    assert_eq!(status, 200);
    // Not used for longer than it is to be kept.
    let day = std::time::Duration::from_secs(25 * 3600);
    let long_ago = std::time::SystemTime::now() - day;
    fs::OpenOptions::new().append(true).open(&file).and_then(|file| file.set_modified(long_ago)).expect("marked");
    let (status, again) = found(&settings, session).await;
    session = again;
    assert_eq!(status, 404, "old");
    // A clock that was wrong and jumped back makes nothing old.
    fs::write(&file, &good).expect("written");
    let later = std::time::SystemTime::now() + day;
    fs::OpenOptions::new().append(true).open(&file).and_then(|file| file.set_modified(later)).expect("marked");
    let (status, mut session) = found(&settings, session).await;
    assert_eq!(status, 200, "from the future");
    for strange in ["../../etc/passwd", "x", "%00", "0123456789abcdef0123456789abcdeg"] {
        session.session = strange.to_owned();
        let (status, again) = found(&settings, session).await;
        session = again;
        assert_eq!(status, 404, "{strange}");
    }
}

#[tokio::test]
async fn conversations_that_gave_way_come_back() {
    let stage = Stage::new("back-room");
    let served = stage.serve(&config(json!({"dialect": "explicit", "maxSessions": 2}))).await;
    let first = served.legacy().await;
    load(&first, "explicit").await;
    let loaded = listed(&first).await;
    let _others = [served.legacy().await, served.legacy().await, served.legacy().await];
    served.logged("a conversation makes room for a newer one").await;
    assert_eq!(listed(&first).await, loaded);
    served.logged("a conversation goes on").await;
}

#[tokio::test]
async fn a_full_disk_costs_the_memory_of_conversations_and_nothing_else() {
    let stage = Stage::new("back-full");
    let limits = config(json!({"dialect": "explicit"}));
    let file = stage.state().with_file_name("pegboard.json");
    fs::write(&file, limits.to_string()).expect("a file");
    // Nothing may grow beyond one byte: what a full disk is to a program.
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec '{}' serve '{}' --listen 127.0.0.1:0 --state '{}'",
        env!("CARGO_BIN_EXE_pegboard"),
        file.display(),
        stage.state().display()
    );
    let mut child = tokio::process::Command::new("/bin/bash")
        .args(["-c", &script])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let log = super::follow(child.stderr.take().expect("a pipe"));
    let mut following = log.clone();
    let listens = following.wait_for(|log| log.contains("listening on "));
    let text = tokio::time::timeout(super::PATIENCE, listens).await.expect("in time").expect("a log").clone();
    let url = text.split("listening on ").nth(1).and_then(|rest| rest.lines().next()).expect("an address").to_owned();
    let session = Legacy::begin(&url, "test", json!({})).await;
    load(&session, "explicit").await;
    assert!(listed(&session).await.contains(&"one___echo".to_owned()));
    assert_eq!(session.call("one___echo", json!({"message": "x"})).await.status, 200);
    let log = log.borrow().clone();
    assert!(log.contains("cannot be kept for the next start"), "{log}");
    super::kill(child.id().expect("it runs"), "TERM");
    child.wait().await.expect("it ends");
}
