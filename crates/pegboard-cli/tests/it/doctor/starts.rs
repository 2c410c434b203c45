//! Test starts of servers.

use serde_json::{Value, json};

use super::{ALONE, DoctorFolder, GOOD_TOOL, SECRET, check};
use crate::gateway::{fixture, fixture_path, wait_until_gone};

#[test]
fn bad_starts() {
    let folder = DoctorFolder::new("starts").with("TOKEN_OF_MINE", &format!("{SECRET}-from-outside"));
    folder.program(
        "dies.sh",
        "#!/bin/sh\nprintf '\\033[31mstarting with %s\\033[0m\\n' \"$API_TOKEN\" >&2\n\
         echo 'Error: Cannot find module /x' >&2\nexit 7\n",
    );
    folder
        .program("noisy.sh", "#!/bin/sh\nprintf 'Listening \\033[1m%s\\n' \"$1\"\nexec \"${0%/*}/server.sh\" \"$2\"\n");
    folder.program("prints.sh", "#!/bin/sh\necho 'Usage: prints DIR'\nexit 1\n");
    let mut hangs = fixture(&["--fault", "hang"]);
    hangs["connectTimeout"] = 1.into();
    let servers = json!({
        "good": folder.serving("good.json"),
        "dies": {"command": "[here]/dies.sh", "env": {"API_TOKEN": "${TOKEN_OF_MINE}"}},
        "noisy": {"command": "[here]/noisy.sh", "args": ["${TOKEN_OF_MINE}", "[here]/good.json"]},
        "prints": {"command": "[here]/prints.sh"},
        "exits": fixture(&["--fault", "exit"]),
        "hangs": hangs,
        "broken": {"command": "[here]/unparsable"},
        "off": {"command": "nothing", "disabled": true}
    });
    folder.program("unparsable", "#!/no/such/interpreter\n");
    check(
        &folder,
        &json!({"mcpServers": servers}),
        &[],
        &[
            "error start-failed dies: start failed: the server exited with exit status: 7|starting \
             with [hidden]|Cannot find module|→ build the server",
            "warning stdout-noise noisy: |(1 line)|[\"Listening |[hidden]\"]|→ make it log to standard error",
            "warning duplicate-tools noisy: |the same 1 tool as `good`",
            "error start-failed prints: |exit status: 1|→ correct `args`",
            "warning stdout-noise prints: |Usage: prints DIR",
            "error start-failed exits: |exit status: 3",
            "error start-timeout hangs: the server was not ready within 1 s",
            "error start-failed broken: ",
        ],
    );
    let report = crate::harness::json(&folder.run(&[ALONE, &["--format", "json"]].concat()));
    let states: Vec<&str> =
        report["servers"].as_array().expect("a list").iter().filter_map(|server| server["state"].as_str()).collect();
    assert_eq!(states, ["ready", "failed", "ready", "failed", "failed", "failed", "failed", "disabled"]);
}

#[test]
fn variables_that_are_not_passed() {
    let folder =
        DoctorFolder::new("withheld").with("GITHUB_TOKEN", SECRET).with("NOTION_KEY", SECRET).with("PB_ADMIN", SECRET);
    folder.program("asks.sh", "#!/bin/sh\necho \"Error: $1 is required\" >&2\nexit 1\n");
    let asks = |variable: &str| json!({"command": "[here]/asks.sh", "args": [variable]});
    let mut passed = asks("NOTION_KEY");
    passed["args"] = json!(["NOTION_KEY", "again"]);
    passed["pegboard"] = json!({"inheritEnv": ["NOTION_*"]});
    let servers = json!({
        "named": asks("NOTION_KEY"),
        "github": asks("A-TOKEN"),
        "passed": passed,
        "unset": asks("OTHER_KEY"),
        // The variable supplies a token, and cannot be passed.
        "front": asks("PB_ADMIN"),
    });
    let tokens = json!([{"name": "ada", "token": "${PB_ADMIN}-with-more-characters"}]);
    check(
        &folder,
        &json!({"mcpServers": servers, "pegboard": {"tokens": tokens}}),
        &[],
        &[
            "error start-failed named: |NOTION_KEY is required",
            "warning withheld-variable named: `NOTION_KEY` is set here but not passed to the server → add `\"pegboard\": \
             {\"inheritEnv\": [\"NOTION_KEY\"]}` to its entry, or set `NOTION_KEY` under `env`",
            "error start-failed github: ",
            "warning withheld-variable github: `GITHUB_TOKEN` is set here",
            "error start-failed passed: ",
            "error start-failed unset: ",
            "error start-failed front: ",
        ],
    );
}

#[test]
fn tools() {
    let folder = DoctorFolder::new("tools");
    let long = "x".repeat(5000);
    let files: [(&str, Value); 6] = [
        ("none", json!([])),
        ("silent", json!([{"name": "a", "inputSchema": {"type": "object"}}])),
        ("endless", json!([{"name": "a", "description": long, "inputSchema": {"type": "object"}}])),
        ("untyped", json!([{"name": "b", "description": "d", "inputSchema": {}}])),
        ("dotted", json!([{"name": "a.b", "description": "d", "inputSchema": {"type": "object"}}])),
        (
            "odd",
            json!([
                {"name": "list", "description": "d", "inputSchema":
                    {"type": "object", "properties": {"tags": {"type": "array"}}}},
                {"name": "either", "description": "d", "inputSchema": {"type": "object", "anyOf": [{}]}}
            ]),
        ),
    ];
    let entry = |(name, tools): &(&str, Value)| {
        folder.folder.file(&format!("{name}.json"), tools.to_string());
        ((*name).to_owned(), folder.serving(&format!("{name}.json")))
    };
    let servers: Value = files.iter().map(entry).collect::<serde_json::Map<_, _>>().into();
    let odd = "|list: `properties.tags` is an array without `items` (OpenAI, Gemini)|either: its schema has `anyOf` at \
               its top level (Anthropic, OpenAI)|→ ";
    let rest = [
        "warning no-tools none: ",
        "warning missing-description silent: 1 tool has no description: `a`|→ |`description_enricher`",
        "warning long-description endless: |5000 bytes: `a`",
        "note broken-list untyped: 1 entry of its lists is invalid|has no `type`",
        "note refused-name dotted: 1 tool has a name|a.b is shown as dotted___a_b",
    ];
    let warned = format!("warning refused-schema odd: 2 tools have schemas{odd}Pegboard passes schemas on unchanged");
    check(&folder, &json!({"mcpServers": servers}), &[], &[&rest[..], &[&warned]].concat());
    let noted = format!("note refused-schema odd: 2 tools have schemas{odd}no action needed");
    let bridge = json!({"mcpServers": servers, "pegboard": {"dialect": "bridge"}});
    check(&folder, &bridge, &[], &[&rest[..], &[&noted]].concat());
}

#[test]
fn names_and_numbers_of_tools() {
    let folder = DoctorFolder::new("names");
    let other = GOOD_TOOL.replace("greet", "other");
    folder.folder.file("two.json", format!("[{GOOD_TOOL}, {other}]"));
    let many: Vec<String> = (0..129).map(|at| GOOD_TOOL.replace("greet", &format!("t{at}"))).collect();
    folder.folder.file("many.json", format!("[{}]", many.join(",")));
    let servers = json!({"one": folder.serving("good.json"), "two": folder.serving("two.json")});
    check(&folder, &json!({"mcpServers": servers}), &[], &[]);
    check(
        &folder,
        &json!({"mcpServers": servers, "pegboard": {"prefix": "never"}}),
        &[],
        &["warning name-clash -: 1 tool name of several servers: `greet`|greet: one, two|→ `\"prefix\": \"auto\"`"],
    );
    check(
        &folder,
        &json!({"mcpServers": {"many": folder.serving("many.json")}, "pegboard": {"dialect": "passthrough"}}),
        &[],
        &["warning too-many-tools -: 129 tools are shown at once, but openai accepts 128"],
    );
}

#[test]
fn the_page() {
    let folder = DoctorFolder::new("page");
    folder.program("noisy.sh", "#!/bin/sh\necho 'Server is running!'\nexec ./server.sh good.json\n");
    folder.program("dies.sh", "#!/bin/sh\necho 'loading' >&2\necho 'GITHUB_TOKEN is required' >&2\nexit 1\n");
    let servers = json!({
        "files": folder.serving("good.json"),
        "search": {"command": "npx-of-nobody", "args": ["-y", "search"]},
        "noisy": {"command": "./noisy.sh", "cwd": "."},
        "github": {"command": "[here]/dies.sh"},
        "mail": {"command": "true", "env": {"KEY": "${MAIL_KEY}"}},
        "old": {"command": "nothing", "disabled": true}
    });
    folder.configure(&json!({"mcpServers": servers}));
    let text = &[ALONE, &["--format", "text"]].concat();
    insta::assert_snapshot!("page", folder.show(text));
    insta::assert_snapshot!("page_offline", folder.show(&[text, &["--offline"][..]].concat()));
    folder.configure(&json!({"mcpServers": {"files": folder.serving("good.json")}}));
    insta::assert_snapshot!("page_of_good_health", folder.show(text));
}

#[tokio::test]
async fn no_process_is_left() {
    let folder = DoctorFolder::new("left");
    let wrapper = format!("#!/bin/sh\necho $$ >> pids\nexec {} \"$@\"\n", fixture_path().display());
    folder.program("wrapped.sh", &wrapper);
    folder
        .program("parent.sh", "#!/bin/sh\nsleep 600 &\necho $! >> pids\necho $$ >> pids\nexec ./server.sh good.json\n");
    let server = |args: &[&str]| json!({"command": "./wrapped.sh", "args": args, "cwd": ".", "connectTimeout": 10});
    let servers = json!({
        "good": server(&[]),
        "hangs": server(&["--fault", "hang"]),
        "lingers": server(&["--fault", "linger"]),
        "exits": server(&["--fault", "exit"]),
        "parent": {"command": "./parent.sh", "cwd": "."}
    });
    folder.configure(&json!({"mcpServers": servers}));
    folder.run(ALONE);
    let pids = std::fs::read_to_string(folder.path("pids")).expect("servers were started");
    let pids: Vec<u32> = pids.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(pids.len() >= 6, "{pids:?}");
    for pid in pids {
        wait_until_gone(pid).await;
    }
}

#[test]
fn settings_of_single_tools() {
    let folder = DoctorFolder::new("overrides");
    let pinned = GOOD_TOOL.replace(r#""name""#, r#""_meta": {"anthropic/alwaysLoad": true}, "name""#);
    folder.folder.file(
        "two.json",
        format!("[{pinned}, {}, {}]", GOOD_TOOL.replace("greet", "other"), GOOD_TOOL.replace("greet", "third")),
    );
    folder.folder.file("silent.json", r#"[{"name": "a", "inputSchema": {"type": "object"}}]"#);
    let entry = |tools: &str, settings: Value| {
        let mut server = folder.serving(tools);
        server["pegboard"] = settings;
        server
    };
    let servers = json!({
        "two": entry("two.json", json!({"tools": {"gret": {"hidden": true}, "other": {"name": "third"}}})),
        // A description of the user is one.
        "silent": entry("silent.json", json!({"tools": {"a": {"description": "Does a"}}})),
    });
    check(
        &folder,
        &json!({"mcpServers": servers}),
        &[],
        &[
            "warning tool-override two: `pegboard.tools.gret` matches no tool of the server → did you mean `greet`?",
            "warning tool-override two: the server's own `third` is not shown: `other` was given its name → ",
            "note always-load two: 1 tool asks for being listed without a search: `greet`; ignored → ",
        ],
    );
}
