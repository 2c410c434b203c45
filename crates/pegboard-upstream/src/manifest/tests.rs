use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Barrier},
    thread,
};

use pegboard_core::Secret;
use pegboard_mcp::{era::Era, json::Fields};
use proptest::prelude::*;

use super::*;
use crate::{
    config::{HttpKind, TransportConfig},
    listing::Item,
};

/// A folder for one test, removed afterwards.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-manifest-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Manifests {
        Manifests::open(&self.0).expect("a folder")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder").flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program(args: &[&str], env: &[(&str, &str)]) -> ServerConfig {
    let transport = TransportConfig::Stdio {
        command: "server".to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        env: secrets(env),
        cwd: None,
    };
    ServerConfig::new("name", transport)
}

fn remote(url: &str, headers: &[(&str, &str)]) -> ServerConfig {
    let transport = TransportConfig::Http { url: url.to_owned(), headers: secrets(headers), kind: HttpKind::Auto };
    ServerConfig::new("name", transport)
}

fn secrets(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

fn items(raw: &[&str]) -> Arc<Vec<Item>> {
    let item = |text: &&str| {
        let raw: pegboard_mcp::json::Raw = serde_json::from_str(text).expect("JSON");
        let key = Fields::of(&raw).and_then(|fields| fields.text("name")).unwrap_or_default();
        Item { key, raw: raw.into() }
    };
    Arc::new(raw.iter().map(item).collect())
}

fn manifest(tools: &[&str]) -> Manifest {
    let hello = Hello {
        era: Era::Legacy,
        version: "2025-11-25".to_owned(),
        capabilities: Fields::new().with("tools", &Fields::new()),
        server_info: Some(pegboard_mcp::json::raw(&serde_json::json!({"name": "s", "version": "1"}))),
        instructions: Some("Use \u{1f9f0} it\nwell.".to_owned()),
    };
    let lists = Lists {
        tools: items(tools),
        offered: items(tools),
        prompts: items(&[r#"{"name":"p"}"#]),
        resources: items(&[r#"{"uri":"a://b","name":"r"}"#]),
        ..Lists::default()
    };
    Manifest { hello, lists, asks: false, declared: Some(Capabilities::named(["roots"])) }
}

const TOOL: &str = r#"{"name":"a","inputSchema":{"z":1.0,"a":[1e5, 18446744073709551616]},"x":"\u00e9"}"#;

#[test]
fn what_is_kept_comes_back_byte_for_byte() {
    let place = Place::new("round");
    let fingerprint = place.open().fingerprint(&program(&[], &[])).expect("a program has one");
    assert!(matches!(place.open().load(&fingerprint), Err(ReadError::Missing)));
    let kept = manifest(&[TOOL, r#"{ "name" : "b" }"#]);
    let seal = place.open().save(&fingerprint, &kept, None).expect("it is written");
    // Another start of the program, with nothing but the folder.
    let (found, its) = place.open().load(&fingerprint).expect("it is there");
    assert_eq!(its, seal);
    let texts = |list: &[Item]| -> Vec<(String, String)> {
        list.iter().map(|item| (item.key.clone(), item.raw.get().to_owned())).collect()
    };
    assert_eq!(texts(&found.lists.tools), texts(&kept.lists.tools));
    assert_eq!(texts(&found.lists.prompts), texts(&kept.lists.prompts));
    assert_eq!(texts(&found.lists.resources), texts(&kept.lists.resources));
    assert!(found.lists.templates.is_empty());
    assert_eq!(format!("{:?}", found.hello), format!("{:?}", kept.hello));
}

#[test]
fn what_connections_declare_and_whether_a_server_asks_is_kept_and_older_files_are_read() {
    let place = Place::new("asks");
    let manifests = place.open();
    let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
    let asking = Manifest { asks: true, ..manifest(&[TOOL]) };
    manifests.save(&fingerprint, &asking, None).expect("it is written");
    let (found, _) = manifests.load(&fingerprint).expect("it is there");
    assert_eq!((found.asks, found.declared), (true, Some(Capabilities::named(["roots"]))));
    let file = place.0.join(file_name(&fingerprint));
    fs::write(&file, format::encode_older(&asking, &fingerprint, &manifests.key)).expect("a file");
    let (older, _) = manifests.load(&fingerprint).expect("version 2 is read");
    assert_eq!((older.asks, older.declared, older.lists.tools.len()), (false, None, 1));
}

#[test]
fn another_configuration_has_another_fingerprint() {
    let place = Place::new("prints");
    let manifests = place.open();
    let print = |config: &ServerConfig| manifests.fingerprint(config);
    let one = program(&["a", "b"], &[("A", "1"), ("B", "2")]);
    let check = |other: &ServerConfig, is_same: bool| {
        assert_eq!(print(&one) == print(other), is_same, "{:?}", other.transport);
    };
    check(&program(&["a", "b"], &[("B", "2"), ("A", "1")]), true);
    let renamed = ServerConfig { name: "other".to_owned(), lazy: Some(true), ..one.clone() };
    check(&renamed, true);
    check(&program(&["ab"], &[("A", "1"), ("B", "2")]), false);
    check(&program(&["a"], &[("A", "1"), ("B", "2")]), false);
    check(&program(&["a", "b"], &[("A", "1"), ("B", "3")]), false);
    check(&program(&["a", "b"], &[("A", "1"), ("C", "2")]), false);
    check(&program(&["a", "b", "A", "1"], &[("B", "2")]), false);
    check(&ServerConfig { era: Some(Era::Legacy), ..one.clone() }, false);
    let mut elsewhere = one.clone();
    if let TransportConfig::Stdio { cwd, .. } = &mut elsewhere.transport {
        *cwd = Some("/tmp".into());
    }
    check(&elsewhere, false);
    let token = |token| remote("https://a/mcp", &[("Authorization", token)]);
    assert_ne!(print(&token("Bearer 1")), print(&token("Bearer 2")));
    assert_ne!(print(&remote("https://a/mcp", &[])), print(&remote("https://b/mcp", &[])));
}

/// Neither names nor contents say anything of a configuration, and the same configuration
/// has another name in another installation.
#[test]
fn secrets_stay_secret() {
    let place = Place::new("secrets");
    let config = program(&["--token", "argument-secret"], &[("TOKEN", "variable-secret")]);
    let manifests = place.open();
    let fingerprint = manifests.fingerprint(&config).expect("a program has one");
    manifests.save(&fingerprint, &manifest(&[TOOL]), None).expect("it is written");
    for name in place.names() {
        let content = fs::read(place.0.join(&name)).expect("a file");
        let all = format!("{name} {}", String::from_utf8_lossy(&content));
        assert!(!all.contains("secret") && !all.contains("TOKEN"), "{all}");
    }
    let other = Place::new("secrets-elsewhere");
    assert_ne!(other.open().fingerprint(&config), Some(fingerprint));
}

#[cfg(unix)]
#[test]
fn everything_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("modes");
    let manifests = place.open();
    let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
    manifests.save(&fingerprint, &manifest(&[TOOL]), None).expect("it is written");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&place.0), 0o700);
    assert_eq!(place.names().len(), 2, "a key and a manifest: {:?}", place.names());
    for name in place.names() {
        assert_eq!(mode(&place.0.join(&name)), 0o600, "{name}");
    }
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let error = Manifests::open(&place.0).expect_err("others could write there");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn damaged_or_foreign_manifests_are_not_used() {
    let place = Place::new("damaged");
    let manifests = place.open();
    let [one, other] = ["1", "2"].map(|arg| manifests.fingerprint(&program(&[arg], &[])).expect("one"));
    manifests.save(&one, &manifest(&[TOOL]), None).expect("it is written");
    let file = place.0.join(file_name(&one));
    let whole = fs::read(&file).expect("a file");
    let check = |content: &[u8], expected: &str| {
        fs::write(&file, content).expect("a file");
        let found = manifests.load(&one).map(drop).map_err(|error| error.to_string());
        assert_eq!(found.err().as_deref(), Some(expected).filter(|text| !text.is_empty()));
    };
    let seal = "invalid signature: the file is damaged, or comes from another installation";
    check(&whole, "");
    check(&whole[..whole.len() - 1], seal);
    check(&whole[..20], "written by another version of Pegboard");
    check(b"", "written by another version of Pegboard");
    check(&[&whole[..], b" "].concat(), seal);
    let newer = String::from_utf8_lossy(&whole).replacen("manifest 4", "manifest 5", 1);
    check(newer.as_bytes(), "written by another version of Pegboard");
    check(&vec![b'x'; 1 << 20], "written by another version of Pegboard");
    // Under another name it is another server's.
    fs::write(place.0.join(file_name(&other)), &whole).expect("a file");
    assert!(matches!(manifests.load(&other), Err(ReadError::Seal)));
    // A folder, or what else bears the name, is no manifest either.
    fs::remove_file(&file).expect("it is there");
    fs::create_dir(&file).expect("a folder");
    assert!(matches!(manifests.load(&one), Err(ReadError::Io(_))));
}

proptest! {
    #[test]
    fn any_changed_byte_is_seen(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let place = Place::new("flipped");
        let manifests = place.open();
        let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
        let (mut bytes, _) = format::encode(&manifest(&[TOOL]), &fingerprint, &manifests.key);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(format::decode(&bytes, &fingerprint, &manifests.key).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let place = Place::new("noise");
        let manifests = place.open();
        let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
        prop_assert!(format::decode(&bytes, &fingerprint, &manifests.key).is_err());
    }
}

#[test]
fn the_same_is_not_written_twice() {
    let place = Place::new("same");
    let manifests = place.open();
    let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
    let seal = manifests.save(&fingerprint, &manifest(&[TOOL]), None);
    let file = place.0.join(file_name(&fingerprint));
    // A file that another process has written stays, because nothing has changed.
    fs::write(&file, "marked").expect("a file");
    assert_eq!(manifests.save(&fingerprint, &manifest(&[TOOL]), seal), seal);
    assert_eq!(fs::read(&file).expect("a file"), b"marked");
    assert_ne!(manifests.save(&fingerprint, &manifest(&[]), seal), seal);
    assert!(manifests.load(&fingerprint).is_ok());
    // One that was removed is written again.
    fs::remove_file(&file).expect("it is there");
    let seal = manifests.save(&fingerprint, &manifest(&[]), seal);
    assert!(seal.is_some() && file.exists());
}

#[test]
fn what_cannot_be_written_is_told_once() {
    let place = Place::new("blocked");
    fs::write(&place.0, "a file where the folder should be").expect("a file");
    assert!(Manifests::open(&place.0.join("manifests")).is_err());
    fs::remove_file(&place.0).expect("it is there");
    let manifests = place.open();
    let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
    // A folder with something in it cannot be replaced by a file.
    fs::create_dir_all(place.0.join(file_name(&fingerprint)).join("x")).expect("a folder");
    assert_eq!(manifests.save(&fingerprint, &manifest(&[]), None), None);
    assert!(manifests.has_warned.load(Ordering::Relaxed));
    assert_eq!(manifests.save(&fingerprint, &manifest(&[]), None), None);
    assert!(place.names().iter().all(|name| !is_temporary(name)), "{:?}", place.names());
}

#[test]
fn what_nobody_uses_goes() {
    let place = Place::new("sweep");
    let manifests = place.open();
    let [used, recent, old] = ["1", "2", "3"].map(|arg| {
        let fingerprint = manifests.fingerprint(&program(&[arg], &[])).expect("a program has one");
        manifests.save(&fingerprint, &manifest(&[]), None).expect("it is written");
        fingerprint
    });
    fs::write(place.0.join("notes.txt"), "not ours").expect("a file");
    fs::write(place.0.join(".writing-1-1-x"), "half").expect("a file");
    let age = |name: &str, days: u64| {
        let file = fs::OpenOptions::new().append(true).open(place.0.join(name)).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(days * 24 * 3600)).expect("a time");
    };
    age(&file_name(&used), 40);
    age(&file_name(&recent), 20);
    age(&file_name(&old), 40);
    ["notes.txt", ".writing-1-1-x", "key"].iter().for_each(|name| age(name, 400));
    manifests.remove_unused(&[used]);
    let mut left = vec![file_name(&used), file_name(&recent), "key".to_owned(), "notes.txt".to_owned()];
    left.sort();
    assert_eq!(place.names(), left);
    // To be read is to be used.
    manifests.load(&used).expect("it is there");
    manifests.remove_unused(&[]);
    assert_eq!(place.names(), left);
}

#[test]
fn silence_is_noted() {
    let place = Place::new("silent");
    let manifests = place.open();
    let config = program(&[], &[]);
    let fingerprint = manifests.fingerprint(&config).expect("a program has one");
    let was_silent = || {
        let (_, recalled) = load_manifests(&place.0, std::slice::from_ref(&config)).expect("a folder");
        recalled[0].was_silent
    };
    assert!(!was_silent());
    manifests.record_silence(&fingerprint, true);
    assert!(was_silent());
    manifests.remove_unused(&[]);
    assert!(was_silent(), "it is not old yet");
    manifests.record_silence(&fingerprint, false);
    assert!(!was_silent());
}

#[test]
fn a_key_that_cannot_be_one_is_replaced() {
    let place = Place::new("key");
    let before = place.open().fingerprint(&program(&[], &[]));
    assert_eq!(place.open().fingerprint(&program(&[], &[])), before);
    fs::write(place.0.join("key"), "short").expect("a file");
    let after = place.open().fingerprint(&program(&[], &[]));
    assert!(after.is_some() && after != before);
    assert_eq!(place.open().fingerprint(&program(&[], &[])), after);
}

/// Programs that share a folder agree on the key, and each finds what any of them wrote,
/// whole, while others write.
#[test]
fn many_share_a_folder() {
    let place = Place::new("shared");
    let (many, rounds) = (8, 20);
    let barrier = Barrier::new(many);
    let prints: Vec<Fingerprint> = thread::scope(|scope| {
        let work = |number: usize| {
            let (barrier, place) = (&barrier, &place);
            move || {
                barrier.wait();
                let manifests = place.open();
                let fingerprint = manifests.fingerprint(&program(&[], &[])).expect("a program has one");
                let tool = format!(r#"{{"name":"t{number}","description":"{}"}}"#, "x".repeat(10_000 * number));
                for _ in 0..rounds {
                    manifests.save(&fingerprint, &manifest(&[&tool]), None).expect("it is written");
                    let (found, _) = manifests.load(&fingerprint).expect("one of them, and whole");
                    assert_eq!(found.lists.tools.len(), 1);
                }
                fingerprint
            }
        };
        let threads: Vec<_> = (0..many).map(|number| scope.spawn(work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(prints.iter().all(|print| *print == prints[0]));
    assert_eq!(place.names().len(), 2, "a key and a manifest: {:?}", place.names());
}
