//! Sessions whose tools are called by programs.

use super::*;

#[test]
fn programs_alone_call_the_tools_of_code() {
    let mut session = session(DialectName::Code).with_pre_discovered(["get_weather".to_owned()]);
    let visible = ["get_api_spec", "execute_shell_command", "ask_human"];
    assert_eq!(session.visible_names(), visible);
    assert!(session.native().deferred.is_empty() && session.native().tools.len() == 1);

    let saved = json!({"version": 1, "dialect": "code", "loaded": [{"id": "weather/get_weather", "shown_as": "x"}]});
    session.restore(&saved).expect("our own format");
    let mut chat = OpenAiChat::default();
    let mut other = super::session(DialectName::Select);
    other.call("tool_search", &json!({"query": "select:get_weather"}));
    other.follow(&mut chat);
    assert_eq!(session.follow(&mut chat), Vec::<String>::new());
    assert_eq!(session.visible_names(), visible);

    let command = json!({"command": "ls", "timeout_seconds": 3});
    let target = session.call("execute_shell_command", &command).target.expect("something to do");
    assert_eq!((target.id, target.name.as_str(), target.arguments), (None, "execute_shell_command", command));
    for bad in [json!({}), json!({"command": " \n"}), json!({"command": ["ls"]}), json!(null)] {
        let answer = session.call("execute_shell_command", &bad);
        assert!(answer.is_error && answer.target.is_none(), "{bad}");
    }
    assert!(session.call("get_weather", &json!({})).target.is_some());
    let settings = Settings { run_unloaded: false, ..Settings::default() };
    let code = DialectName::Code;
    let mut strict = Session::new(code, settings, catalog(), selection(), ranker(code)).expect("a session");
    let refused = strict.call("get_weather", &json!({}));
    assert!(refused.is_error && refused.reply.to_text().contains("/tools/mcp/weather/get_weather"));
    assert!(strict.call("ask_human", &json!({})).target.is_some());
}

#[test]
fn questions_for_a_spec() {
    let mut session = session(DialectName::Code);
    let mut check = |arguments: Value, is_error: bool, expected: &str| {
        let answer = session.call("get_api_spec", &arguments);
        let text = answer.reply.to_text();
        assert!(answer.is_error == is_error && text.contains(expected), "{arguments}: {text}");
        assert!(answer.target.is_none() && !answer.list_changed);
    };
    let servers = "servers: github (3 tools), slack (2 tools), weather (1 tool), custom (1 tool)";
    check(json!({}), false, servers);
    check(json!({"server_name": ""}), false, servers);
    check(json!({"server_name": "vault"}), true, &format!("no server `vault`; {servers}"));
    check(json!({"server_name": "gihub"}), true, "no server `gihub`; nearest names: github");
    check(json!({"server_name": 5}), true, "`server_name` must be a string");
    check(json!({"server_name": "GitHub"}), false, "/tools/mcp/github/list_issues:");
    check(json!({"server_name": "custom"}), false, "/tools/custom/read_clock:");
    check(json!({"server_name": "github", "tool_name": "CreateIssue"}), false, "/tools/mcp/github/create_issue:");
    check(
        json!({"server_name": "github", "tool_name": "list_isues"}),
        true,
        "no tool `list_isues` on `github`; nearest names: list_issues",
    );
    check(json!({"server_name": "weather", "tool_name": "zzsecret_weather"}), true, "no tool `zzsecret_weather`");
    check(json!({"server_name": "x".repeat(5 << 20)}), true, "no server `xxx");
}

#[test]
fn the_index_of_tools_stays_small() {
    let prompt = session(DialectName::Code).prompt();
    let index = r#"{"github":{"tools":["create_issue","list_issues","search"]},"slack":{"tools":["search","send_message"]},"weather":{"tools":["get_weather"]},"custom":{"tools":["read_clock"]}}"#;
    assert!(prompt.ends_with(index), "{prompt}");
    assert!(crate::estimate_tokens(&prompt) < 700, "{}", crate::estimate_tokens(&prompt));
    let names: Vec<(String, String)> =
        (0..4000).map(|at| (format!("server-{}", at % 40), format!("do_{at}"))).collect();
    let tools: Vec<(&str, &str)> = names.iter().map(|(server, name)| (server.as_str(), name.as_str())).collect();
    let prompt = session_of(DialectName::Code, &tools, Settings::default()).prompt();
    assert!(prompt.contains("\n- server-39 (100)") && !prompt.contains("do_7"), "{prompt}");
    let names: Vec<String> = (0..5000).map(|at| format!("a-server-{at}")).collect();
    let tools: Vec<(&str, &str)> = names.iter().map(|server| (server.as_str(), "do")).collect();
    let prompt = session_of(DialectName::Code, &tools, Settings::default()).prompt();
    assert!(prompt.contains(" more") && crate::estimate_tokens(&prompt) < 5000);
    assert!(
        session_of(DialectName::Code, &[], Settings::default()).prompt().ends_with("no tools to call at the moment.")
    );
}
