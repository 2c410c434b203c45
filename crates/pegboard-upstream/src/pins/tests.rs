use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::PathBuf,
    sync::Arc,
    thread,
};

use pegboard_core::Secret;
use pegboard_mcp::json::Raw;
use proptest::prelude::*;

use super::*;
use crate::config::{HttpKind, NewServers, Pinning, TransportConfig};

/// A folder for one test, gone afterwards.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-pins-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Pins {
        Pins::at(self.0.clone())
    }

    /// What waits, in words.
    fn waiting(&self) -> Vec<String> {
        let waiting = self.open().waiting().expect("a folder");
        waiting.iter().map(|pin| format!("{} {}", pin.report.kind.as_str(), pin.report.tool)).collect()
    }

    fn approve(&self, tools: &[&str]) {
        let waiting = self.open().waiting().expect("a folder");
        let chosen: Vec<&WaitingPin> =
            waiting.iter().filter(|pin| tools.is_empty() || tools.contains(&pin.report.tool.as_str())).collect();
        self.open().approve(&chosen).expect("written");
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).expect("a folder").flatten().map(|entry| entry.path());
        files.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn server(pinning: Pinning) -> ServerConfig {
    let transport =
        TransportConfig::Stdio { command: "server".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
    ServerConfig { pinning: Some(pinning), ..ServerConfig::new("s", transport) }
}

/// A server that starts held if it was never seen.
fn quarantined(pinning: Pinning) -> ServerConfig {
    ServerConfig { new_servers: NewServers::Hold, ..server(pinning) }
}

/// The same program under another name.
fn renamed(config: &ServerConfig, name: &str) -> ServerConfig {
    ServerConfig { name: name.to_owned(), ..config.clone() }
}

/// The same name with another argument.
fn moved(config: &ServerConfig, arg: &str) -> ServerConfig {
    let transport =
        TransportConfig::Stdio { command: "server".to_owned(), args: vec![arg.to_owned()], env: Vec::new(), cwd: None };
    ServerConfig { transport, ..config.clone() }
}

fn items(tools: &[&str]) -> Vec<Item> {
    let item = |text: &&str| {
        let raw: Raw = serde_json::from_str(text).expect("JSON");
        let key = pegboard_mcp::json::Fields::of(&raw).and_then(|fields| fields.text("name")).unwrap_or_default();
        Item { key, raw: raw.into() }
    };
    tools.iter().map(item).collect()
}

/// The names of the tools that are held back.
fn held(review: &Review) -> Vec<String> {
    let mut held: Vec<String> = review.held.iter().cloned().collect();
    held.sort();
    held
}

const A: &str = r#"{"name":"a","description":"one","inputSchema":{"type":"object","required":["x"]}}"#;
const A_REORDERED: &str =
    r#"{ "inputSchema":{"required":["x"],"type":"object"},"description":"one","name":"a","_meta":{} }"#;
const A_CHANGED: &str = r#"{"name":"a","description":"two","inputSchema":{"type":"object","required":["x"]}}"#;
const B: &str = r#"{"name":"b"}"#;

#[test]
fn sets_in_another_order_are_not_held() {
    let place = Place::new("sets");
    let config = server(Pinning::Hold);
    let tool = |default: &str, required: &str| {
        format!(
            r#"{{"name":"a","inputSchema":{{"properties":{{"p":{{"type":"array","default":{default}}}}},"required":{required}}}}}"#
        )
    };
    let check = |tool: &str, expected: &[&str]| {
        let review = place.open().review(&config, &items(&[tool]), true);
        let lines: Vec<String> = review.reports.into_iter().flat_map(|report| report.diff).collect();
        assert_eq!(lines, expected, "{tool}");
    };
    check(&tool(r#"["x","y","z"]"#, r#"["p","q"]"#), &[]);
    check(&tool(r#"["z","x","y"]"#, r#"["q","p"]"#), &[]);
    check(&tool(r#"["z","x"]"#, r#"["q","p"]"#), &["inputSchema.properties.p.default:", r#"- "y""#]);
}

#[test]
fn sets_inside_defaults_are_not_held() {
    let place = Place::new("sets-inside");
    let config = server(Pinning::Hold);
    let review = |default: &str| {
        let tool = format!(r#"{{"name":"a","inputSchema":{{"properties":{{"p":{{"default":{default}}}}}}}}}"#);
        held(&place.open().review(&config, &items(&[&tool]), true))
    };
    assert!(review(r#"{"tags":["x","y"],"fields":"status,summary"}"#).is_empty());
    assert!(review(r#"{"tags":["y","x"],"fields":"summary,status"}"#).is_empty());
    assert_eq!(review(r#"{"tags":["y","z"],"fields":"status,summary"}"#), ["a"]);
    assert_eq!(review(r#"{"tags":["x","y"],"fields":"status,labels"}"#), ["a"]);
}

#[test]
fn waiting_tools_carry_what_is_approved() {
    let place = Place::new("approved-definition");
    let config = server(Pinning::Hold);
    place.open().review(&config, &items(&[B, A]), true);
    place.open().review(&config, &items(&[A_CHANGED, B, r#"{"name":"c"}"#]), true);
    let waiting = place.open().waiting().expect("a folder");
    let approved = |pin: &WaitingPin| (pin.report.tool.clone(), pin.approved().map(|raw| raw.get().to_owned()));
    let found: Vec<_> = waiting.iter().map(approved).collect();
    assert_eq!(found, [("a".to_owned(), Some(A.to_owned())), ("c".to_owned(), None)]);
}

#[test]
fn first_sight_approves_and_changes_wait() {
    let place = Place::new("life");
    let config = server(Pinning::Hold);
    // Each time another start of the program.
    let check = |tools: &[&str], expected_held: &[&str], expected: &[&str]| {
        let review = place.open().review(&config, &items(tools), true);
        assert_eq!(held(&review), expected_held, "{tools:?}");
        assert_eq!(place.waiting(), expected, "{tools:?}");
        review
    };
    check(&[], &[], &[]);
    check(&[A, B], &[], &[]);
    check(&[B, A_REORDERED], &[], &[]);
    let review = check(&[A_CHANGED, B], &["a"], &["changed a"]);
    assert_eq!(review.reports[0].diff, ["description:", "- one", "+ two"]);
    let since = review.reports[0].since;
    // It comes back when it says again what it said.
    check(&[A, B], &[], &[]);
    let c = r#"{"name":"c"}"#;
    let review = check(&[A_CHANGED, c], &["a", "c"], &["changed a", "removed b", "new c"]);
    assert!(review.reports[0].since >= since);
    place.approve(&["a", "b"]);
    let review = check(&[A_CHANGED, c], &["c"], &["new c"]);
    let again = check(&[A_CHANGED, c], &["c"], &["new c"]);
    assert_eq!(review.reports, again.reports, "it waits since it came");
    place.approve(&[]);
    check(&[A_CHANGED, c], &[], &[]);
    // What is gone and comes back as something else has changed.
    check(&[c], &[], &["removed a"]);
    check(&[A, c], &["a"], &["changed a"]);
}

#[test]
fn a_stamp_tells_whether_approvals_have_changed() {
    let place = Place::new("stamp");
    let config = server(Pinning::Hold);
    assert!(place.open().stamp(&config).is_none(), "nothing was approved yet");
    let reviewed = |tool| place.open().review(&config, &items(&[tool]), true).stamp;
    let first = reviewed(A);
    assert!(first.is_some() && first == place.open().stamp(&config));
    assert_eq!(reviewed(A_CHANGED), first, "what waits approves nothing");
    place.approve(&["a"]);
    assert_ne!(place.open().stamp(&config), first);
    assert_eq!(reviewed(A_CHANGED), place.open().stamp(&config));
}

#[test]
fn a_warning_holds_nothing() {
    let place = Place::new("warn");
    place.open().review(&server(Pinning::Warn), &items(&[A]), true);
    let review = place.open().review(&server(Pinning::Warn), &items(&[A_CHANGED, B]), true);
    assert_eq!(held(&review), Vec::<String>::new());
    let told: Vec<(&str, bool)> = review.reports.iter().map(|one| (one.tool.as_str(), one.is_held)).collect();
    assert_eq!(told, [("a", false), ("b", false)]);
    let written = serde_json::to_value(&review.reports[0]).expect("JSON");
    assert_eq!((written["kind"].as_str(), written["isHeld"].as_bool()), (Some("changed"), Some(false)));
}

#[test]
fn another_token_is_no_other_server_and_another_program_is() {
    let place = Place::new("identity");
    let remote = |token: &str, url: &str| {
        let headers = vec![("Authorization".to_owned(), Secret::new(format!("Bearer {token}")))];
        let transport = TransportConfig::Http { url: url.to_owned(), headers, kind: HttpKind::Auto };
        ServerConfig { pinning: Some(Pinning::Hold), ..ServerConfig::new("s", transport) }
    };
    let check = |config: &ServerConfig, expected: usize| {
        assert_eq!(place.open().review(config, &items(&[A_CHANGED]), true).held.len(), expected, "{config:?}");
    };
    place.open().review(&remote("token-1", "https://a.example/mcp"), &items(&[A]), true);
    check(&remote("token-1", "https://b.example/mcp"), 0);
    check(&remote("token-2", "https://a.example/mcp"), 1);
    // What is held at one address is not approved by moving to another.
    check(&remote("token-1", "https://c.example/mcp"), 1);
    // A secret among the arguments is not part of the identity of the server.
    let program = |secret: &str| {
        let args = vec![format!("--key={secret}")];
        let transport = TransportConfig::Stdio { command: "x".to_owned(), args, env: Vec::new(), cwd: None };
        let secrets = vec![Secret::new(secret)];
        ServerConfig { pinning: Some(Pinning::Hold), secrets, ..ServerConfig::new("p", transport) }
    };
    place.open().review(&program("s3cret-1"), &items(&[A]), true);
    check(&program("s3cret-2"), 1);
    let waiting = place.open().waiting().expect("a folder");
    assert!(!format!("{waiting:?}").contains("s3cret"));
    for file in place.files("") {
        assert!(!String::from_utf8_lossy(&fs::read(&file).expect("a file")).contains("s3cret"), "{}", file.display());
    }
}

#[test]
fn what_is_damaged_is_asked_about() {
    let place = Place::new("damaged");
    place.open().review(&server(Pinning::Hold), &items(&[A, B]), true);
    let file = place.files(".approved").pop().expect("a file");
    let mut bytes = fs::read(&file).expect("a file");
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).expect("written");
    let review = place.open().review(&server(Pinning::Hold), &items(&[A, B]), true);
    assert_eq!(held(&review), ["a", "b"]);
    place.approve(&[]);
    assert!(place.open().review(&server(Pinning::Hold), &items(&[A, B]), true).held.is_empty());
    // With `warn` all current tools are approved.
    fs::write(&file, "nonsense").expect("written");
    let review = place.open().review(&server(Pinning::Warn), &items(&[A]), true);
    assert!(review.reports.is_empty());
}

#[test]
fn a_new_server_starts_held() {
    for pinning in [Pinning::Hold, Pinning::Warn] {
        let place = Place::new(&format!("new-{pinning:?}"));
        let config = quarantined(pinning);
        let review = |config: &ServerConfig, tools: &[&str]| place.open().review(config, &items(tools), true);
        // One that offers nothing yet was not seen yet.
        assert_eq!(held(&review(&config, &[])), Vec::<String>::new());
        let first = review(&config, &[A, B]);
        assert_eq!((held(&first), first.is_new_server), (vec!["a".to_owned(), "b".to_owned()], true));
        assert!(first.reports.iter().all(|report| report.kind == PinKind::New && report.is_held));
        assert_eq!(place.waiting(), ["new a", "new b"]);
        // It is not approved by being seen again, nor by another name.
        assert_eq!(held(&review(&config, &[A, B])), ["a", "b"]);
        assert_eq!(held(&review(&renamed(&config, "t"), &[A, B])), ["a", "b"]);
        place
            .open()
            .approve(
                &place
                    .open()
                    .waiting()
                    .expect("a folder")
                    .iter()
                    .filter(|pin| pin.report.server == "s" && pin.report.tool == "a")
                    .collect::<Vec<_>>(),
            )
            .expect("written");
        let second = review(&config, &[A, B]);
        assert_eq!((held(&second), second.is_new_server), (vec!["b".to_owned()], false));
        place.approve(&[]);
        assert_eq!(held(&review(&config, &[A, B])), Vec::<String>::new());
        // From then on it is a server like any other.
        let expected: &[&str] = if pinning == Pinning::Hold { &["a"] } else { &[] };
        assert_eq!(held(&review(&config, &[A_CHANGED, B])), expected);
    }
}

#[test]
fn another_name_takes_over_approvals() {
    let place = Place::new("rename");
    let config = server(Pinning::Hold);
    let review = |config: &ServerConfig, tools: &[&str]| held(&place.open().review(config, &items(tools), true));
    assert_eq!(review(&config, &[A, B]), Vec::<String>::new());
    assert_eq!(review(&config, &[A_CHANGED, B]), ["a"]);
    let other = renamed(&config, "t");
    assert_eq!(review(&other, &[A_CHANGED, B]), ["a"], "a rename approves nothing");
    assert_eq!(review(&other, &[A, B]), Vec::<String>::new(), "what was approved stays approved");
    // A copy with another environment, which offers more.
    assert_eq!(review(&renamed(&config, "copy"), &[A, B, r#"{"name":"c"}"#]), ["c"]);
    let warned = renamed(&server(Pinning::Warn), "w");
    let reported = place.open().review(&warned, &items(&[A_CHANGED, B]), true);
    assert_eq!((held(&reported).len(), reported.reports.len()), (0, 1));
    // Under a setting that holds new servers too: it is not a new one.
    let quarantined = renamed(&quarantined(Pinning::Hold), "q");
    assert_eq!(review(&quarantined, &[A_CHANGED, B]), ["a"]);
}

#[test]
fn another_name_and_another_argument_approve_nothing_that_is_held() {
    let place = Place::new("moved");
    let config = server(Pinning::Hold);
    let review = |config: &ServerConfig, tools: &[&str]| held(&place.open().review(config, &items(tools), true));
    review(&config, &[A, B]);
    // The same set of tools, one of them as it was approved.
    assert_eq!(review(&moved(&renamed(&config, "t"), "-v"), &[A_CHANGED, B]), ["a"]);
    // One that is held in this very form.
    assert_eq!(review(&moved(&renamed(&config, "u"), "-w"), &[A_CHANGED, r#"{"name":"x"}"#]), ["a"]);
    // A new server with a tool of the same name is its own.
    let own = r#"{"name":"a","description":"of another server"}"#;
    assert_eq!(review(&moved(&renamed(&config, "v"), "-x"), &[own]), Vec::<String>::new());
    // Where new servers are held, the same set of tools makes no other server of it.
    let quarantined = moved(&renamed(&quarantined(Pinning::Hold), "q"), "-y");
    assert_eq!(review(&quarantined, &[A, B]), ["a", "b"]);
}

#[test]
fn the_place_of_a_server_says_whose_tools_have_changed() {
    let place = Place::new("place");
    let config = server(Pinning::Hold);
    let review = |config: &ServerConfig, tools: &[&str]| held(&place.open().review(config, &items(tools), true));
    review(&config, &[A]);
    // No tool is as it was, so that only the program tells that this is no new server.
    assert_eq!(review(&renamed(&config, "t"), &[A_CHANGED]), ["a"]);
}

#[test]
fn approvals_of_a_form_that_has_changed_once_more_are_not_of_the_new_one() {
    let place = Place::new("once-more");
    let config = server(Pinning::Hold);
    let review = |tools: &[&str]| held(&place.open().review(&config, &items(tools), true));
    review(&[A, B]);
    review(&[A_CHANGED, B]);
    let seen = place.open().waiting().expect("a folder");
    let third = r#"{"name":"a","description":"three"}"#;
    assert_eq!(review(&[third, B]), ["a"]);
    place.open().approve(&seen.iter().collect::<Vec<_>>()).expect("written");
    assert_eq!(place.waiting(), ["changed a"]);
    assert_eq!(review(&[third, B]), ["a"]);
    assert_eq!(review(&[A_CHANGED, B]), Vec::<String>::new());
}

#[test]
fn where_approvals_cannot_be_read_one_approval_is_not_all() {
    let place = Place::new("one-of-two");
    let config = quarantined(Pinning::Warn);
    let review = |tools: &[&str]| held(&place.open().review(&config, &items(tools), true));
    assert_eq!(review(&[A, B]), ["a", "b"]);
    fs::write(place.files(".approved").pop().unwrap_or_else(|| place.0.join("none")), "nonsense").expect("written");
    place.approve(&["a"]);
    assert_eq!(review(&[A, B]), ["b"]);
}

#[test]
fn an_approved_server_is_approved_under_another_name() {
    let place = Place::new("approved-rename");
    let config = quarantined(Pinning::Warn);
    let review = |config: &ServerConfig, tools: &[&str]| held(&place.open().review(config, &items(tools), true));
    assert_eq!(review(&config, &[A]), ["a"]);
    place.approve(&[]);
    // With `warn` the tools are only reported.
    assert_eq!(review(&renamed(&config, "t"), &[A, B]), Vec::<String>::new());
}

#[test]
fn what_waits_is_told_by_server_and_tool() {
    let place = Place::new("order");
    let names = ["e", "b", "d", "a", "c"];
    for name in names {
        let config = renamed(&moved(&quarantined(Pinning::Hold), name), name);
        place.open().review(&config, &items(&[B, A]), true);
    }
    let waiting = place.open().waiting().expect("a folder");
    let found: Vec<String> = waiting.iter().map(|pin| format!("{} {}", pin.report.server, pin.report.tool)).collect();
    assert_eq!(found, ["a a", "a b", "b a", "b b", "c a", "c b", "d a", "d b", "e a", "e b"]);
}

#[test]
fn a_tool_waits_since_it_became_what_it_is() {
    let waits =
        |name: &str, kind: PinKind| WaitingTool { name: name.to_owned(), kind, since: 7, raw: None, is_variant: false };
    let known =
        WaitingTools { tools: vec![waits("a", PinKind::Changed), waits("b", PinKind::New)], ..WaitingTools::default() };
    let found = find_differences(&server(Pinning::Hold), &Approvals::default(), (&items(&[A, B])).into(), Some(&known));
    let since: Vec<(&str, bool)> = found.tools.iter().map(|tool| (tool.name.as_str(), tool.since == 7)).collect();
    assert_eq!(since, [("a", false), ("b", true)], "it was another tool, or waited for another reason");
}

#[test]
fn files_of_older_versions_are_read() {
    let place = Place::new("older");
    let config = server(Pinning::Hold);
    let files = Files::open(&place.0).expect("a folder");
    let id = files.server_id(&config);
    let body = serde_json::json!({"server": "s", "source": "server", "tools": [{"name": "a", "raw": {"name": "a"}}]});
    let old: Approvals = serde_json::from_value(body).expect("the form of older versions");
    assert!(old.place.is_none() && !old.starts_held);
    files.write_approvals(&id, &old).expect("written");
    let review = |config: &ServerConfig, tools: &[&str]| held(&place.open().review(config, &items(tools), true));
    assert_eq!(review(&config, &[r#"{"name":"a"}"#]), Vec::<String>::new());
    assert_eq!(review(&renamed(&config, "t"), &[A]), ["a"]);
}

#[test]
fn a_lost_or_replaced_key_approves_nothing() {
    let place = Place::new("key");
    let review =
        |pinning, name: &str| held(&place.open().review(&renamed(&server(pinning), name), &items(&[A, B]), true)).len();
    assert_eq!(review(Pinning::Hold, "s"), 0);
    let key = place.0.join("key");
    fs::remove_file(&key).expect("it was there");
    assert_eq!((review(Pinning::Hold, "s"), review(Pinning::Warn, "s")), (2, 0));
    assert!(!key.exists(), "a new key would make the approvals look missing");
    let error = place.open().waiting().expect_err("it cannot be read");
    assert!(crate::with_causes(&error).contains("`key` is missing"), "{error}");
    fs::write(&key, [7; 32]).expect("written");
    assert_eq!((review(Pinning::Hold, "s"), review(Pinning::Hold, "t")), (2, 2));
    place.approve(&[]);
    assert_eq!(review(Pinning::Hold, "s"), 0);
}

#[test]
fn without_a_folder_nothing_is_believed() {
    let place = Place::new("nowhere");
    fs::write(&place.0, "a file in its place").expect("written");
    let review = |pinning| place.open().review(&server(pinning), &items(&[A]), true).held.len();
    assert_eq!((review(Pinning::Hold), review(Pinning::Warn)), (1, 0));
    assert_eq!(place.open().review(&quarantined(Pinning::Warn), &items(&[A]), true).held.len(), 1);
    fs::remove_file(&place.0).expect("it was there");
}

#[test]
#[cfg(unix)]
fn only_the_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("owner");
    place.open().review(&server(Pinning::Hold), &items(&[A]), true);
    place.open().review(&server(Pinning::Hold), &items(&[A, B]), true);
    for file in place.files("") {
        let mode = fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn many_at_once_lose_nothing() {
    let place = Place::new("crowd");
    place.open().review(&server(Pinning::Hold), &items(&[A]), true);
    let names: Vec<String> = (0..8).map(|n| format!(r#"{{"name":"new_{n}"}}"#)).collect();
    let offered: Vec<&str> = [A].into_iter().chain(names.iter().map(String::as_str)).collect();
    let offered = Arc::new(items(&offered));
    place.open().review(&server(Pinning::Hold), &*offered, true);
    let place = Arc::new(place);
    let approvers = (0..8).map(|n| {
        let (place, offered) = (Arc::clone(&place), Arc::clone(&offered));
        thread::spawn(move || {
            place.approve(&[&format!("new_{n}")]);
            place.open().review(&server(Pinning::Hold), &*offered, true);
        })
    });
    approvers.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("no panic"));
    let review = place.open().review(&server(Pinning::Hold), &*offered, true);
    assert_eq!(held(&review), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However a server is renamed, a definition is used only if it was offered when the server
    /// was first seen, or approved under one of its names.
    #[test]
    fn names_approve_nothing(steps in prop::collection::vec(
        (0u8..3, prop::collection::btree_map(0u8..4, 0u8..3, 0..4), any::<bool>()), 1..8,
    )) {
        let place = Place::new("names");
        let mut approved: Option<HashSet<(u8, u8)>> = None;
        // What each name was last offered and may have to wait: an approval is one of everything.
        let mut waiting: HashMap<u8, BTreeMap<u8, u8>> = HashMap::new();
        for (name, offered, does_approve) in steps {
            let texts: Vec<String> =
                offered.iter().map(|(name, form)| format!(r#"{{"name":"{name}","description":"{form}"}}"#)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let config = renamed(&server(Pinning::Hold), &format!("server-{name}"));
            let review = place.open().review(&config, &items(&texts), true);
            if offered.is_empty() {
                continue;
            }
            let known = approved.get_or_insert_with(|| offered.clone().into_iter().collect());
            for (tool, form) in &offered {
                prop_assert!(review.held.contains(&tool.to_string()) || known.contains(&(*tool, *form)));
            }
            waiting.insert(name, offered);
            if does_approve {
                place.approve(&[]);
                known.extend(waiting.values().flatten().map(|(tool, form)| (*tool, *form)));
            }
        }
    }

    /// Whatever happens, what is held is exactly what is not as it was approved.
    #[test]
    fn what_is_held_is_what_differs(steps in prop::collection::vec((prop::collection::btree_map(0u8..5, 0u8..3, 0..5), any::<bool>()), 1..6)) {
        let place = Place::new("model");
        let mut approved: Option<BTreeMap<u8, u8>> = None;
        for (offered, does_approve) in steps {
            let texts: Vec<String> =
                offered.iter().map(|(name, form)| format!(r#"{{"name":"{name}","description":"{form}"}}"#)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let review = place.open().review(&server(Pinning::Hold), &items(&texts), true);
            if approved.is_none() && !offered.is_empty() {
                approved = Some(offered.clone());
            }
            let known = approved.clone().unwrap_or_default();
            let expected: Vec<String> =
                offered.iter().filter(|(name, form)| known.get(name) != Some(form)).map(|(name, _)| name.to_string()).collect();
            prop_assert_eq!(held(&review), expected);
            if does_approve && approved.is_some() {
                place.approve(&[]);
                approved = Some(offered);
            }
        }
    }
}

#[test]
fn a_definition_of_a_clients_connection_is_approved_beside_that_of_the_list() {
    let place = Place::new("variants");
    let (config, tools) = (server(Pinning::Hold), items(&[A, B]));
    let review = |variants: &[&str]| {
        let variants = items(variants);
        place.open().review(&config, Offered { tools: &tools, variants: &variants, is_of_client: false }, true)
    };
    assert!(review(&[]).reports.is_empty());
    let waits = review(&[A_CHANGED]);
    let shown: Vec<_> = waits.reports.iter().map(|one| (&*one.tool, one.kind, one.is_held, one.is_variant)).collect();
    assert_eq!(shown, [("a", PinKind::Changed, true, true)]);
    assert!(waits.held.is_empty(), "the tool of the list is used as before");
    let pins = place.open();
    let waiting = pins.waiting().expect("a folder");
    assert_eq!((waiting.len(), waiting[0].report.is_variant), (1, true));
    pins.approve(&waiting.iter().collect::<Vec<_>>()).expect("written");
    for variants in [&[A_CHANGED][..], &[]] {
        assert!(review(variants).reports.is_empty(), "both are approved");
    }
    let others = items(&[A_CHANGED, B]);
    assert!(place.open().review(&config, Offered::of_client(&others), false).held.is_empty());
    let held = place.open().review(&config, &others, false).held;
    assert!(held.contains("a") && held.len() == 1, "the list itself has not changed with it");
    let third = r#"{"name":"a","description":"third"}"#;
    assert_eq!(review(&[third]).reports.len(), 1, "another one is not");
    // A change of the list is one change, also if clients have it already.
    let changed = items(&[third, B]);
    let both = place.open().review(
        &config,
        Offered { tools: &changed, variants: &items(&[third]), is_of_client: false },
        true,
    );
    assert_eq!((both.reports.len(), both.reports[0].is_variant, both.held.len()), (1, false, 1));
}

#[test]
fn approved_definitions_of_a_tool_are_bounded() {
    let tool = |text: &str| serde_json::from_str::<pegboard_mcp::json::Raw>(text).expect("JSON");
    let mut approved = Approvals::default();
    approved.approve("a", Some(tool(A)), false);
    for number in 0..40 {
        approved.approve("a", Some(tool(&format!(r#"{{"name":"a","title":"{number}"}}"#))), true);
    }
    let known = &approved.tools[0];
    assert_eq!((known.raw.get(), known.variants.len()), (A, 16));
    assert!(known.variants[15].get().contains("39"));
    approved.approve("a", None, false);
    assert!(approved.tools.is_empty());
}
