//! `pegboard import`.

use serde_json::Value;

use super::Home;
#[cfg(unix)]
use super::mode;
use crate::harness::json;

/// Returns a home folder with every client in it, each with its special features.
fn home_with_all_clients(test: &str) -> Home {
    let home = Home::new(test).with("SET", "x");
    home.file(
        ".config/Claude/claude_desktop_config.json",
        r#"{"globalShortcut": "", "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "@scope/files", "${HOME}"]},
            "github": {"command": "github-mcp", "args": ["stdio"], "env": {"GITHUB_TOKEN": "ghp_s3cret00000"}}
        }}"#,
    )
    .file(
        ".claude.json",
        r#"{"numStartups": 3, "mcpServers": {
            "github": {"type": "stdio", "command": "github-mcp", "args": ["stdio"],
                       "env": {"GITHUB_TOKEN": "ghp_s3cret00000"}},
            "wiki": {"type": "http", "url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer s3cret1"}},
            "feed": {"type": "sse", "url": "https://feed.example/sse"},
            "pegboard": {"type": "stdio", "command": "/opt/pegboard", "args": ["serve", "--stdio", "x.json"]}
        }, "projects": {"/src/shop": {"mcpServers": {"shop": {"command": "./shop", "env": {"LEVEL": "${LEVEL:-info}"}}}},
                        "[project]": {"disabledMcpjsonServers": ["risky"]}}}"#
            .replace("[project]", &home.path("app").to_string_lossy())
            .as_str(),
    )
    .file(
        "app/.mcp.json",
        r#"{"mcpServers": {"risky": {"command": "risky"}, "docs": {"command": "node", "args": ["server.js", "${DOCS}"]}}}"#,
    )
    .file("app/server.js", "")
    .file(
        ".cursor/mcp.json",
        r#"{"mcpServers": {
            "github": {"command": "github-mcp", "args": ["stdio"], "env": {"GITHUB_TOKEN": "${env:OTHER_TOKEN}"}},
            "wiki": {"url": "https://WIKI.example/mcp/"}
        }}"#,
    )
    .file(
        "app/.vscode/mcp.json",
        r#"{
            // asked for at the first start
            "inputs": [{"type": "promptString", "id": "db-password", "password": true}],
            "servers": {
                "db": {"type": "stdio", "command": "db-mcp", "args": ["${workspaceFolder}/db", "${env:SET}"],
                       "env": {"PASSWORD": "${input:db-password}"}, "envFile": "${workspaceFolder}/.env",},
            }
        }"#,
    )
    .file(
        ".codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"mail": {"serverUrl": "https://mail.example/mcp?key=s3cret2", "disabled": true,
            "disabledTools": ["delete.all"]}}}"#,
    )
    .file(
        ".codex/config.toml",
        "model = \"x\"\n\n[mcp_servers.search]\nurl = \"https://search.example/mcp\"\nbearer_token_env_var = \"SEARCH\"\n\
         tool_timeout_sec = 90\n\n[mcp_servers.local]\ncommand = \"local\"\nargs = [\"--api-key\", \"s3cret3\"]\n",
    )
    .file(
        ".gemini/settings.json",
        r#"{"mcpServers": {"maps": {"httpUrl": "https://maps.example/mcp", "headers": {"X-Key": "$MAPS_KEY"},
            "timeout": 30000, "trust": true, "includeTools": ["route"]}}}"#,
    )
    .file(
        ".config/zed/settings.json",
        r#"{
            "theme": "One", // dark
            "context_servers": {
                "old": {"source": "custom", "command": {"path": "old-mcp", "args": [], "env": {}}},
                "extension": {"source": "extension", "settings": {"token": "s3cret4"}},
            },
        }"#,
    );
    home
}

#[test]
fn everything_is_found_and_shown() {
    let home = home_with_all_clients("shown");
    insta::assert_snapshot!(home.show(&["import", "--format", "text", "--project", "."]));
}

#[test]
fn programs_get_json() {
    let home = home_with_all_clients("json");
    let output = home.run(&["import", "--dry-run", "--project", "."]);
    insta::assert_snapshot!(home.replace_paths(&String::from_utf8_lossy(&output.stdout)));
}

#[test]
fn the_written_configuration_is_one_that_serve_reads() {
    let home = home_with_all_clients("written").with("OTHER_TOKEN", "1").with("DOCS", "2").with("DB_PASSWORD", "3");
    let home = home.with("SEARCH", "4").with("MAPS_KEY", "5");
    home.file("app/.env", "A=b\n");
    let output = home.run(&["import", "--output", "out.json", "--format", "text", "--project", "."]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(home.replace_paths(&String::from_utf8_lossy(&output.stderr)));
    insta::assert_snapshot!(home.replace_paths(&home.read("app/out.json")));
    #[cfg(unix)]
    assert_eq!(mode(&home.path("app/out.json")), 0o600);
    // It is read to its end before the address is checked, and then nothing is started.
    let refused = home.show(&["serve", "out.json", "--listen", "nowhere"]);
    assert!(refused.contains("error: `nowhere` is not an address to listen on"), "{refused}");
}

#[test]
fn secrets_become_variables() {
    let home = home_with_all_clients("secrets");
    let output = home.run(&["import", "--write", "--secrets-to-env", "--format", "text", "--project", "."]);
    insta::assert_snapshot!(home.replace_paths(&String::from_utf8_lossy(&output.stderr)));
    let written = home.read(".config/pegboard/pegboard.json");
    assert!(!written.contains("s3cret"), "{written}");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written["mcpServers"]["github"]["env"]["GITHUB_TOKEN"], "${GITHUB_TOKEN}");
    assert_eq!(written["mcpServers"]["wiki"]["headers"]["Authorization"], "Bearer ${WIKI_TOKEN}");
    assert_eq!(written["mcpServers"]["local"]["args"][1], "${LOCAL_API_KEY}");
}

#[test]
fn servers_are_added_to_a_file_that_is_there() {
    let home = home_with_all_clients("added");
    home.file(
        "app/out.json",
        "{\n  // mine\n  \"mcpServers\": {\"github\": {\"command\": \"own\"}, \"wiki-2\": {\"url\": \"https://wiki.example/mcp\"}}\n}\n",
    );
    let output = home.run(&["import", "--output", "out.json", "--format", "text", "--project", "."]);
    insta::assert_snapshot!(home.replace_paths(&String::from_utf8_lossy(&output.stderr)));
    let written = home.read("app/out.json");
    assert!(written.contains("// mine") && written.contains("\"command\": \"own\""), "{written}");
    assert!(written.contains("\"github-claude-desktop\""), "{written}");
    // A second time there is nothing to add.
    let again = home.run(&["import", "--output", "out.json", "--format", "text", "--project", "."]);
    assert_eq!(again.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing to add"));
    assert_eq!(home.read("app/out.json"), written);
}

#[test]
fn a_file_is_replaced_with_force() {
    let home = home_with_all_clients("force");
    home.file("app/out.json", "{\"mine\": 1}");
    assert_eq!(home.run(&["import", "--output", "out.json", "--force", "--project", "."]).status.code(), Some(0));
    assert_eq!(home.read("app/out.json.pegboard-backup"), "{\"mine\": 1}");
    assert!(home.read("app/out.json").contains("\"github\""));
    // Again: the present text gets a backup as well, under another name.
    assert_eq!(home.run(&["import", "--output", "out.json", "--force", "--project", "."]).status.code(), Some(0));
    let kept: Vec<String> = home.names("app").into_iter().filter(|name| name.contains("backup")).collect();
    assert_eq!(kept, ["out.json.pegboard-backup", "out.json.pegboard-backup-2"]);
    #[cfg(unix)]
    assert_eq!(mode(&home.path("app/out.json.pegboard-backup-2")), 0o600);
}

#[test]
fn broken_files_are_warnings() {
    let home = Home::new("broken");
    home.file(".cursor/mcp.json", "{\n \"mcpServers\": {\"a\": {\"env\": {\"K\": \"s3cret")
        .file(".codex/config.toml", "[mcp_servers.a]\ntoken = \"s3cret\nx")
        .file(".gemini/settings.json", "{\"mcpServers\": {\"b\": {\"command\": \"x\"}}}")
        .file(".claude.json", "{\"mcpServers\": {\"\\u001b[31mred\": {\"command\": \"y\"}, \"odd\": {}}}");
    std::fs::create_dir_all(home.path(".codeium/windsurf/mcp_config.json")).expect("a folder");
    insta::assert_snapshot!(home.show(&["import", "--format", "text", "--project", "."]));
}

#[test]
fn nothing_found_is_exit_one() {
    let home = Home::new("nothing");
    insta::assert_snapshot!(home.show(&["import", "--format", "text", "--project", "."]));
    home.file(".cursor/mcp.json", "{}");
    assert_eq!(home.run(&["import", "--write"]).status.code(), Some(1));
    assert!(!home.path(".config").exists());
    assert_eq!(json(&home.run(&["import", "--from", "zed"]))["files"], Value::Array(Vec::new()));
}

#[test]
fn single_clients_and_other_projects() {
    let home = home_with_all_clients("from");
    home.file("other/.cursor/mcp.json", r#"{"mcpServers": {"there": {"command": "t", "cwd": "sub"}}}"#);
    let found = json(&home.run(&["import", "--from", "cursor,zed", "--project", "../other"]));
    let servers: Vec<&str> =
        found["servers"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(servers, ["github", "wiki", "there", "old", "extension"]);
    let there = found["configuration"]["mcpServers"]["there"]["cwd"].as_str().expect("a folder").to_owned();
    assert!(there.ends_with("other/sub"), "{there}");
}

#[test]
fn servers_of_a_project_are_not_imported_silently() {
    let home = Home::new("clone");
    home.file(".cursor/mcp.json", r#"{"mcpServers": {"mine": {"command": "mine"}}}"#)
        .file("app/.mcp.json", r#"{"mcpServers": {"theirs": {"command": "evil", "args": ["--token", "s3cret"]}}}"#)
        .file("app/.vscode/mcp.json", r#"{"servers": {"others": {"url": "https://other.example"}}}"#)
        .file("app/src/x", "");
    let check = |args: &[&str], expected: &[&str]| {
        let output = home.run(&[&["import", "--output", "out.json", "--force"], args].concat());
        let written: Value = serde_json::from_str(&home.read("app/out.json")).expect("JSON");
        let names: Vec<&String> = written["mcpServers"].as_object().expect("servers").keys().collect();
        assert_eq!(names, expected, "{args:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(told.contains("left out"), expected.len() == 1, "{told}");
    };
    check(&[], &["mine"]);
    check(&["--from", "cursor,vscode"], &["mine"]);
    check(&["--project", "."], &["theirs", "mine", "others"]);
    insta::assert_snapshot!(home.show(&["import", "--format", "text"]));
    std::fs::remove_file(home.path(".cursor/mcp.json")).expect("a file");
    insta::assert_snapshot!(home.show(&["import", "--write", "--format", "text"]));
    assert!(!home.path(".config").exists(), "nothing was written");
}
