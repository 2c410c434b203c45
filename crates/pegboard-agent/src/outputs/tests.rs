use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A folder of its own for each test, removed at the end.
pub(super) struct Temp(PathBuf);

impl Temp {
    pub(super) fn new(test: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pegboard-outputs-{}-{number}-{test}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The outputs of a conversation; a hundred tokens are much here.
    fn outputs(&self, session: &str) -> Outputs {
        let settings = OutputSettings { threshold_tokens: 100, preview_chars: 40, ..OutputSettings::new(&self.0) };
        Outputs::new(settings, session, None).expect("outputs")
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

fn put(outputs: &Outputs, text: &str) -> StoredOutput {
    block_on(outputs.store("list", text.to_owned())).expect("an output")
}

fn name_of(offloaded: &StoredOutput) -> String {
    offloaded.path.file_name().expect("a name").to_string_lossy().into_owned()
}

fn read(outputs: &Outputs, filename: &str, start: usize, end: usize) -> Result<String, String> {
    let arguments = json!({"filename": filename, "start": start, "end": end});
    block_on(outputs.call_tool(HostTool::ReadLargeOutput, &arguments)).map_err(|error| error.to_string())
}

const UNKNOWN: &str = "`filename` is not an output of this conversation";

#[test]
fn the_model_learns_where_it_is_and_how_to_go_on() {
    let temp = Temp::new("message");
    let outputs = temp.outputs("chat");
    let text = format!("{}{}", "ä".repeat(500), "z".repeat(500));
    let offloaded = block_on(outputs.store("git hub.list", text)).expect("an output");
    let name = name_of(&offloaded);
    assert!(name.ends_with("_git_hub_list.txt"), "{name}");
    let path = temp.path().join("chat").join(&name);
    assert_eq!(offloaded.path, path);
    assert_eq!((offloaded.bytes, offloaded.chars), (1500, 1000));
    let tokens = offloaded.tokens;
    let expected = format!(
        "The output of `git hub.list` is too long to show (1000 characters, about {tokens} tokens). \
         The full output is in the file `{name}` ({}).\n\n{}\n[… 960 characters omitted …]\n{}\n\n\
         Continue reading: read_large_output {{\"filename\":\"{name}\",\"start\":31,\"end\":60}}\n\
         Find: search_large_output {{\"filename\":\"{name}\",\"operation\":\"search\",\"pattern\":\"<regular expression>\"}}",
        path.display(),
        "ä".repeat(30),
        "z".repeat(10),
    );
    assert_eq!(offloaded.message, expected.replace("         ", ""));
}

#[test]
fn what_is_json_is_called_so() {
    let temp = Temp::new("json");
    let mut outputs = temp.outputs("chat");
    let check = |outputs: &Outputs, text: &str, extension: &str, can_query: bool| {
        let offloaded = put(outputs, text);
        assert_eq!(offloaded.path.extension().and_then(|it| it.to_str()), Some(extension), "{text:.40}");
        assert_eq!(offloaded.message.contains("Query: query_large_output"), can_query, "{text:.40}");
    };
    check(&outputs, "{\"a\": [1, 2]}\n", "json", false);
    outputs.program = Some(Program::at("/pegboard"));
    check(&outputs, "{\"a\": [1, 2]}\n", "json", true);
    check(&outputs, "{\"a\": [1, 2]", "txt", false);
    check(&outputs, "{\"a\":1}\n{\"a\":2}", "txt", false);
    check(&outputs, "plain", "txt", false);
    // Deeper than a tree of it could be built.
    check(&outputs, &("[".repeat(100_000) + &"]".repeat(100_000)), "json", true);
}

#[test]
fn what_is_too_large_is_refused_and_nothing_is_written() {
    let temp = Temp::new("too_large");
    let mut outputs = temp.outputs("chat");
    outputs.settings.max_output_bytes = 10;
    let error = block_on(outputs.store("list", "x".repeat(11))).expect_err("an error");
    assert_eq!(error.to_string(), "the output is 11 bytes, over the limit of 10");
    assert!(error.hint().is_some());
    assert!(!temp.path().join("chat").exists());
    put(&outputs, &"x".repeat(10));
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_not_a_crash() {
    let temp = Temp::new("no_folder");
    fs::write(temp.path().join("file"), "x").expect("a file");
    let settings = OutputSettings::new(temp.path().join("file"));
    let outputs = Outputs::new(settings, "chat", None).expect("outputs");
    let error = block_on(outputs.store("list", "x".to_owned())).expect_err("an error");
    assert!(matches!(error, OutputError::Folder { .. }), "{error:?}");
    assert!(error.hint().is_some());
    block_on(outputs.remove_old());
    let error = Outputs::new(OutputSettings::new("x"), "", None).expect_err("an error");
    assert_eq!(error.to_string(), "invalid session name ``: expected 1 to 200 bytes");
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = Temp::new("rights");
    let outputs = Outputs::new(OutputSettings::new(temp.path().join("made/here")), "chat", None).expect("outputs");
    let offloaded = put(&outputs, "text");
    let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
    assert_eq!(mode(&offloaded.path), 0o600);
    assert_eq!(mode(offloaded.path.parent().expect("a folder")), 0o700);
    assert_eq!(mode(&temp.path().join("made/here")), 0o700);
}

#[test]
fn files_are_named_as_they_were_given() {
    let temp = Temp::new("names");
    let outputs = temp.outputs("a/b");
    let offloaded = put(&outputs, "0123456789");
    let name = name_of(&offloaded);
    for given in
        [name.clone(), format!(" {name}\n"), format!("a%2Fb/{name}"), offloaded.path.to_string_lossy().into_owned()]
    {
        assert_eq!(read(&outputs, &given, 2, 3), Ok("12".to_owned()), "{given}");
    }
    // Conversations with the same name have the same outputs.
    assert_eq!(read(&temp.outputs("a/b"), &name, 10, 99), Ok("9".to_owned()));
}

#[test]
fn names_lead_nowhere_else() {
    let temp = Temp::new("hostile");
    let outputs = temp.outputs("chat");
    let name = name_of(&put(&outputs, "mine"));
    let other = put(&temp.outputs("other"), "theirs");
    let others_name = name_of(&other);
    fs::write(temp.path().join("chat/secret.txt"), "x").expect("a file");
    fs::write(temp.path().join("chat/tool_secret.txt"), "x").expect("a file");
    fs::write(temp.path().join("tool_20260102_030405_1_x.txt"), "x").expect("a file");
    fs::create_dir(temp.path().join("chat/tool_20260102_030405_2_x.txt")).expect("a folder");
    let root = temp.path().display();
    for given in [
        "/etc/passwd".to_owned(),
        "../../../../../../etc/passwd".to_owned(),
        "..".to_owned(),
        ".".to_owned(),
        "/".to_owned(),
        " ".to_owned(),
        "secret.txt".to_owned(),
        "tool_secret.txt".to_owned(),
        "tool_20260102_030405_1_x.txt".to_owned(),
        "tool_20260102_030405_2_x.txt".to_owned(),
        "tool_20260102_030405_9_missing.txt".to_owned(),
        "../tool_20260102_030405_1_x.txt".to_owned(),
        "tool_/../../tool_20260102_030405_1_x.txt".to_owned(),
        "tool_20260102_030405_3_../../x.txt".to_owned(),
        others_name.clone(),
        format!("other/{others_name}"),
        format!("../other/{others_name}"),
        format!("chat/../other/{others_name}"),
        other.path.to_string_lossy().into_owned(),
        format!("{root}/chat/../other/{others_name}"),
        format!("{root}/tool_20260102_030405_1_x.txt"),
        format!("./{name}"),
        format!("../chat/{name}"),
        format!("chat/../chat/{name}"),
        format!("{name}/"),
        format!("{name}/."),
        format!("{name}\0"),
        format!("\0{name}"),
        format!("{name}\0.txt"),
        format!(".{name}.part"),
        format!("file://{root}/chat/{name}"),
        format!("CHAT/{name}"),
        format!("chat\\{name}"),
        name.to_uppercase(),
        "x".repeat(100_000),
    ] {
        assert_eq!(read(&outputs, &given, 1, 9), Err(UNKNOWN.to_owned()), "{given:.200}");
    }
    assert_eq!(read(&outputs, &name, 1, 9), Ok("mine".to_owned()));
}

#[cfg(unix)]
#[test]
fn links_and_pipes_are_not_followed() {
    use std::os::unix::fs::symlink;
    let temp = Temp::new("links");
    let outputs = temp.outputs("chat");
    let name = name_of(&put(&outputs, "mine"));
    let folder = temp.path().join("chat");
    let secret = temp.path().join("secret");
    fs::write(&secret, "secret").expect("a file");
    let check = |given: &str| assert_eq!(read(&outputs, given, 1, 9), Err(UNKNOWN.to_owned()), "{given}");

    symlink(&secret, folder.join("tool_20260102_030405_1_link.txt")).expect("a link");
    check("tool_20260102_030405_1_link.txt");
    symlink(&name, folder.join("tool_20260102_030405_2_link.txt")).expect("a link");
    check("tool_20260102_030405_2_link.txt");
    fs::hard_link(&secret, folder.join("tool_20260102_030405_3_link.txt")).expect("a link");
    check("tool_20260102_030405_3_link.txt");
    let made = std::process::Command::new("mkfifo").arg(folder.join("tool_20260102_030405_4_pipe.txt")).status();
    assert!(made.expect("mkfifo").success());
    check("tool_20260102_030405_4_pipe.txt");

    // The file itself becomes a link.
    fs::remove_file(folder.join(&name)).expect("removed");
    symlink(&secret, folder.join(&name)).expect("a link");
    check(&name);

    // The folder becomes a link, to one that has such a file.
    let elsewhere = temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    fs::write(elsewhere.join("tool_20260102_030405_5_x.txt"), "secret").expect("a file");
    fs::rename(&folder, temp.path().join("moved")).expect("moved");
    symlink(&elsewhere, &folder).expect("a link");
    check("tool_20260102_030405_5_x.txt");
    let error = block_on(outputs.store("list", "text".to_owned())).expect_err("an error");
    assert!(matches!(error, OutputError::Folder { .. }), "{error:?}");
    assert_eq!(fs::read_dir(&elsewhere).expect("a folder").count(), 1);
}

#[test]
fn searching_and_reading_go_hand_in_hand() {
    let temp = Temp::new("search");
    let mut outputs = temp.outputs("chat");
    outputs.settings.threshold_tokens = 1000;
    let text = format!("[{}]", (0..5000).map(|at| format!("{{\"näme\":\"item {at}\"}}")).collect::<Vec<_>>().join(","));
    let name = name_of(&put(&outputs, &text));
    let search = |arguments: Value| block_on(outputs.call_tool(HostTool::SearchLargeOutput, &arguments));
    let found = search(json!({"filename": name, "operation": "search", "pattern": "ITEM 4321\""})).expect("an answer");
    let (from, shown) =
        found.strip_prefix("1:[from character ").and_then(|rest| rest.split_once("] ")).expect("a window");
    let from: usize = from.parse().expect("a number");
    let range = json!({"filename": name, "operation": "read", "start": from, "end": from + shown.chars().count() - 1});
    assert_eq!(search(range).expect("an answer"), shown);
    assert!(shown.contains("item 4321\""), "{shown}");
    let none = search(json!({"filename": name, "operation": "search", "pattern": "item 5000"}));
    assert_eq!(none.expect("an answer"), "No matches found for the given pattern.");
    let bad = search(json!({"filename": name, "operation": "search", "pattern": "["})).expect_err("an error");
    assert!(bad.to_string().starts_with("invalid `pattern`: "), "{bad}");
    let elsewhere = search(json!({"filename": "../x", "operation": "search", "pattern": "x"})).expect_err("an error");
    assert_eq!(elsewhere.to_string(), UNKNOWN);
}

#[test]
fn answers_are_never_large_themselves() {
    let temp = Temp::new("bounded");
    let outputs = temp.outputs("chat");
    let name = name_of(&put(&outputs, &"a1 ".repeat(10_000)));
    let answer = read(&outputs, &name, 1, 30_000).expect("an answer");
    let note = answer.find("[Truncated after").expect("a note");
    assert!(!outputs.is_large(&answer[..note]), "{answer}");
    assert!(answer.ends_with("Continue with start=136.]"), "{answer}");
}

#[test]
fn queries_need_a_program() {
    let temp = Temp::new("no_program");
    let outputs = temp.outputs("chat");
    let name = name_of(&put(&outputs, "[1]"));
    let query = json!({"filename": name, "query": "."});
    let error = block_on(outputs.call_tool(HostTool::QueryLargeOutput, &query)).expect_err("an error");
    assert_eq!(error.to_string(), "queries need the `pegboard` program, which was not found");
    assert!(error.hint().is_some_and(|hint| hint.contains("Agent::builder().program")));
    let gone = Outputs { program: Some(Program::at("/nowhere/pegboard")), ..temp.outputs("chat") };
    let error = block_on(gone.call_tool(HostTool::QueryLargeOutput, &query)).expect_err("an error");
    assert!(matches!(error, ReadError::Program(_)), "{error:?}");
}

#[test]
fn old_outputs_are_removed_and_nothing_else() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let temp = Temp::new("clean");
    let mut outputs = temp.outputs("chat");
    let old = put(&outputs, "old").path;
    let other = put(&temp.outputs("other"), "old too").path;
    let root = temp.path();
    let part = ".tool_20260102_030405_1_x.txt.part";
    let foreign = ["chat/notes.txt", "chat/tool_box.txt", "tool_20260102_030405_1_x.txt", "chat/.tool_x.part"];
    for name in foreign.into_iter().chain([format!("chat/{part}").as_str()]) {
        fs::write(root.join(name), "x").expect("a file");
    }
    fs::create_dir_all(root.join("chat/tool_20260102_030405_2_x.txt/inner")).expect("a folder");
    #[cfg(unix)]
    {
        fs::create_dir(root.join("linked")).expect("a folder");
        fs::write(root.join("linked/tool_20260102_030405_3_x.txt"), "x").expect("a file");
        fs::rename(root.join("linked"), root.with_extension("aside")).expect("moved");
        std::os::unix::fs::symlink(root.with_extension("aside"), root.join("linked")).expect("a link");
        std::os::unix::fs::symlink("notes.txt", root.join("chat/tool_20260102_030405_4_x.txt")).expect("a link");
    }

    outputs.clock = || SystemTime::now() + DAY * 6;
    block_on(outputs.remove_old());
    assert!(old.exists() && other.exists() && root.join("chat").join(part).exists());

    outputs.clock = || SystemTime::now() + DAY * 8;
    block_on(outputs.remove_old());
    assert!(!old.exists() && !other.exists() && !root.join("chat").join(part).exists());
    assert!(!root.join("other").exists(), "an empty folder is left");
    for name in foreign {
        assert!(root.join(name).exists(), "{name}");
    }
    assert!(root.join("chat/tool_20260102_030405_2_x.txt/inner").exists());
    #[cfg(unix)]
    {
        assert!(root.join("linked/tool_20260102_030405_3_x.txt").exists());
        assert!(fs::symlink_metadata(root.join("chat/tool_20260102_030405_4_x.txt")).is_ok());
        fs::remove_dir_all(root.with_extension("aside")).expect("removed");
    }
    // The folder is made again when it is needed.
    put(&temp.outputs("other"), "new");
}

#[test]
fn names_carry_the_time_they_were_given() {
    let temp = Temp::new("clock");
    let mut outputs = temp.outputs("chat");
    outputs.clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
    let name = name_of(&put(&outputs, "x"));
    assert!(name.starts_with("tool_20260102_030405_"), "{name}");
}

#[test]
fn many_at_once_have_names_of_their_own() {
    let temp = Temp::new("at_once");
    let outputs = Arc::new(temp.outputs("chat"));
    let texts = block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..50 {
            let outputs = Arc::clone(&outputs);
            tasks.spawn(async move {
                let offloaded = outputs.store("list", format!("text {at}")).await.expect("an output");
                (format!("text {at}"), fs::read_to_string(offloaded.path).expect("the file"))
            });
        }
        tasks.join_all().await
    });
    assert_eq!(texts.len(), 50);
    assert!(texts.iter().all(|(put, read)| put == read));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_of_the_rest_complete_a_preview(text in "[bä𝄞\n ]{41,90}") {
        let temp = Temp::new("property");
        let outputs = temp.outputs("chat");
        let offloaded = put(&outputs, &text);
        let (head, tail, omitted) = preview(&text, offloaded.chars, 40);
        let (head_chars, name) = (head.chars().count(), name_of(&offloaded));
        let between = read(&outputs, &name, head_chars + 1, head_chars + omitted).expect("an answer");
        prop_assert_eq!(format!("{head}{between}{tail}"), &*text);
        let shown = format!("\n\n{head}\n[… {omitted} characters omitted …]\n{tail}\n\nContinue reading");
        prop_assert!(offloaded.message.contains(&shown));
    }
}
