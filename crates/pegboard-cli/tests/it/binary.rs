//! The binary: its output and exit codes.

use crate::harness::{Folder, json, show};

const TOOLS: &str = r#"[
  {"name": "get_weather", "description": "Get current weather for a location", "server": "weather"},
  {"name": "weather_forecast", "description": "Get weather forecast for the next 7 days", "server": "weather"},
  {"name": "send_message", "description": "Send a message to a channel", "server": "slack"},
  {"name": "create_issue", "description": "Create a GitHub issue", "server": "github"},
  {"name": "read_file", "description": "Read a file"}
]"#;

fn folder(test: &str) -> Folder {
    let folder = Folder::new(test);
    folder.file("tools.json", TOOLS);
    folder
}

#[test]
fn search_prints_json_when_piped() {
    insta::assert_snapshot!(folder("json").show(&["search", "weather forecast", "--catalog", "tools.json"]));
}

#[test]
fn search_prints_a_table_when_asked() {
    let folder = folder("table");
    insta::assert_snapshot!(folder.show(&["search", "send msg", "--catalog", "tools.json", "--format", "text"]));
}

#[test]
fn the_demo_catalog_is_built_in() {
    let output = Folder::new("demo").run(&["search", "create a github issue"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json(&output)["hits"][0]["id"], "github/create_issue");
    assert_eq!(json(&output)["hits"].as_array().map(Vec::len), Some(10));
}

#[test]
fn explanations_of_every_ranker() {
    let folder = folder("explain");
    let mut text = String::new();
    for ranker in ["hybrid", "lexical", "regex", "bm25", "keyword", "sequence", "hinted"] {
        let args = ["search", "weather", "--catalog", "tools.json", "--ranker", ranker, "--explain", "--limit", "1"];
        let hit = json(&folder.run(&args))["hits"][0].clone();
        let why = hit["why"].as_array().expect("reasons");
        assert!(!why.is_empty(), "{ranker}");
        text.push_str(&format!("{ranker} {} {}\n", hit["name"], hit["score"]));
        why.iter().for_each(|reason| text.push_str(&format!("  {reason}\n")));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn why_not_says_rank_and_what_was_missing() {
    let folder = folder("why_not");
    let base =
        ["search", "current weather", "--catalog", "tools.json", "--limit", "1", "--format", "text", "--why-not"];
    let ask = |name: &str| folder.show(&[&base[..], &[name]].concat());
    insta::assert_snapshot!([ask("weather_forecast"), ask("readFile"), ask("get_wether")].join("\n"));
    let args =
        ["search", "current weather", "--catalog", "tools.json", "--limit", "1", "--why-not", "weather_forecast"];
    insta::assert_snapshot!(json(&folder.run(&args))["why_not"].to_string());
}

#[test]
fn no_hit_is_exit_one() {
    let folder = folder("no_hit");
    insta::assert_snapshot!(folder.show(&["search", "xqzzy", "--catalog", "tools.json"]));
    insta::assert_snapshot!(folder.show(&["search", "xqzzy", "--catalog", "tools.json", "--format", "text"]));
}

#[test]
fn what_does_not_fit_is_withheld_and_can_be_had() {
    let folder = Folder::new("withheld");
    let args = ["search", "tell me a joke about dragons", "--limit", "4"];
    insta::assert_snapshot!(folder.show(&args));
    insta::assert_snapshot!(folder.show(&[&args[..], &["--format", "text"]].concat()));
    let shown = folder.run(&[&args[..], &["--least-confidence", "0"]].concat());
    let withheld = json(&folder.run(&args))["withheld"].clone();
    let names: Vec<_> = json(&shown)["hits"].as_array().expect("hits").iter().map(|hit| hit["name"].clone()).collect();
    assert_eq!((shown.status.code(), serde_json::Value::from(names)), (Some(0), withheld));
}

#[test]
fn a_model_can_be_brought() {
    let folder = folder("model");
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../pegboard-engine/model/pegboard.model");
    let hits = |args: &[&str]| {
        let base = ["search", "will it rain in Lisbon", "--catalog", "tools.json"];
        json(&folder.run(&[&base[..], args].concat()))["hits"].clone()
    };
    assert_eq!(hits(&["--model", model]), hits(&[]));
    folder.file("pegboard.json", format!(r#"{{"pegboard": {{"model": "{model}"}}}}"#));
    assert_eq!(hits(&["--config", "pegboard.json"]), hits(&[]));
    let mut damaged = std::fs::read(model).expect("the model is part of the project");
    damaged[5_000_000] ^= 1;
    folder.file("damaged.model", damaged).file("other.model", "{}");
    let refused = |file: &str| folder.show(&["search", "rain", "--catalog", "tools.json", "--model", file]);
    // The checksum in it is another with every model.
    let damaged = refused("damaged.model");
    assert!(damaged.starts_with("exit 2") && damaged.contains("the model is damaged"), "{damaged}");
    insta::assert_snapshot!(refused("other.model"));
    insta::assert_snapshot!(refused("missing.model"));
}

#[test]
fn wrong_use_is_exit_two_with_the_reason() {
    let folder = folder("wrong_use");
    folder
        .file("broken.json", "[\n{\"name\": \"a\"},\n{")
        .file("latin1.json", b"[{\"name\": \"caf\xe9\"}]")
        .file("empty.json", "");
    let show = |args: &[&str]| format!("$ pegboard {}\n{}", args.join(" "), folder.show(args));
    let catalog = |file| show(&["search", "x", "--catalog", file]);
    insta::assert_snapshot!(
        [
            show(&["search", "   "]),
            show(&["search"]),
            show(&["search", "(", "--ranker", "regex"]),
            show(&["search", "(?=a)", "--ranker", "regex"]),
            show(&["search", "x", "--ranker", "fastest"]),
            show(&["search", "x", "--threshold", "2"]),
            show(&["search", "x", "--query-file", "missing.txt"]),
            show(&["search", "--query-file", "missing.txt"]),
            catalog("missing.json"),
            catalog("broken.json"),
            catalog("latin1.json"),
            catalog("empty.json"),
            show(&["search", "x", "--catalog", "tools.json", "--max-catalog-bytes", "100"]),
            show(&["eval", "nowhere"]),
        ]
        .join("\n")
    );
}

#[test]
fn openapi_files_are_catalogs() {
    let folder = Folder::new("openapi");
    folder
        .file(
            "openapi.json",
            r#"{"openapi": "3.0.3", "info": {"title": "Town Library API"}, "paths": {
                "/books/{id}/loans": {"post": {"summary": "Lend a book"}},
                "/members": {"get": {"operationId": "listMembers", "summary": "List members"}}}}"#,
        )
        .file("queries.jsonl", "{\"id\": 1, \"query\": \"lend a book\"}\n")
        .file("qrels.tsv", "1\ttown-library/post_books_by_id_loans\t1\n")
        .file("swagger.json", r#"{"swagger": "2.0", "paths": {}}"#)
        .file("openapi.yaml", "openapi: 3.0.3\npaths: {}\n");
    let found = json(&folder.run(&["search", "lend a book", "--catalog", "openapi.json"]));
    assert_eq!(found["hits"][0]["id"], "town-library/post_books_by_id_loans");
    let code = |args: &[&str]| folder.run(args).status.code();
    assert_eq!(code(&["tokens", "--catalog", "openapi.json"]), Some(0));
    assert_eq!(code(&["lint", "--catalog", "openapi.json", "--max-findings", "100"]), Some(0));
    assert_eq!(code(&["eval", "."]), Some(0));
    let refused = |file: &str| {
        let output = folder.run(&["search", "x", "--catalog", file]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = refused("swagger.json");
    assert!(code == Some(2) && message.contains("Swagger `2.0` is not supported"), "{message}");
    let (code, message) = refused("openapi.yaml");
    assert!(code == Some(2) && message.contains("the file is YAML") && message.contains("hint:"), "{message}");
}

#[test]
fn warnings_name_file_and_line() {
    let folder = Folder::new("warnings");
    folder.file(
        "tools.jsonl",
        "{\"name\": \"a\", \"description\": \"alpha\"}\n{\"name\": \"a\"}\n{\"name\": \"\"}\noops\n{\"name\": \"b\", \"inputSchema\": 5}\n",
    );
    insta::assert_snapshot!(folder.show(&["search", "alpha", "--catalog", "tools.jsonl", "--format", "text"]));
}

#[test]
fn several_catalogs_are_one() {
    let folder = folder("several");
    folder.file("more.jsonl", "{\"name\": \"weather_alert\", \"description\": \"Warn of storms\"}\n");
    let count = |args: &[&str]| json(&folder.run(args))["total"].clone();
    assert_eq!(count(&["search", "weather", "--catalog", "tools.json,more.jsonl"]), 3);
    assert_eq!(count(&["search", "weather", "--catalog", "tools.json", "--catalog", "more.jsonl"]), 3);
}

#[test]
fn queries_from_files_and_standard_input() {
    let folder = folder("query_file");
    folder.file("query.txt", "send a message\n").file("long.txt", "word ".repeat(200_000));
    let args = ["search", "--catalog", "tools.json", "--query-file"];
    let run = |file: &str| folder.run(&[&args[..], &[file]].concat());
    assert_eq!(json(&run("query.txt"))["query"], "send a message");
    assert_eq!(json(&run("query.txt"))["hits"][0]["name"], "send_message");
    let from_input = folder.run_with_input(&[&args[..], &["-"]].concat(), b"read a file");
    assert_eq!(json(&from_input)["hits"][0]["name"], "read_file");
    insta::assert_snapshot!(show(&run("long.txt")));
}

#[test]
fn settings_come_from_flag_then_environment_then_file() {
    let folder = folder("config");
    folder.file(
        "pegboard.jsonc",
        r#"{
            // the object that every client has
            "mcpServers": {"fs": {"command": "mcp-fs"}},
            "pegboard": {"catalogs": ["tools.json"], "ranker": "keyword", "limit": 1},
        }"#,
    );
    folder.file("bad.json", r#"{"mcpServers": [], "pegboard": {"ranker": "best", "limit": -1, "colour": true}}"#);
    let output = folder.run(&["search", "weather", "--config", "pegboard.jsonc"]);
    assert_eq!((&json(&output)["ranker"], &json(&output)["hits"][0]["score"]), (&"keyword".into(), &10.into()));
    assert_eq!(json(&output)["hits"].as_array().map(Vec::len), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    insta::assert_snapshot!(stderr);
    let output = folder.run(&["search", "weather", "--config", "pegboard.jsonc", "--ranker", "hinted", "--limit", "2"]);
    assert_eq!(json(&output)["ranker"], "hinted");
    assert_eq!(json(&output)["hits"].as_array().map(Vec::len), Some(2));
    insta::assert_snapshot!(folder.show(&["search", "weather", "--config", "bad.json"]));
}

#[test]
fn no_hits_at_all_is_nothing_to_ask_for() {
    let folder = folder("limit");
    let refused = folder.show(&["search", "weather", "--catalog", "tools.json", "--limit", "0"]);
    assert!(refused.contains("'--limit <N>': expected a whole number of at least 1"), "{refused}");
    folder.file("none.json", r#"{"pegboard": {"catalogs": ["tools.json"], "limit": 0}}"#);
    let refused = folder.show(&["search", "weather", "--config", "none.json"]);
    assert!(refused.contains("`pegboard.limit` must be"), "{refused}");
}

#[test]
fn eval_measures_each_ranker() {
    let folder = folder("eval");
    folder
        .file(
            "tools.jsonl",
            "{\"name\": \"a\", \"description\": \"alpha\"}\n{\"name\": \"b\", \"description\": \"beta\"}\n",
        )
        .file("queries.jsonl", "{\"id\": \"1\", \"query\": \"alpha\"}\n{\"id\": 2, \"query\": \"alpha beta\"}\n")
        .file("qrels.tsv", "1\ta\t1\n2\tb\t1\n2\tgone\t1\n");
    insta::assert_snapshot!(folder.show(&["eval", ".", "--ranker", "hybrid,keyword"]));
    let all = json(&folder.run(&["eval", ".", "--ranker", "all"]));
    let names: Vec<&String> = all["rankers"].as_object().expect("an object").keys().collect();
    assert_eq!(names, ["regex", "bm25", "keyword", "sequence", "hinted", "hybrid"]);
    folder.file("queries.jsonl", "{\"id\": \"1\"}\n").file("qrels.tsv", "1 a 1\n");
    insta::assert_snapshot!(folder.show(&["eval", "."]));
}

#[test]
fn bench_has_a_row_for_each_engine_and_size() {
    let folder = folder("bench");
    let args = ["bench", "--sizes", "50,80", "--queries", "5", "--catalog", "tools.json"];
    let rows = json(&folder.run(&args))["rows"].clone();
    let rows: Vec<String> =
        rows.as_array().expect("rows").iter().map(|row| format!("{} {}", row["engine"], row["tools"])).collect();
    let engines = ["lexical", "hybrid", "tantivy"];
    let expected: Vec<String> =
        [50, 80, 5].iter().flat_map(|size| engines.map(|engine| format!("\"{engine}\" {size}"))).collect();
    assert_eq!(rows, expected);
}

#[test]
fn completions_and_manual() {
    let folder = Folder::new("generated");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = folder.run(&["completions", shell]);
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("why-not"), "{shell}");
    }
    let page = folder.run(&["man"]);
    assert!(String::from_utf8_lossy(&page.stdout).starts_with(".ie"), "a manual page in roff");
}

#[test]
fn the_help_fits_on_a_screen() {
    let folder = Folder::new("help");
    insta::assert_snapshot!(folder.show(&["--help"]));
    insta::assert_snapshot!(folder.show(&["search", "--help"]));
}

#[test]
fn a_configuration_in_place_of_a_catalog_is_explained() {
    let folder = folder("configuration_as_catalog");
    let check = |text: &str, is_explained: bool| {
        folder.file("x.json", text);
        for command in [&["search", "x"][..], &["tokens"], &["lint"]] {
            let told = folder.show(&[command, &["--catalog", "x.json"]].concat());
            assert!(told.starts_with("exit 2"), "{told}");
            assert_eq!(told.contains("hint: this file is a configuration: name it with `--config FILE`"), is_explained);
        }
    };
    check(r#"{"mcpServers": {"a": {"command": "a"}}}"#, true);
    check("{\n  // mine\n  \"servers\": {},\n}", true);
    check(r#"{"mcp": {"servers": {}}}"#, true);
    check(r#"{"mcpServers": 1}"#, false);
    check(r#"{"x": {}}"#, false);
}

#[test]
fn call_lists_the_parameters_and_takes_signatures() {
    let folder = Folder::new("call_parameters");
    let check = |tool: &str, argument: &str, expected: &[&str]| {
        let told = folder.show(&["call", "--demo", "--state", "none", tool, argument]);
        assert!(told.starts_with("exit 2"), "{told}");
        expected.iter().for_each(|text| assert!(told.contains(text), "{told}"));
    };
    let parameters = "parameters of `github___create_issue`: `owner` (string, required), `repo` (string, required)";
    check("github___create_issue", "title", &["`title` is not in the form key=value", parameters]);
    check("github___create_issue", "milestone=x", &["must be of type integer", "hint: parameters of", "(string[])"]);
    check("github___create_issue(owner: string, title: string)", "milestone=x", &["must be of type integer"]);
    check("nothing(owner: string)", "a=b", &["no tool `nothing`"]);
}

#[test]
fn one_tool_is_not_called_tools() {
    let folder = Folder::new("one_tool");
    folder.file("one.json", r#"[{"name": "get_weather"}]"#);
    let told = folder.show(&["tokens", "--catalog", "one.json", "--format", "text"]);
    assert!(told.contains("\n1 tool, "), "{told}");
    let told = folder.show(&["lint", "--catalog", "one.json", "--baseline", "b.json", "--write-baseline"]);
    assert!(told.contains("wrote 1 finding to"), "{told}");
}
