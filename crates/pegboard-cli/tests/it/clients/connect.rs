//! `pegboard connect`.

#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};

use super::Home;
#[cfg(unix)]
use super::mode;
use crate::harness::json;

const CLIENTS: [&str; 8] = ["claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "codex", "gemini", "zed"];

/// Returns a home folder with a user configuration.
fn home(test: &str) -> Home {
    let home = Home::new(test);
    home.file(
        ".config/pegboard/pegboard.json",
        r#"{"mcpServers": {"files": {"command": "files-mcp", "args": ["/srv"]},
            "github": {"command": "gh", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}},
            "off": {"command": "off", "disabled": true}}}"#,
    );
    home
}

#[test]
fn every_client_in_its_own_form() {
    let home = home("snippets");
    let mut text = String::new();
    for client in CLIENTS {
        text.push_str(&format!("$ pegboard connect {client}\n{}\n", home.show(&["connect", client])));
        let http = ["connect", client, "--http", "http://127.0.0.1:9000"];
        text.push_str(&format!("$ pegboard {}\n{}\n", http.join(" "), home.show(&http)));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_client_is_written_once() {
    let home = home("written");
    for client in CLIENTS {
        assert_eq!(home.run(&["connect", client, "--write", "--force"]).status.code(), Some(0), "{client}");
    }
    let first: Vec<String> = files().iter().map(|file| home.replace_paths(&home.read(file))).collect();
    insta::assert_snapshot!(first.join("\n"));
    for client in CLIENTS {
        let told = home.show(&["connect", client, "--write"]);
        assert!(told.contains("nothing to change in"), "{told}");
    }
    let second: Vec<String> = files().iter().map(|file| home.replace_paths(&home.read(file))).collect();
    assert_eq!(first, second);
    assert_eq!(home.names(".cursor"), ["mcp.json"], "nothing was there, nothing is kept");
    let listed = json(&home.run(&["connect", "--list"]));
    for row in listed.as_array().expect("a list") {
        assert_eq!(row["connected"]["transport"], "stdio", "{row}");
    }
    // Pegboard's own entry is not found as a server.
    assert_eq!(home.run(&["import"]).status.code(), Some(1));
}

fn files() -> [&'static str; 8] {
    [
        ".config/Claude/claude_desktop_config.json",
        ".claude.json",
        ".cursor/mcp.json",
        ".config/Code/User/mcp.json",
        ".codeium/windsurf/mcp_config.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".config/zed/settings.json",
    ]
}

#[test]
fn comments_and_layout_stay() {
    let home = home("comments");
    let zed = "// mine\n{\n\t\"theme\": \"One\", // dark\n\t\"context_servers\": {\n\t\t/* none */\n\t},\n}\n";
    home.file(".config/zed/settings.json", zed);
    let codex = "# mine\nmodel = 'x' # this one\n\n[mcp_servers.a] # a\ncommand = \"a\"\n";
    home.file(".codex/config.toml", codex);
    home.run(&["connect", "zed", "--write"]);
    home.run(&["connect", "codex", "--write"]);
    insta::assert_snapshot!(home.replace_paths(&format!(
        "{}---\n{}",
        home.read(".config/zed/settings.json"),
        home.read(".codex/config.toml")
    )));
    assert_eq!(home.read(".config/zed/settings.json.pegboard-backup"), zed);
    assert_eq!(home.read(".codex/config.toml.pegboard-backup"), codex);
}

#[test]
fn from_one_way_to_the_other_and_back() {
    let home = home("doors");
    home.file(
        ".cursor/mcp.json",
        "{\"mcpServers\": {\"pegboard\": {\"command\": \"old\", \"autoApprove\": [\"x\"]}}}\n",
    );
    home.run(&["connect", "cursor", "--write", "--http", "http://127.0.0.1:8080/mcp"]);
    let http = home.read(".cursor/mcp.json");
    assert!(http.contains("autoApprove") && http.contains("8080") && !http.contains("command"), "{http}");
    home.run(&["connect", "cursor", "--write"]);
    assert!(!home.read(".cursor/mcp.json").contains("8080"));
    home.run(&["connect", "cursor", "--write", "--http", "http://127.0.0.1:8080/mcp"]);
    assert_eq!(home.read(".cursor/mcp.json"), http);
    // Three texts were replaced, and each has a backup.
    let kept = ["mcp.json", "mcp.json.pegboard-backup", "mcp.json.pegboard-backup-2", "mcp.json.pegboard-backup-3"];
    assert_eq!(home.names(".cursor"), kept);
    // The second text comes back and is replaced again: it has a backup already.
    home.run(&["connect", "cursor", "--write"]);
    assert_eq!(home.names(".cursor"), kept);
}

#[test]
fn servers_behind_pegboard_leave() {
    let home = home("replace");
    let cursor = r#"{
  "mcpServers": {
    // local files
    "files": {"command": "files-mcp", "args": ["/srv"]},
    "github": {"command": "gh", "env": {"GITHUB_TOKEN": "s3cret"}},
    "github-work": {"command": "gh", "env": {"GITHUB_TOKEN": "s3cret too"}},
    "off": {"command": "off"},
    "own": {"command": "own"} // stays
  }
}
"#;
    home.file(".cursor/mcp.json", cursor);
    insta::assert_snapshot!(home.show(&["connect", "cursor", "--replace"]));
    assert_eq!(home.read(".cursor/mcp.json"), cursor);
    insta::assert_snapshot!(home.show(&["connect", "cursor", "--replace", "--write"]));
    insta::assert_snapshot!(home.replace_paths(&home.read(".cursor/mcp.json")).replace("s3cret", "[secret]"));
    home.file(".codex/config.toml", "# a\n[mcp_servers.files]\ncommand = \"files-mcp\"\nargs = [\"/srv\"]\n\n[x]\n");
    home.run(&["connect", "codex", "--replace", "--write"]);
    insta::assert_snapshot!(home.replace_paths(&home.read(".codex/config.toml")));
}

#[test]
fn an_import_with_secrets_moved_lets_its_servers_leave() {
    let home = Home::new("round");
    home.file(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"command": "a", "args": ["--token", "s3cret1"]},
            "b": {"url": "https://b.example/mcp", "headers": {"Authorization": "Bearer s3cret2"}}}}"#,
    );
    assert_eq!(home.run(&["import", "--write", "--secrets-to-env"]).status.code(), Some(0));
    home.run(&["connect", "cursor", "--write", "--replace"]);
    let left: serde_json::Value = serde_json::from_str(&home.read(".cursor/mcp.json")).expect("JSON");
    let names: Vec<&String> = left["mcpServers"].as_object().expect("an object").keys().collect();
    assert_eq!(names, ["pegboard"]);
}

#[test]
fn projects_have_files_of_their_own() {
    let home = home("projects");
    for (client, file) in [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("zed", ".zed/settings.json"),
    ] {
        assert_eq!(home.run(&["connect", client, "--write", "--project", "."]).status.code(), Some(0), "{client}");
        assert!(home.read(&format!("app/{file}")).contains("--stdio"), "{client}");
    }
    insta::assert_snapshot!(home.show(&["connect", "windsurf", "--write", "--project", "."]));
    insta::assert_snapshot!(home.show(&["connect", "--list", "--project", ".", "--format", "text"]));
}

#[test]
fn what_cannot_be_done_is_told() {
    let home = Home::new("refused");
    home.file(".cursor/mcp.json", "{\n\"mcpServers\": {\"a\": \"s3cret\n")
        .file(".gemini/settings.json", "{\"mcpServers\": 3}");
    home.file("good.json", "{}").file("bad.json", "{\"mcpServers\": {\"a\": {}}}");
    let show = |args: &[&str]| format!("$ pegboard {}\n{}", args.join(" "), home.show(args));
    insta::assert_snapshot!(
        [
            show(&["connect", "zed"]),
            show(&["connect", "zed", "--config", "../bad.json"]),
            show(&["connect", "zed", "--config", "nowhere.json"]),
            show(&["connect", "cursor", "--config", "../good.json", "--write"]),
            show(&["connect", "gemini", "--config", "../good.json", "--write"]),
            show(&["connect", "zed", "--http", "localhost:8080"]),
            show(&["connect", "emacs"]),
            show(&["connect"]),
            show(&["connect", "--list", "--format", "text"]),
        ]
        .join("\n")
    );
    assert_eq!(home.names(".cursor"), ["mcp.json"]);
}

#[cfg(unix)]
#[test]
fn links_and_rights_stay() {
    let home = home("links");
    home.file("dotfiles/cursor.json", "{}\n");
    std::fs::create_dir_all(home.path(".cursor")).expect("a folder");
    symlink("../dotfiles/cursor.json", home.path(".cursor/mcp.json")).expect("a link");
    std::fs::set_permissions(home.path("dotfiles/cursor.json"), std::fs::Permissions::from_mode(0o640))
        .expect("rights");
    assert_eq!(home.run(&["connect", "cursor", "--write"]).status.code(), Some(0));
    assert!(home.path(".cursor/mcp.json").is_symlink());
    assert!(home.read("dotfiles/cursor.json").contains("pegboard"));
    assert_eq!(mode(&home.path("dotfiles/cursor.json")), 0o640);
    assert_eq!(home.names(".cursor"), ["mcp.json", "mcp.json.pegboard-backup"]);
    // A link to what is not there yet.
    std::fs::create_dir_all(home.path(".gemini")).expect("a folder");
    symlink("../dotfiles/new/gemini.json", home.path(".gemini/settings.json")).expect("a link");
    assert_eq!(home.run(&["connect", "gemini", "--write"]).status.code(), Some(0));
    assert!(home.read("dotfiles/new/gemini.json").contains("pegboard"));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_leaves_all_as_it_was() {
    let home = home("read_only");
    home.file(".cursor/mcp.json", "{}\n");
    let set =
        |mode| std::fs::set_permissions(home.path(".cursor"), std::fs::Permissions::from_mode(mode)).expect("rights");
    set(0o555);
    // Root is not stopped by permissions.
    let is_stopped = std::fs::write(home.path(".cursor/probe"), "").is_err();
    let told = home.show(&["connect", "cursor", "--write"]);
    set(0o755);
    if is_stopped {
        assert!(told.contains("exit 2") && told.contains("error: cannot write a backup of"), "{told}");
        assert_eq!(home.read(".cursor/mcp.json"), "{}\n");
        assert_eq!(home.names(".cursor"), ["mcp.json"]);
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_told() {
    let home = home("no_folder");
    home.file(".codex", "");
    insta::assert_snapshot!(home.show(&["connect", "codex", "--write", "--force"]));
}

#[test]
fn a_client_that_is_not_installed_is_left_alone() {
    let home = home("not_installed");
    for client in CLIENTS {
        let told = home.show(&["connect", client, "--write", "--hook"][..if client == "claude-code" { 4 } else { 3 }]);
        assert!(told.starts_with("exit 2") && told.contains("is not installed") && told.contains("--force"), "{told}");
    }
    for file in files() {
        assert!(!home.path(file).exists(), "{file}");
    }
    assert_eq!(home.names("."), [".config", "app"], "nothing was written");
    std::fs::create_dir(home.path(".claude")).expect("a folder");
    assert_eq!(home.run(&["connect", "claude-code", "--write"]).status.code(), Some(0), "the folder is a sign");
}

#[test]
fn a_file_that_connect_created_goes_with_its_entry() {
    let home = home("created");
    for client in CLIENTS {
        home.run(&["connect", client, "--write", "--force"]);
        let told = home.show(&["disconnect", client]);
        assert!(told.starts_with("exit 0") && told.contains("which `pegboard connect` created"), "{told}");
    }
    home.run(&["connect", "claude-code", "--write", "--force", "--hook"]);
    home.run(&["disconnect", "claude-code"]);
    for row in json(&home.run(&["connect", "--list"])).as_array().expect("a list") {
        assert_eq!(row["found"], false, "{row}");
    }
}

#[test]
fn a_disconnect_says_which_backup_has_the_servers() {
    let home = home("removed");
    let check = |before: &str, connect: &[&str], expected: Option<&str>| {
        home.file(".cursor/mcp.json", before);
        for args in [connect, &["connect", "cursor", "--write"]] {
            assert_eq!(home.run(args).status.code(), Some(0), "{args:?}");
        }
        let told = home.show(&["disconnect", "cursor"]);
        let line = told.lines().find(|line| line.contains("had before"));
        assert_eq!(line.is_some(), expected.is_some(), "{told}");
        if let (Some(line), Some(expected)) = (line, expected) {
            let (names, backup) = line.rsplit_once("; they are in ").expect("a backup");
            assert!(names.ends_with(&format!("does not have now: {expected}")), "{line}");
            let backup = backup.trim_matches('`').rsplit_once('/').expect("a path").1;
            assert_eq!(home.read(&format!(".cursor/{backup}")), before, "{line}");
        }
        std::fs::remove_dir_all(home.path(".cursor")).expect("a folder");
    };
    let (replace, keep) = (["connect", "cursor", "--replace", "--write"], ["connect", "cursor", "--write"]);
    let files = r#""files": {"command": "files-mcp", "args": ["/srv"]}"#;
    let own = r#""own": {"command": "own"}"#;
    check(&format!(r#"{{"mcpServers": {{{files}}}}}"#), &replace, Some("`files`"));
    check(&format!(r#"{{"mcpServers": {{{files}, {own}}}}}"#), &replace, Some("`files`"));
    check(&format!(r#"{{"mcpServers": {{{files}, {own}}}}}"#), &keep, None);
    check(&format!(r#"{{"mcpServers": {{{own}}}}}"#), &replace, None);
}

#[test]
fn what_the_user_wrote_stays_after_a_disconnect() {
    let home = home("disconnected");
    let check = |before: Option<&str>, change: fn(String) -> String, expected: &str| {
        std::fs::create_dir_all(home.path(".cursor")).expect("a folder");
        if let Some(before) = before {
            home.file(".cursor/mcp.json", before);
        }
        home.run(&["connect", "cursor", "--write"]);
        let connected = change(home.read(".cursor/mcp.json"));
        home.file(".cursor/mcp.json", &connected);
        assert_eq!(home.run(&["disconnect", "cursor"]).status.code(), Some(0));
        assert_eq!(home.read(".cursor/mcp.json"), expected);
        let kept = home.names(".cursor").into_iter().filter(|name| name.contains("backup"));
        assert!(kept.map(|name| home.read(&format!(".cursor/{name}"))).any(|text| text == connected), "{connected}");
        std::fs::remove_dir_all(home.path(".cursor")).expect("a folder");
    };
    let same = |text: String| text;
    check(Some("{}\n"), same, "{\n  \"mcpServers\": {\n  }\n}\n");
    check(Some("// mine\n"), same, "// mine\n{\n  \"mcpServers\": {\n  }\n}\n");
    check(None, |text| format!("// mine\n{text}"), "// mine\n{\n  \"mcpServers\": {\n  }\n}\n");
    check(
        None,
        |text| text.replace("\"args\"", "\"autoApprove\": [],\n      \"args\""),
        "{\n  \"mcpServers\": {\n  }\n}\n",
    );
    check(None, |text| text.replace("${env:GITHUB_TOKEN}", "mine"), "{\n  \"mcpServers\": {\n  }\n}\n");
}
