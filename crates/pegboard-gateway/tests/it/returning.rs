//! Clients that come back: after a restart, after a crash, after a long time.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use pegboard_core::Selection;
use pegboard_discovery::DialectName;
use pegboard_gateway::{GatewaySettings, Profile};
use serde_json::json;

use super::{
    tokens::token,
    world::{Folder, Legacy, Server, World, settings},
};

/// A folder of sessions.
struct Kept(Folder);

impl Kept {
    fn new(test: &str) -> Self {
        Self(Folder::new(&format!("returning-{test}")))
    }

    /// A gateway that keeps its sessions here.
    async fn world(&self, settings: GatewaySettings) -> World {
        let many: Vec<String> = (0..60).map(|number| format!("tool_{number:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let servers = vec![Server::new(&["echo", "wait"]).config("one"), Server::new(&many).config("two")];
        World::new(servers, GatewaySettings { sessions: Some(self.0.path().to_owned()), ..settings }).await
    }

    /// The files of the sessions.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path()).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "session")).collect()
    }
}

fn of(dialect: DialectName) -> GatewaySettings {
    settings(Profile::Dialect(dialect))
}

/// Loads tools in each dialect that loads them.
async fn load(session: &Legacy, dialect: DialectName) {
    let (tool, arguments) = match dialect {
        DialectName::Explicit => ("add_tool", json!({"tool_names": ["one___echo", "two___tool_07"]})),
        DialectName::Select => ("tool_search", json!({"query": "select:one___echo,two___tool_07"})),
        _ => ("search_available_tools", json!({"query": "echo"})),
    };
    let reply = session.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
    assert!(reply.get("result").is_some() && reply["result"]["isError"] != true, "{reply}");
}

#[tokio::test]
async fn loaded_tools_are_there_after_a_restart_and_after_a_crash() {
    for dialect in [DialectName::Explicit, DialectName::Select, DialectName::Gateway] {
        let folder = Kept::new(dialect.as_str());
        let first = folder.world(of(dialect)).await;
        let session = first.legacy().await;
        let bare = session.names().await;
        load(&session, dialect).await;
        let loaded = session.names().await;
        assert_ne!(loaded, bare, "{dialect:?}");
        first.gateway.stop().await;
        let second = folder.world(of(dialect)).await;
        let session = session.moved_to(&second);
        assert_eq!(session.names().await, loaded, "{dialect:?} after a restart");
        // The second one is not stopped, as if it had crashed.
        let third = folder.world(of(dialect)).await;
        let session = session.moved_to(&third);
        // The client may have missed notifications.
        let mut events = session.stream().await;
        assert_eq!(events.message().await["method"], "notifications/prompts/list_changed");
        assert_eq!(session.names().await, loaded, "{dialect:?} after a crash");
        assert_eq!(session.call("one___echo", "{}").await, "done");
        assert_eq!(folder.files().len(), 1);
        assert_eq!(session.end().await, 200);
        assert!(folder.files().is_empty(), "a session that was ended is not kept");
        assert_eq!(session.status("tools/list", json!({})).await, 404);
    }
}

#[tokio::test]
async fn a_session_is_kept_for_the_token_that_began_it() {
    let folder = Kept::new("tokens");
    let with = |tokens| GatewaySettings { tokens, ..of(DialectName::Explicit) };
    let (ann, bob) = (token("ann", Selection::everything()), token("bob", Selection::everything()));
    let world = folder.world(with(vec![ann.clone(), bob.clone()])).await;
    let session = world.legacy_as(0).await;
    load(&session, DialectName::Explicit).await;
    let loaded = session.names().await;
    world.gateway.stop().await;
    assert_eq!(folder.files().len(), 1);
    for file in folder.files() {
        let text = fs::read_to_string(&file).expect("a file");
        assert!(!text.contains("secret-") && !text.contains(session.id()), "{text}");
        assert!(!file.to_string_lossy().contains(session.id()));
    }
    // In another order of tokens, for the same holder.
    let world = folder.world(with(vec![bob, ann])).await;
    let ping = async |holder: usize| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        world.post_as(Some(holder), &[("mcp-session-id", session.id())], &body).await.0
    };
    assert_eq!([ping(0).await, ping(1).await, ping(0).await], [404, 200, 404]);
    let session = session.moved_to(&world).held_by(1);
    assert_eq!(session.names().await, loaded);
    world.gateway.stop().await;
    // A token that may see less finds less.
    let narrowed = token("ann", Selection::everything().allow_tools(["one:echo"]));
    let world = folder.world(with(vec![narrowed])).await;
    let fewer = session.moved_to(&world).held_by(0).names().await;
    assert!(fewer.contains(&"one___echo".to_owned()) && !fewer.contains(&"two___tool_07".to_owned()), "{fewer:?}");
}

#[tokio::test]
async fn a_session_that_is_damaged_old_or_unknown_is_not_found() {
    let folder = Kept::new("damaged");
    let world = folder.world(of(DialectName::Explicit)).await;
    let session = world.legacy().await;
    let id = session.id().to_owned();
    world.gateway.stop().await;
    let file = folder.files().pop().expect("one session");
    let good = fs::read(&file).expect("a file");
    let found = async |id: &str| {
        let world = folder.world(of(DialectName::Explicit)).await;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        world.post(&[("mcp-session-id", id)], &body).await.0
    };
    let write = |bytes: &[u8]| fs::write(&file, bytes).expect("written");
    let mark = |time| {
        fs::OpenOptions::new().append(true).open(&file).and_then(|file| file.set_modified(time)).expect("marked");
    };
    write(&good[..good.len() - 1]);
    assert_eq!(found(&id).await, 404, "cut");
    write(b"");
    assert_eq!(found(&id).await, 404, "empty");
    write(&good);
    assert_eq!(found(&id).await, 200);
    // Not used for longer than it is to be kept.
    let day = Duration::from_secs(25 * 3600);
    mark(SystemTime::now() - day);
    assert_eq!(found(&id).await, 404, "old");
    // A clock that was wrong and jumped back makes nothing old.
    write(&good);
    mark(SystemTime::now() + day);
    assert_eq!(found(&id).await, 200, "from the future");
    for strange in ["../../etc/passwd", "x", "%00", "0123456789abcdef0123456789abcdeg"] {
        assert_eq!(found(strange).await, 404, "{strange}");
    }
}

#[tokio::test]
async fn sessions_that_made_room_come_back() {
    let folder = Kept::new("room");
    let world = folder.world(GatewaySettings { max_sessions: 2, ..of(DialectName::Explicit) }).await;
    let first = world.legacy().await;
    load(&first, DialectName::Explicit).await;
    let loaded = first.names().await;
    for _ in 0..3 {
        world.legacy().await;
    }
    assert_eq!((world.gateway.session_count(), folder.files().len()), (2, 4));
    assert_eq!(first.names().await, loaded);
}
