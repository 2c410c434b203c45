//! Findings without starting anything.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::{DoctorFolder, SECRET, check};

/// Checks servers without starting them.
#[track_caller]
fn offline(folder: &DoctorFolder, servers: &Value, expected: &[&str]) {
    check(folder, &json!({"mcpServers": servers}), &["--offline"], expected);
}

#[test]
fn files_with_mistakes() {
    let folder = DoctorFolder::new("mistakes");
    offline(&folder, &json!({}), &["warning no-servers -: |→ |pegboard import"]);
    offline(&folder, &json!({"a": {"command": "sh"}}), &[]);
    check(
        &folder,
        &json!({"mcpServers": {"a": {"comand": "sh"}}, "pegboard": {"limit": -1}}),
        &["--offline"],
        &[
            "error configuration -: line |`pegboard.limit` must be|→ `pegboard schema`",
            "error configuration a: line |→ ",
            "error configuration a: line |`mcpServers.a.comand`|→ did you mean `command`?",
        ],
    );
    folder.folder.file("pegboard.json", "{\"mcpServers\": {\"a\": }");
    let found = folder.findings(&["--offline"]);
    let is_it = |found: &String| found.starts_with("error configuration -: line 1: the file is not valid JSON");
    assert!(!found.is_empty() && found.iter().all(is_it), "{found:?}");
}

#[test]
fn files_of_mcproxy() {
    let folder = DoctorFolder::new("mcproxy");
    let file = |http: Value| json!({"mcpServers": {"a": {"command": "sh"}}, "httpServer": http});
    let examine = |http: Value, expected: &[&str]| check(&folder, &file(http), &["--offline"], expected);
    let steps = json!({
        "proxy": [{"type": "tool_search", "enabled": true, "config": {"maxToolsLimit": 50}}],
        "client": {"default": [{"type": "logging"}], "servers": {"a": []}}
    });
    examine(json!({"host": "localhost", "port": 8080, "middleware": steps}), &[]);
    examine(
        json!({"corsEnabled": false, "corsOrigins": ["*"]}),
        &[
            "warning unused-setting -: line |`httpServer.corsEnabled` does not block|→ |`pegboard.tokens`",
            "warning unused-setting -: line |`httpServer.corsOrigins` has `*`|→ |`pegboard.allowedOrigins`",
        ],
    );
    examine(
        json!({"auth": {"token": SECRET}, "middleware": {"proxy": [{"type": "cache"}], "client": {"servers": {"b": []}}}}),
        &[
            "error configuration -: line |`httpServer.auth` is not known|→ callers of the gateway",
            "error configuration -: line |`httpServer.middleware.proxy[0].type` must be",
            "error configuration -: line |`httpServer.middleware.client.servers.b` is not a server of this file",
        ],
    );
    offline(
        &folder,
        &json!({"a": {"command": "sh", "sandboxEnabled": true}, "b": {"url": "http://127.0.0.1:9/mcp", "auth": SECRET}}),
        &[
            "warning unused-setting a: line |`mcpServers.a.sandboxEnabled` is not applied|→ start the sandbox",
            "warning unused-setting b: line |`mcpServers.b.auth` is not applied|→ write `oauth`",
        ],
    );
}

#[test]
fn variables() {
    let folder = DoctorFolder::new("variables").with("EMPTY", "").with("SET", "x");
    let servers = json!({
        "a": {"command": "sh", "env": {"T": "${UNSET_HERE}"}},
        "b": {"command": "sh", "env": {"T": "${EMPTY}"}},
        "c": {"command": "sh", "env": {"T": "${UNSET_HERE:-x} ${SET}"}},
        "d": {"command": "sh", "env": {"T": "${input:key}"}},
        "off": {"command": "none", "env": {"T": "${UNSET_HERE}"}, "disabled": true}
    });
    offline(
        &folder,
        &servers,
        &[
            "error unset-variable a: |`UNSET_HERE`|→ |export UNSET_HERE=…",
            "warning empty-variable b: |`EMPTY` is empty|→ |export EMPTY=…",
            "error unset-variable d: |only VS Code|→ set an environment variable",
        ],
    );
    let servers = json!({
        "tilde": {"command": "true", "args": ["~/notes"]},
        "bare": {"command": "true", "args": ["--key=$API_KEY"], "env": {"A": "%APPDATA%"}},
        "shell": {"command": "sh", "args": ["-c", "cd ~/x && run $HOME"]},
        "manual": {"command": "true", "args": ["--org", "<your org>"], "env": {"SITE": "YOUR_SITE_HERE"}}
    });
    offline(
        &folder,
        &servers,
        &[
            "warning unexpanded-variable tilde: `args[0]` uses shell syntax|→ write `${HOME}/…`",
            "warning unexpanded-variable bare: `args[0]`, `env.A` use shell",
            "warning placeholder-value manual: `args[1]`, `env.SITE` look like",
        ],
    );
}

#[test]
fn holding_without_a_state_folder() {
    let folder = DoctorFolder::new("holding");
    let file = |pegboard: Value| json!({"mcpServers": {"a": {"command": "sh"}}, "pegboard": pegboard});
    let needs = "needs a state folder for approvals, but there is none|→ |`pegboard.stateFolder`";
    let pinning = format!("error state-folder -: `\"pinning\": \"hold\"` {needs}");
    check(&folder, &file(json!({"pinning": "hold"})), &["--offline"], &[&pinning]);
    let new_servers = format!("error state-folder -: `\"newServers\": \"hold\"` {needs}");
    check(&folder, &file(json!({"newServers": "hold"})), &["--offline"], &[&new_servers]);
    check(&folder, &file(json!({"pinning": "warn"})), &["--offline"], &[]);
    folder.folder.file("in-the-way", "");
    folder.configure(&file(json!({"pinning": "hold", "stateFolder": "in-the-way/state"})));
    let found = folder.findings(&["--offline", "--listen", "127.0.0.1:0"]);
    assert!(found.len() == 1 && found[0].starts_with("error state-folder -: "), "{found:?}");
    assert!(found[0].contains("`\"pinning\": \"hold\"` needs it for approvals"), "{found:?}");
}

#[test]
fn learning_that_learns_nothing() {
    let folder = DoctorFolder::new("learning");
    let examine = |more: Value, expected: &[&str]| {
        let mut pegboard = json!({"usageLearning": true});
        more.as_object().into_iter().flatten().for_each(|(key, value)| pegboard[key] = value.clone());
        let config = json!({"mcpServers": {"a": {"command": "sh"}}, "pegboard": pegboard});
        check(&folder, &config, &["--offline"], expected);
    };
    examine(json!({}), &[]);
    examine(json!({"dialect": "explicit", "ranker": "lexical"}), &[]);
    examine(json!({"dialect": "explicit", "usageLearning": false}), &[]);
    examine(
        json!({"ranker": "regex"}),
        &["warning usage-learning -: `usageLearning` is enabled, but `regex` does not learn from usage|→ |\"hybrid\""],
    );
    examine(json!({"ranker": "regex", "exposure": "never"}), &[]);
    // Modern clients get `bridge` in its place.
    examine(
        json!({"dialect": "explicit", "clients": {"some*": "ranked", "other": "passthrough"}}),
        &[
            "warning usage-learning -: |`sequence` does not learn from usage, and `regex` does not learn from clients that \
           speak 2025-11-25 or older",
        ],
    );
}

#[test]
fn programs_and_folders() {
    let folder = DoctorFolder::new("programs");
    folder.folder.file("plain.txt", "").file("here.py", "");
    let servers = json!({
        "none": {"command": "uvx-of-nobody"},
        "line": {"command": "sh -c true"},
        "plain": {"command": "[here]/plain.txt"},
        "moved": {"command": "sh", "cwd": "nowhere"},
        "relative": {"command": "./server.sh", "args": ["good.json"]},
        "placed": {"command": "./server.sh", "cwd": "."},
        "unbuilt": {"command": "sh", "args": ["[here]/build/index.sh"]},
        "itself": {"command": env!("CARGO_BIN_EXE_pegboard"), "args": ["serve", "--stdio", "pegboard.json"]}
    });
    offline(
        &folder,
        &servers,
        &[
            "error missing-command none: there is no program `uvx-of-nobody`|→ install it|`PATH`",
            "error missing-command line: |→ |write `sh` there",
            "error not-executable plain: |plain.txt|→ `chmod +x [here]/plain.txt`",
            "error missing-folder moved: the working directory `[here]/nowhere` does not exist|→ |`cwd`",
            "warning relative-path relative: `./server.sh`|→ |${workspaceFolder}",
            "error missing-file unbuilt: file `[here]/build/index.sh` not found",
            "error serves-itself itself: ",
        ],
    );
}

#[test]
fn secrets() {
    let folder = DoctorFolder::new("secrets");
    folder.file_with("open.env", &format!("API_TOKEN={SECRET}-in-a-file"), 0o644);
    folder.file_with("closed.env", "A=1", 0o600);
    let servers = json!({
        "plain": {"command": "true", "env": {"API_TOKEN": format!("{SECRET}-in-plain-text")}},
        "open": {"command": "true", "envFile": "open.env"},
        "closed": {"command": "true", "envFile": "closed.env"},
        "gone": {"command": "true", "envFile": "gone.env"},
        "sent": {"url": "http://example.com/mcp", "headers": {"Authorization": format!("Bearer {SECRET}-0123456789")}}
    });
    offline(
        &folder,
        &servers,
        &[
            "note plain-secret plain: plain-text secret: `env.API_TOKEN`|→ write `${NAME}`",
            "warning readable-secret open: `[here]/open.env`|→ `chmod 600 [here]/open.env`",
            "error missing-file gone: |`mcpServers.gone.envFile`|→ create the file",
            "warning plain-http sent: credentials are sent to `example.com`|→ use `https://`",
            "note plain-secret sent: plain-text secret: `headers.Authorization`",
        ],
    );
    folder.file_with("pegboard.json", &std::fs::read_to_string(folder.path("pegboard.json")).expect("a file"), 0o644);
    let found = folder.findings(&["--offline", "--server", "plain", "--listen", "0", "--state", "none"]);
    assert!(found[0].starts_with("warning readable-secret -: `pegboard.json`"), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn containers_without_input() {
    let folder = DoctorFolder::new("containers");
    folder.program("docker", "#!/bin/sh\n");
    let servers = json!({
        "right": {"command": "[here]/docker", "args": ["run", "-i", "--rm", "x"]},
        "deaf": {"command": "[here]/docker", "args": ["run", "--rm", "x"]},
        "terminal": {"command": "[here]/docker", "args": ["run", "-it", "x/y"]}
    });
    offline(
        &folder,
        &servers,
        &["error docker-flags deaf: |→ add `-i`", "error docker-flags terminal: |→ remove `-t`"],
    );
}

#[test]
fn the_same_server_twice() {
    let folder = DoctorFolder::new("twice");
    let servers = json!({
        "one": {"command": "true", "args": ["x"]},
        "two": {"command": "true", "args": ["x"]},
        "other": {"command": "true", "args": ["y"]},
        "far": {"url": "https://example.com/mcp"},
        "far too": {"url": "https://EXAMPLE.com/mcp/"},
        "off": {"command": "true", "args": ["y"], "disabled": true}
    });
    offline(
        &folder,
        &servers,
        &["warning duplicate-server two: |`one`|→ remove one", "warning duplicate-server far too: |`far`"],
    );
}

#[test]
fn addresses() {
    let folder = DoctorFolder::new("addresses");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let taken = socket.local_addr().expect("an address").to_string();
    let check_address = |pegboard: Value, args: &[&str], expected: &[&str]| {
        folder.configure(&json!({"mcpServers": {"a": {"command": "true"}}, "pegboard": pegboard}));
        let found = folder.findings(&[&["--offline", "--state", "none"], args].concat());
        assert_eq!(found.len(), expected.len(), "{found:?}");
        let pairs = found.iter().zip(expected);
        pairs.for_each(|(found, expected)| assert!(found.starts_with(expected), "{found}"));
    };
    check_address(json!({"listen": "127.0.0.1:0"}), &[], &[]);
    check_address(json!({"listen": taken}), &[], &[&format!("error port-taken -: `{taken}` is already in use by `")]);
    check_address(json!({"listen": taken}), &["--listen", "0"], &[]);
    check_address(json!({"listen": "0.0.0.0:0"}), &[], &["error public-address -: `0.0.0.0:0` can be reached"]);
    check_address(json!({"listen": "0.0.0.0:0", "allowPublic": true}), &[], &["warning public-address -: "]);
    let tokens = json!([{"name": "me", "token": format!("{SECRET}-0123456789abcdef")}]);
    check_address(json!({"listen": "0.0.0.0:0", "tokens": tokens}), &[], &[]);
    check_address(json!({}), &["--listen", "nonsense"], &["error listen-address -: `nonsense` is not an address"]);
    check_address(
        json!({}),
        &["--listen", "192.0.2.1:80"],
        &["error public-address", "error listen-address -: cannot listen"],
    );
}

#[test]
fn the_folder_for_state() {
    let folder = DoctorFolder::new("state");
    folder.configure(&json!({"mcpServers": {"a": {"command": "true"}}}));
    let check = |state: &str, expected: &[&str]| {
        let found = folder.findings(&["--offline", "--listen", "0", "--state", state]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        found.iter().zip(expected).for_each(|(found, expected)| assert!(found.contains(expected), "{found}"));
    };
    let made = |name: &str, mode: u32| {
        std::fs::create_dir(folder.path(name)).expect("a folder");
        let rights = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(folder.path(name), rights).expect("rights");
    };
    made("own", 0o700);
    made("shared", 0o777);
    check("none", &[]);
    check("own", &[]);
    check("own/new/folder", &[]);
    check("good.json", &["warning state-folder -: the state folder `good.json`"]);
    check("good.json/x", &["is not a folder, or its parent is a file"]);
    check("shared", &["is writable by other users and is not used → `chmod go-w shared`"]);
    // Where nothing is said it is below the home folder.
    assert!(folder.findings(&["--offline", "--listen", "0"]).is_empty());
}

#[test]
fn wrong_use() {
    let folder = DoctorFolder::new("wrong_use");
    insta::assert_snapshot!("no_configuration", folder.show(&[]));
    folder.configure(&json!({"mcpServers": {"a": {"command": "true"}}}));
    insta::assert_snapshot!("no_such_server", folder.show(&["--server", "b"]));
}
