//! Conversations that are saved, compacted and gone on with.

use pegboard_agent::{Agent, AgentEvent, BuildError, CustomTool, ResumeError, RunLimits, ToolDef, ToolError};
use pegboard_testkit::provider::{Output, Part, Provider, Script, ScriptedTurn, Stop};
use serde_json::{Value, json};

use crate::support::{Folder, MODELS, Weather, agent, agent_of, call, last_body, provider, run, say};

async fn with_weather(model: &str, provider: &Provider, saved: Option<Value>) -> Agent {
    let mut builder = agent_of(model, provider).servers([Weather::default().config()]);
    if let Some(saved) = saved {
        builder = builder.resume(saved);
    }
    builder.build().await.expect("an agent")
}

#[tokio::test]
async fn saved_and_resumed_with_each_provider() {
    for model in MODELS {
        let provider = provider([
            call("add_tool", json!({"tool_names": ["get_weather"]})),
            say("Added."),
            call("get_weather", json!({"location": "Oslo"})),
            say("Sunny."),
        ]);
        let agent = with_weather(model, &provider, None).await;
        agent.run("Get ready").await.expect("an answer");
        let saved = agent.save().await;
        let before = agent.visible_tools();
        let resumed = with_weather(model, &provider, Some(saved)).await;
        assert_eq!(resumed.visible_tools(), before, "{model}");
        assert_eq!(resumed.run("Weather?").await.expect("an answer").text, "Sunny.", "{model}");
        assert!(last_body(&provider).contains("Get ready"), "{model}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn compacted_with_each_provider() {
    for model in MODELS {
        let provider = provider([
            call("add_tool", json!({"tool_names": ["get_weather"]})),
            say("Added."),
            say("The tool for the weather was added; nothing else happened."),
            call("get_weather", json!({"location": "Oslo"})),
            say("Sunny."),
        ]);
        let agent = with_weather(model, &provider, None).await;
        agent.run("Get ready, please").await.expect("an answer");
        agent.compact().await.expect("a summary");
        let answer = agent.run("Weather?").await.expect("an answer");
        assert_eq!(answer.text, "Sunny.", "{model}");
        let body = last_body(&provider);
        assert!(body.contains("nothing else happened") && !body.contains("Get ready, please"), "{model}: {body}");
        assert!(agent.visible_tools().contains(&"get_weather".to_owned()), "{model}");
        // And once more, from what is left.
        let saved = agent.save().await;
        let later = with_weather(model, &provider, Some(saved)).await;
        assert_eq!(later.visible_tools(), agent.visible_tools(), "{model}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn compacted_by_itself_in_mid_run() {
    let provider = provider([
        call("add_tool", json!({"tool_names": ["get_weather"]})),
        say("Summary: the weather of Oslo is wanted."),
        call("get_weather", json!({"location": "Oslo"})),
        say("Summary: it is sunny in Oslo."),
        say("Sunny."),
    ]);
    let limits = RunLimits { context_tokens: Some(1), ..RunLimits::default() };
    let builder = agent(&provider).servers([Weather::default().config()]).limits(limits);
    let agent = builder.build().await.expect("an agent");
    let (events, answer) = run(&agent, "Weather in Oslo?").await;
    assert_eq!(answer.text, "Sunny.");
    assert_eq!(events.iter().filter(|event| **event == AgentEvent::Compacted).count(), 2);
    let body = last_body(&provider);
    assert!(body.contains("Continue with what is left to do.") && body.contains("Weather in Oslo?"), "{body}");
    assert_eq!((answer.turns, answer.usage), (5, agent.total_usage().0), "summaries count");
    provider.assert_clean();
}

#[tokio::test]
async fn a_summary_that_cannot_be_had_changes_nothing() {
    let provider = provider([say("Hello.")]);
    let agent = agent(&provider).build().await.expect("an agent");
    agent.run("Hi").await.expect("an answer");
    let before = agent.history().await;
    agent.compact().await.expect_err("the script is over");
    assert_eq!(agent.history().await, before);
}

#[tokio::test]
async fn a_transcript_survives_a_crash_at_any_step() {
    let folder = Folder::new("agent-crash");
    let script = || {
        Script::new([
            call("add_tool", json!({"tool_names": ["get_weather"]})),
            call("slow", json!({})),
            say("It was interrupted."),
        ])
    };
    for model in MODELS {
        let path = folder.path().join(format!("{}.json", model.replace('/', "-")));
        let provider = Provider::start(script());
        let weather = Weather::default();
        let agent = agent_of(model, &provider).servers([weather.config()]).transcript(&path).build().await;
        let agent = agent.expect("an agent");
        // What a crash leaves: the file as it is while the call runs.
        let crashed = folder.path().join("crashed.json");
        tokio::select! {
            _ = agent.run("Ask the slow one") => panic!("it never answers"),
            () = weather.began.notified() => { std::fs::copy(&path, &crashed).expect("a file"); }
        }
        let builder = agent_of(model, &provider).servers([Weather::default().config()]).transcript(&crashed);
        let resumed = builder.build().await.expect("an agent");
        assert!(resumed.visible_tools().contains(&"get_weather".to_owned()), "{model}");
        assert_eq!(resumed.run("What happened?").await.expect("an answer").text, "It was interrupted.");
        let body = last_body(&provider);
        assert!(body.contains("cancelled before it returned") && body.contains("Ask the slow one"), "{model}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn transcripts_that_cannot_be_used() {
    let folder = Folder::new("agent-transcripts");
    let check = async |name: &str, content: &[u8], expected: fn(&ResumeError) -> bool| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        let provider = provider([say("?")]);
        let error = agent(&provider).transcript(&path).build().await.expect_err("a mistake");
        let BuildError::Resume(error) = error else { panic!("{error}") };
        assert!(expected(&error), "{name}: {error}");
        assert_eq!(std::fs::read(&path).expect("a file"), content, "it is not touched");
    };
    check(
        "garbage",
        b"{\"version\": 1",
        |error| matches!(error, ResumeError::Invalid { reason } if reason.contains("garbage` is not valid JSON")),
    )
    .await;
    check("list", b"[]", |error| error.to_string() == "not a saved conversation: `version` is missing").await;
    check("later", b"{\"version\": 99}", |error| matches!(error, ResumeError::Format { .. })).await;
    let other = br#"{"version": 1, "model": "openai/gpt-5.4", "messages": []}"#;
    check("other", other, |error| matches!(error, ResumeError::OtherWire { .. })).await;
    let odd = br#"{"version": 1, "model": "anthropic/claude-opus-4-8", "messages": 7}"#;
    check("odd", odd, |error| matches!(error, ResumeError::Invalid { .. })).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_transcript_is_for_its_owner_and_a_full_disk_is_told() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new("agent-owner");
    let path = folder.path().join("transcript.json");
    let provider = provider([say("Hello."), say("Hello again.")]);
    let written = agent(&provider).transcript(&path).build().await.expect("an agent");
    written.run("Hi").await.expect("an answer");
    let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The folder is gone in the middle: the run goes on, and it is told.
    std::fs::remove_dir_all(folder.path()).expect("a folder");
    let (events, answer) = run(&written, "Hi again").await;
    assert_eq!(answer.text, "Hello again.");
    assert!(events.iter().any(|event| matches!(event, AgentEvent::Warning(_))), "{events:?}");
    let error = agent(&provider).transcript("/proc/nothing/here.json").build().await.expect_err("no such folder");
    assert!(matches!(&error, BuildError::Resume(ResumeError::Unwritable { .. })) && error.hint().is_some(), "{error}");
}

#[tokio::test]
async fn one_file_is_one_agents() {
    let folder = Folder::new("agent-one-file");
    let path = folder.path().join("transcript.json");
    let provider = provider([say("Hello.")]);
    let first = agent(&provider).transcript(&path).build().await.expect("an agent");
    first.run("Hi").await.expect("an answer");
    let second = agent(&provider).transcript(&path).build().await.expect_err("in use");
    assert!(matches!(second, BuildError::Resume(ResumeError::InUse { .. })), "{second}");
    let saved = first.save().await;
    drop(first);
    let both = agent(&provider).transcript(&path).resume(saved).build().await.expect_err("two conversations");
    assert!(matches!(both, BuildError::Resume(ResumeError::TwoSources { .. })), "{both}");
    agent(&provider).transcript(&path).build().await.expect("an agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_is_whole_whenever_it_is_looked_at() {
    let folder = Folder::new("agent-whole");
    let path = folder.path().join("transcript.json");
    let search = call("search_tools", json!({"query": "weather"}));
    let provider = Provider::start(Script { repeat: true, ..Script::new([search]) });
    let builder = agent(&provider).servers([Weather::default().config()]).transcript(&path);
    let agent = builder.limits(RunLimits { turns: 10_000, ..RunLimits::default() }).build().await.expect("an agent");
    for _ in 0..20 {
        let mut run = agent.stream("Search");
        for _ in 0..7 {
            run.next().await;
        }
        // Cancelled wherever it is, in the middle of writing too.
        drop(run);
        agent.write_transcript().await.expect("it is written");
        let text = std::fs::read_to_string(&path).expect("a file");
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 2, "the file and its lock");
}

#[tokio::test]
async fn only_a_summary_takes_the_place_of_a_conversation() {
    let cut = ScriptedTurn::Say(Output {
        parts: vec![Part::text("The person")],
        stop: Some(Stop::MaxTokens),
        ..Output::default()
    });
    let refused = ScriptedTurn::Say(Output {
        parts: vec![Part::text("I cannot.")],
        stop: Some(Stop::Refusal),
        ..Output::default()
    });
    for turn in [cut, refused] {
        let provider = provider([say("Hello."), turn, say("Still here.")]);
        let agent = agent(&provider).build().await.expect("an agent");
        agent.run("Remember the milk").await.expect("an answer");
        let before = agent.history().await;
        agent.compact().await.expect("an answer, if no summary");
        assert_eq!(agent.history().await, before);
        agent.run("And?").await.expect("an answer");
        assert!(last_body(&provider).contains("Remember the milk"));
        provider.assert_clean();
    }
}

#[tokio::test]
async fn a_saved_name_is_no_path() {
    let provider = provider([say("Hello."), say("Hello again.")]);
    let first = agent(&provider).build().await.expect("an agent");
    first.run("Hi").await.expect("an answer");
    let mut saved = first.save().await;
    saved["id"] = "x/../../elsewhere".into();
    let again = agent(&provider).resume(saved).build().await.expect("an agent");
    let id = again.save().await["id"].as_str().expect("a name").to_owned();
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
}

#[tokio::test]
async fn what_was_found_may_be_gone_and_the_model_another() {
    for model in
        ["anthropic/claude-opus-4-8", "anthropic/claude-opus-4-1", "anthropic/claude-fable-5-1", "minimax/MiniMax-M3"]
    {
        let provider = provider([
            ScriptedTurn::say([Part::thinking("Hm."), Part::call("add_tool", json!({"tool_names": ["get_weather"]}))]),
            say("Added."),
            say("It is gone."),
        ]);
        let first = with_weather("anthropic/claude-opus-4-8", &provider, None).await;
        first.run("Get ready").await.expect("an answer");
        let saved = first.save().await;
        // Its server is not there any more.
        let resumed = agent_of(model, &provider).resume(saved).build().await.expect("an agent");
        assert_eq!(resumed.run("Weather?").await.expect("an answer").text, "It is gone.", "{model}");
        provider.assert_clean();
    }
}

#[tokio::test]
async fn thoughts_that_are_bound_never_end_a_conversation() {
    let model = "anthropic/claude-fable-5-1";
    let thinking =
        |name: &str, arguments: Value| ScriptedTurn::say([Part::thinking("Hm."), Part::call(name, arguments)]);
    let script = Script::new([
        thinking("get_weather", json!({"location": "Rome"})),
        thinking("add_tool", json!({"tool_names": ["get_weather"]})),
        say("Sunny."),
        thinking("late", json!({})),
        say("Late."),
        ScriptedTurn::status(401),
        say("Still here."),
    ]);
    let provider = Provider::start(script.bind_thinking());
    let agent = with_weather(model, &provider, None).await;
    agent.run("Weather?").await.expect("an answer");
    let def = ToolDef::new("late", "Late", json!({"type": "object", "properties": {}}));
    let late = CustomTool::new(def, async |_: Value| Ok::<_, ToolError>("late")).eager();
    agent.registry().add(late).expect("registered");
    agent.run("And the late one").await.expect("an answer");
    agent.compact().await.expect_err("no summary to be had");
    assert_eq!(agent.run("There?").await.expect("an answer").text, "Still here.");
    provider.assert_clean();
}
