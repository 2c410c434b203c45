//! Outputs that are too large for a conversation.

use pegboard_agent::{AgentEvent, CustomTool, Mode, ToolDef, ToolError, outputs::OutputSettings};
use serde_json::{Value, json};

use crate::support::{Folder, Weather, agent, call, last_body, provider, results, run, say};

#[tokio::test]
async fn a_large_output_is_read_from_its_file() {
    let folder = Folder::new("agent-offload");
    let provider = provider([call("large", json!({"bytes": 200_000})), say("Read.")]);
    let servers = || [Weather::default().config()];
    let builder = agent(&provider).servers(servers()).offload(OutputSettings::new(folder.path()));
    let agent = builder.build().await.expect("an agent");
    let visible = agent.visible_tools();
    for reader in ["search_large_output", "read_large_output", "query_large_output"] {
        assert!(visible.contains(&reader.to_owned()), "{visible:?}");
    }
    let (events, _) = run(&agent, "All of it").await;
    let path = events.iter().find_map(|event| match event {
        AgentEvent::CallFinished { offloaded, .. } => offloaded.clone(),
        _ => None,
    });
    let path = path.expect("it is offloaded");
    assert!(std::fs::metadata(&path).expect("a file").len() >= 200_000);
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let told = last_body(&provider);
    assert!(told.len() < 60_000 && told.contains(name), "{} bytes", told.len());
    // Another process goes on with the conversation, and reads the same file.
    let saved = agent.save().await;
    let search = json!({"filename": name, "operation": "search", "pattern": "measured", "max_results": 1});
    provider.go_on([
        call("read_large_output", json!({"filename": name, "start": 1, "end": 10})),
        call("search_large_output", search),
        call("read_large_output", json!({"filename": "../../etc/passwd", "start": 1, "end": 10})),
        say("Done."),
    ]);
    let builder = crate::support::agent(&provider).servers(servers()).resume(saved);
    let again = builder.offload(OutputSettings::new(folder.path())).build().await.expect("an agent");
    let (events, _) = run(&again, "Read it").await;
    let answered = results(&events);
    assert!(answered[0].1.contains("station 17"), "{answered:?}");
    assert!(answered[1].1.contains("measured"), "{answered:?}");
    assert!(answered[2].2, "{answered:?}");
    provider.assert_clean();
}

#[tokio::test]
async fn nothing_is_offloaded_where_nothing_can_be_read() {
    // Without offloading at all, and where the readers are denied.
    let folder = Folder::new("agent-no-reader");
    for is_on in [false, true] {
        let provider = provider([call("large", json!({"bytes": 200_000})), say("Read.")]);
        let mut builder = agent(&provider).servers([Weather::default().config()]).mode(Mode::Normal);
        if is_on {
            let readers = ["search_large_output", "read_large_output", "query_large_output"];
            builder = builder.offload(OutputSettings::new(folder.path())).denied(readers);
        }
        let agent = builder.build().await.expect("an agent");
        let (events, _) = run(&agent, "All of it").await;
        let (_, text, _) = &results(&events)[0];
        assert!(text.len() >= 200_000, "{is_on}: {} bytes", text.len());
        provider.assert_clean();
    }
}

#[tokio::test]
async fn a_search_that_finds_thousands_is_put_aside_and_what_is_loaded_is_told() {
    let folder = Folder::new("agent-offload-search");
    let many: Vec<String> = (0..3000).map(|number| format!("counter_{number}")).collect();
    let provider = provider([
        call("search_tools", json!({"query": "counter_.*"})),
        call("add_tool", json!({"tool_names": many})),
        say("Too many."),
    ]);
    let mut builder = agent(&provider).offload(OutputSettings::new(folder.path()));
    for name in &many {
        let def = ToolDef::new(name.as_str(), "Counts", json!({"type": "object", "properties": {}}));
        builder = builder.tool(CustomTool::new(def, async |_: Value| Ok::<_, ToolError>("1")));
    }
    let agent = builder.build().await.expect("an agent");
    let (events, _) = run(&agent, "Search").await;
    let kept: Vec<bool> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::CallFinished { offloaded, .. } => Some(offloaded.is_some()),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [true, false]);
    let answered = results(&events);
    assert!(answered[0].1.len() < 10_000 && answered[1].1.starts_with("Added tools: counter_0, "));
    assert!(agent.visible_tools().len() > 3000);
}
