//! The agent on a terminal, which Python's standard library provides.

use pegboard_testkit::provider::{Fault, ScriptedError, Sending, Stall};

use super::*;

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent/cli/terminal.py");

/// The output of the terminal, and the exit code.
struct TerminalRun {
    code: i64,
    screen: String,
    raw: String,
}

impl Place {
    /// Runs it on a terminal; each step waits for a text and types a reply.
    fn on_terminal(&self, args: &[&str], steps: &[(&str, &str)]) -> TerminalRun {
        self.on_terminal_of(100, args, steps)
    }

    /// Runs it on a terminal of so many columns.
    fn on_terminal_of(&self, columns: usize, args: &[&str], steps: &[(&str, &str)]) -> TerminalRun {
        let mut command = Command::new("python3");
        command.env("TERMINAL_COLUMNS", columns.to_string());
        for name in ["PEGBOARD_MODEL", "PEGBOARD_CONFIG", "PEGBOARD_LOG", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.args([DRIVER, &json!(steps).to_string(), env!("CARGO_BIN_EXE_pegboard"), "agent", "--model", MODEL]);
        command.args(args).envs(self.variables()).env("TERM", "xterm").current_dir(&self.folder);
        let output = command.output().expect("Python runs");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        assert_eq!(seen["left"], json!([]), "not all was seen:\n{}", seen["screen"].as_str().unwrap_or_default());
        let text = |key: &str| seen[key].as_str().expect("a text").to_owned();
        TerminalRun { code: seen["code"].as_i64().expect("a code"), screen: text("screen"), raw: text("raw") }
    }
}

fn shown(seen: &TerminalRun) -> String {
    masked(&format!("exit {}\n{}", seen.code, seen.screen))
}

#[test]
fn one_prompt_on_a_terminal() {
    let delete = call("delete_file", &json!({"path": "/Team/notes.txt"}));
    let [search, list, answer] = errand();
    let place = Place::new("look", [search, turn([delete.clone()]), list, turn([delete]), answer]);
    let seen = place.on_terminal(
        &["What is there?"],
        &[("to decline: ", "not now\r"), ("to decline: ", "?\r"), ("to decline: ", "ok\r")],
    );
    insta::assert_snapshot!(shown(&seen));
    assert!(seen.raw.contains("\u{1b}[1m\u{1b}[36m→"), "there are no colours");
    assert!(place.request_text(2).contains("not now"), "the model does not learn why");
    place.provider.assert_clean();
}

const DOCUMENT: &str = "\
## Open issues in `acme/web`

There are **2 open issues**; see [the list](https://github.com/acme/web/issues):

1. *Login fails* on Safari, which several users have reported since the release of last week
2. Dark mode is missing
   - the `settings_page` needs a switch

| # | Title | Labels | Notes |
|--:|:------|:------:|-------|
| 1 | Login fails | bug | Fails with **Safari 17** after the redirect from the identity provider |
| 2 | Dark mode | feature | Wanted by *many* people |

> Nobody is assigned.

```sh
gh issue view 1 --repo acme/web
```

Shall I assign them?
";

#[test]
fn an_answer_in_markdown_fits_terminals() {
    for columns in [60, 80, 120] {
        let [search, list, _] = errand();
        let place = Place::new(&format!("markdown-{columns}"), [search, list, say(DOCUMENT), say("As before.")]);
        let args = ["--transcript", "talk.json", "Which issues are open?"];
        let first = place.on_terminal_of(columns, &args, &[]);
        insta::assert_snapshot!(format!("markdown in {columns} columns"), shown(&first));
        let resumed = place.on_terminal_of(columns, &["--transcript", "talk.json", "And now?"], &[]);
        insta::assert_snapshot!(format!("resumed in {columns} columns"), shown(&resumed));
    }
}

#[test]
fn a_conversation_on_a_terminal() {
    let question = json!({"question": "Which colour?", "options": ["red", "blue"]});
    let stalled = say("A long story that nobody waits for").sending(Sending::stall_after(900));
    let place = Place::new(
        "conversation",
        [turn([Part::call("ask_human", question)]), say("Blue it is."), stalled, say("Hello again.")],
    );
    // Keys that come before the prompt does would be shown twice.
    let steps = [
        ("> ", "choose for me\r"),
        ("  > ", "2\r"),
        ("turns", ""),
        ("> ", "tell me a story\r"),
        ("waits for", "\u{3}"),
        ("cancelled", ""),
        ("> ", "hello\r"),
        ("1 turn", ""),
        ("> ", "/cost\r"),
        ("60 out", ""),
        ("> ", "/tools\r"),
        ("visible of", ""),
        ("> ", "/what\r"),
        ("lists the commands", ""),
        ("> ", "\u{4}"),
    ];
    let seen = place.on_terminal(&[], &steps);
    insta::assert_snapshot!(shown(&seen));
    assert!(place.request_text(1).contains("blue"));
    place.provider.assert_clean();
}

#[test]
fn text_typed_while_the_model_works_becomes_the_next_prompt() {
    let pause = Some(Duration::from_millis(700));
    let slow = say("A long story that somebody waits for, to its end")
        .sending(Sending { stall: Some(Stall { after: 900, time: pause }), ..Sending::default() });
    let place = Place::new("typed", [slow, say("Hello again.")]);
    let steps = [("> ", "tell me a story\r"), ("A long", "hello\r"), ("Hello again.", ""), ("> ", "/quit\r")];
    let seen = place.on_terminal(&[], &steps);
    insta::assert_snapshot!(shown(&seen));
    assert!(place.request_text(1).contains("hello"), "{}", place.request_text(1));
    place.provider.assert_clean();
}

#[test]
fn the_beginning_of_a_line_waits_behind_whole_lines() {
    let pause = Some(Duration::from_millis(700));
    let slow = say("A long story that somebody waits for, to its end")
        .sending(Sending { stall: Some(Stall { after: 900, time: pause }), ..Sending::default() });
    let place = Place::new("typed-lines", [slow, say("Hello again."), say("Third.")]);
    let steps = [
        ("> ", "tell me a story\r"),
        ("A long", "hello\rand then"),
        ("Hello again.", ""),
        ("> and then", " what?\r"),
        ("Third.", ""),
        ("> ", "/quit\r"),
    ];
    let seen = place.on_terminal(&[], &steps);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(place.request_text(1).contains("hello"), "{}", place.request_text(1));
    assert!(place.request_text(2).contains("and then what?"), "{}", place.request_text(2));
    place.provider.assert_clean();
}

#[test]
fn text_typed_before_a_question_does_not_answer_it() {
    let pause = Some(Duration::from_millis(700));
    let delete = call("delete_file", &json!({"path": "/Team/notes.txt"}));
    let slow = turn([Part::text("A long story that somebody waits for, to its end"), delete])
        .sending(Sending { stall: Some(Stall { after: 900, time: pause }), ..Sending::default() });
    let place = Place::new("typed-before", [slow, say("It stays."), say("Hello again.")]);
    let steps = [
        ("> ", "delete it\r"),
        ("A long", "y\rhello"),
        ("to decline: ", "n\r"),
        ("It stays.", ""),
        ("> y hello", "\r"),
        ("Hello again.", ""),
        ("> ", "/quit\r"),
    ];
    let seen = place.on_terminal(&[], &steps);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(place.request_text(1).contains("the user declined"), "{}", place.request_text(1));
    assert!(place.request_text(2).contains("y hello"), "{}", place.request_text(2));
}

#[test]
fn a_question_that_is_interrupted_takes_nothing_from_the_prompt() {
    let delete = call("delete_file", &json!({"path": "/Team/notes.txt"}));
    let place = Place::new("interrupted", [turn([delete]), say("Nothing was deleted.")]);
    let steps = [
        ("> ", "delete it\r"),
        ("to decline: ", "\u{3}"),
        ("cancelled", ""),
        ("> ", "what happened?\r"),
        ("deleted.", ""),
        ("> ", "/quit\r"),
    ];
    let seen = place.on_terminal(&[], &steps);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("cancelled"), "{}", seen.screen);
    assert!(place.request_text(1).contains("what happened?"), "{}", place.request_text(1));
    place.provider.assert_clean();
}

#[test]
fn one_prompt_is_interrupted() {
    let place = Place::new("interrupt", [say("A long story that nobody waits for").sending(Sending::stall_after(900))]);
    let seen = place.on_terminal(&["Tell me a story"], &[("waits for", "\u{3}")]);
    assert_eq!(seen.code, 130, "{}", seen.screen);
    assert!(seen.screen.contains("cancelled"), "{}", seen.screen);
}

#[test]
fn the_wait_for_the_model_is_shown_and_removed() {
    let refused = ScriptedTurn::Fail(Fault::Status(ScriptedError {
        status: 529,
        message: Some("too many requests".to_owned()),
        retry_after: Some("0".to_owned()),
        ..ScriptedError::default()
    }));
    let place = Place::new("progress", [refused, ScriptedTurn::Fail(Fault::Stall(None))]);
    let seen = place.on_terminal(&["Tell me a story"], &[("status 529", "\u{3}")]);
    assert_eq!(seen.code, 130, "{}", seen.screen);
    assert!(seen.raw.contains("waiting for the model, 1 s; retry 1 of 4"), "{}", seen.raw);
    assert!(seen.screen.contains("cancelled"), "{}", seen.screen);
    assert!(!seen.screen.contains("waiting for the model"), "{}", seen.screen);
}

#[test]
fn the_wait_for_a_tool_is_shown_and_removed() {
    let place = Place::new("progress-tool", [turn([Part::call("slow", json!({"ms": 600_000}))])]);
    place.file("one.json", &json!({"mcpServers": {"one": fixture(&["--extras"])}}));
    let seen =
        place.on_terminal(&["one.json", "Wait", "--mode", "normal", "--yes"], &[("calling one___slow, ", "\u{3}")]);
    assert_eq!(seen.code, 130, "{}", seen.screen);
    assert!(seen.screen.contains("→ one___slow") && !seen.screen.contains("calling one"), "{}", seen.screen);
}

#[test]
fn nothing_about_waiting_is_printed_without_a_terminal() {
    let slow = say("The end.").sending(Sending {
        stall: Some(Stall { after: 0, time: Some(Duration::from_millis(1500)) }),
        ..Sending::default()
    });
    let place = Place::new("progress-pipe", [slow]);
    let output = place.ask(&["Tell me a story"]);
    assert_eq!(text(&output.stdout), "The end.\n", "{}", show(&output));
    assert!(!stderr(&output).contains("waiting"), "{}", show(&output));
}
