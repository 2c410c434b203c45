use std::{fs, path::PathBuf};

use super::*;
use crate::wires::Chat;

struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegboard-proxy-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn restore_text(conversations: &Conversations, root: Link, items: &[&str]) -> History {
    let items: Vec<Cow<'_, str>> = items.iter().map(|item| Cow::Borrowed(*item)).collect();
    restore(conversations, &Chat, root, None, &items, &|_| true).expect("a history")
}

const USER: &str = r#"{"role":"user","content":"Hi"}"#;
const MODEL: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"send","arguments":"{\"a\": 1}"}}]}"#;
const RESULT: &str = r#"{"role":"tool","tool_call_id":"c1","content":"done"}"#;

fn turn() -> Turn {
    let known = vec![r#"{"role":"assistant","tool_calls":["hidden"]}"#.to_owned()];
    let parked = vec![r#"{"role":"tool","tool_call_id":"c0","content":"found"}"#.to_owned()];
    Turn { items: Some(known), parked, ..Turn::default() }
}

fn said(model: &str) -> Said {
    Chat.said(&serde_json::from_str(model).expect("JSON")).expect("the model's")
}

#[test]
fn hidden_turns_are_found_by_what_the_client_has_seen() {
    let conversations = Conversations::open(None, HOUR).expect("memory");
    let root = conversations.root("openai", "http://x", b"key");
    let before = restore_text(&conversations, root, &[USER]);
    conversations.put(&[after_model(&before.link, &said(MODEL))], turn());
    let expected = format!(
        r#"{USER},{{"role":"assistant","tool_calls":["hidden"]}},{{"role":"tool","tool_call_id":"c0","content":"found"}},{RESULT}"#
    );
    let check = |items: &[&str], is_known: bool| {
        let history = restore_text(&conversations, root, items);
        assert_eq!(history.text == expected, is_known, "{}", history.text);
        assert_eq!(history.declared.is_some(), is_known);
        assert_eq!(history.called.is_empty(), is_known);
    };
    check(&[USER, MODEL, RESULT], true);
    // Clients write the same in other forms.
    let marked = r#"{"content":[{"cache_control":{"type":"ephemeral"},"type":"text","text":"Hi"}],"role":"user"}"#;
    let history = restore_text(&conversations, root, &[marked, MODEL, RESULT]);
    assert_eq!(history.text, expected.replace(USER, marked));
    check(&[USER, &MODEL.replace(r#"{\"a\": 1}"#, r#"{\"a\":1}"#), RESULT], true);
    check(&[USER, &MODEL.replace(r#""content":"""#, r#""content":null"#), RESULT], true);
    // Anything else is another conversation.
    check(&[r#"{"role":"user","content":"Ho"}"#, MODEL, RESULT], false);
    check(&[USER, &MODEL.replace("c1", "c2"), RESULT], false);
    check(&[USER, USER, MODEL, RESULT], false);
    let other = conversations.root("openai", "http://x", b"other key");
    assert!(restore_text(&conversations, other, &[USER, MODEL, RESULT]).declared.is_none());
}

#[test]
fn turns_survive_a_restart_and_are_sealed() {
    let place = Place::new("restart");
    let open = || Conversations::open(Some(&place.0), HOUR).expect("a folder");
    let first = open();
    let root = first.root("openai", "http://x", b"key");
    let link = after_model(&root, &said(MODEL));
    first.put(&[link], turn());
    let second = open();
    assert_eq!(second.root("openai", "http://x", b"key"), root);
    assert_eq!(second.get(&link).as_deref(), Some(&turn()));
    let file = place.0.join(format!("{}.turn", hex(&link)));
    let bytes = fs::read(&file).expect("a file");
    assert!(!bytes.windows(6).any(|part| part == b"hidden"), "sealed");
    // A file under another name is not used.
    fs::copy(&file, place.0.join(format!("{}.turn", hex(&[7; 32])))).expect("copied");
    assert!(open().get(&[7; 32]).is_none());
    let expired = Conversations::open(Some(&place.0), Duration::ZERO).expect("a folder");
    assert!(expired.get(&link).is_none());
}

#[test]
fn a_turn_at_the_end_goes_on() {
    let conversations = Conversations::open(None, HOUR).expect("memory");
    let prefill = r#"{"role":"assistant","content":"The answer"}"#;
    let history = restore_text(&conversations, [0; 32], &[USER, prefill]);
    assert_eq!(history.open.text, "The answer");
    assert_eq!(history.open_items, [prefill]);
    assert_eq!(history.text, format!("{USER},{prefill}"));
    let whole =
        restore_text(&conversations, [0; 32], &[USER, r#"{"role":"assistant","content":"The answer is 7"}"#, USER]);
    let mut said = history.open.clone();
    said.text.push_str(" is 7");
    let mut user: Value = serde_json::from_str(USER).expect("JSON");
    assert_eq!(after_client(&after_model(&history.link, &said), &mut user), whole.link);
}

#[test]
fn roots_with_turns_are_known() {
    let place = Place::new("roots");
    for folder in [None, Some(place.0.as_path())] {
        let conversations = Conversations::open(folder, HOUR).expect("a folder or memory");
        let [used, other] = [b"one", b"two"].map(|key| conversations.root("openai", "http://x", key));
        assert!(!conversations.has_turns(&used));
        for _ in 0..2 {
            conversations.mark(&used);
            assert_eq!((conversations.has_turns(&used), conversations.has_turns(&other)), (true, false));
        }
        // Another process has removed it.
        let Some(folder) = folder else { continue };
        fs::remove_file(folder.join(format!("{}.turn", hex(&mark_link(&used))))).expect("a file");
        conversations.mark(&used);
        let second = Conversations::open(Some(folder), HOUR).expect("a folder");
        assert_eq!((second.has_turns(&used), second.has_turns(&other)), (true, false));
    }
}
