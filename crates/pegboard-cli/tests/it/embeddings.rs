//! An embeddings endpoint in every command, available and unavailable.

use std::process::Output;

use pegboard_testkit::embedder::{Behavior, Endpoint, EndpointLimits};
use serde_json::{Value, json};

use crate::{
    gateway::{PATIENCE, Served, client::http, text},
    harness::{Folder, json as json_of},
};

const TOOLS: &str = r#"{"name": "place_call", "description": "Calls a phone number", "server": "phone"}
{"name": "get_weather", "description": "Weather for a city", "server": "weather"}
{"name": "book_flight", "description": "Books a seat in an aeroplane", "server": "travel"}
"#;

/// A word that only the endpoint can interpret.
const FOREIGN: &str = "летим";

/// Returns an endpoint to which [`FOREIGN`] means a seat in an aeroplane.
fn endpoint(limits: EndpointLimits) -> Endpoint {
    let endpoint = Endpoint::start(limits);
    endpoint.means(&["летим", "seat", "aeroplane", "flight"], "flight");
    endpoint
}

fn search(folder: &Folder, url: &str, more: &[&str]) -> Output {
    let start = ["search", FOREIGN, "--catalog", "tools.jsonl", "--format", "json", "--state", "state"];
    let flags = ["--embeddings", url, "--embeddings-model", "test-model"];
    folder.run(&[&start[..], &flags, more].concat())
}

fn first(output: &Output) -> Option<String> {
    json_of(output)["hits"][0]["name"].as_str().map(str::to_owned)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_search_finds_what_the_endpoint_understands() {
    let (folder, endpoint) = (Folder::new("embeddings-search"), endpoint(EndpointLimits::default()));
    folder.file("tools.jsonl", TOOLS);
    let found = search(&folder, &endpoint.url(), &["--explain"]);
    assert_eq!(first(&found).as_deref(), Some("book_flight"), "{}", said(&found));
    assert_eq!(json_of(&found)["hits"][0]["why"][0]["term"], "(embeddings)");
    assert_eq!((endpoint.requests().len(), said(&found).as_str()), (2, ""), "the tools, and the query");
    let again = search(&folder, &endpoint.url(), &["--explain"]);
    assert_eq!(json_of(&again)["hits"], json_of(&found)["hits"], "from the disk it is the same");
    assert_eq!(endpoint.requests().len(), 3, "and only the query is asked for, which is not kept");
    // A file that was cut off in the middle is as good as none.
    for entry in std::fs::read_dir(folder.path().join("state/embeddings")).expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|end| end == "vectors") {
            let bytes = std::fs::read(entry.path()).expect("a file");
            std::fs::write(entry.path(), &bytes[..bytes.len() / 2]).expect("written");
        }
    }
    assert_eq!(first(&search(&folder, &endpoint.url(), &[])).as_deref(), Some("book_flight"));
    assert_eq!(endpoint.requests().len(), 5);
    let habitual = search(&folder, &endpoint.url(), &["--explain", "--usage"]);
    assert_eq!(
        (&json_of(&habitual)["hits"], said(&habitual).as_str()),
        (&json_of(&found)["hits"], ""),
        "with habits too"
    );
}

#[test]
fn a_search_goes_on_without_it_and_says_so() {
    let (folder, endpoint) = (Folder::new("embeddings-without"), endpoint(EndpointLimits::default()));
    folder.file("tools.jsonl", TOOLS);
    let check = |more: &[&str], expected: &str| {
        let start = ["search", "weather", "--catalog", "tools.jsonl", "--format", "json", "--state", "none"];
        let found = folder.run(&[&start[..], more].concat());
        assert_eq!(first(&found).as_deref(), Some("get_weather"), "{}", said(&found));
        assert!(said(&found).contains("warning: ") && said(&found).contains(expected), "{}", said(&found));
    };
    let url = endpoint.url();
    check(&["--embeddings", &url, "--embeddings-model", "other"], "404: the model \"other\" does not exist");
    check(&["--embeddings", "http://127.0.0.1:1/v1", "--embeddings-model", "m"], "cannot reach the endpoint");
    check(
        &["--embeddings", &url, "--embeddings-model", "test-model", "--ranker", "keyword"],
        "the ranker `keyword` does not use embeddings",
    );
    for (conduct, expected) in [
        (Behavior::Garbage, "invalid response"),
        (Behavior::Half, "no vector for text"),
        (Behavior::NotANumber, "invalid response"),
        (Behavior::Refuses(500, Some(0)), "HTTP status 500"),
    ] {
        endpoint.set_behavior(conduct);
        check(&["--embeddings", &url, "--embeddings-model", "test-model"], expected);
    }
    endpoint.set_behavior(Behavior::RefusesWord("weather", 400));
    check(&["--embeddings", &url, "--embeddings-model", "test-model"], "HTTP status 400: not `[hidden]`");
    let refused = folder.run(&["search", "x", "--embeddings", "me:hunter2@nonsense", "--embeddings-model", "m"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("not an http or https URL"), "{}", said(&refused));
    assert!(!said(&refused).contains("hunter2"), "{}", said(&refused));
}

#[test]
fn a_session_asks_for_all_queries_of_a_call_at_once() {
    let (folder, endpoint) = (Folder::new("embeddings-session"), endpoint(EndpointLimits::default()));
    folder.file("tools.jsonl", TOOLS);
    let url = endpoint.url();
    let start = ["session", "--catalog", "tools.jsonl", "--state", "none"];
    let args = [&start[..], &["--embeddings", &url, "--embeddings-model", "test-model"]].concat();
    let call = json!({"op": "call", "name": "search_tools", "arguments": {"queries": [FOREIGN, "weather"]}});
    let output = folder.run_with_input(&args, format!("{call}\n").as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a line");
    assert!(answer["result"].to_string().contains("book_flight"), "{answer}");
    let queries = endpoint.requests().pop().expect("a request");
    assert_eq!(queries.len(), 2);
}

#[test]
fn single_requests_of_a_query_are_asked_for_with_it() {
    let (folder, endpoint) = (Folder::new("embeddings-requests"), endpoint(EndpointLimits::default()));
    endpoint.means(&["звоним", "phone", "calls"], "call");
    folder.file("tools.jsonl", TOOLS);
    let flags = ["--embeddings", &endpoint.url(), "--embeddings-model", "test-model", "--state", "none"];
    let query = "летим, звоним";
    let start = ["search", query, "--catalog", "tools.jsonl", "--format", "json"];
    let found = folder.run(&[&start[..], &flags].concat());
    let mut names: Vec<String> = Vec::new();
    for hit in json_of(&found)["hits"].as_array().into_iter().flatten().take(2) {
        names.extend(hit["name"].as_str().map(str::to_owned));
    }
    names.sort();
    assert_eq!(names, ["book_flight", "place_call"], "{}", said(&found));
    assert_eq!(endpoint.requests()[1..], [vec![query], vec!["звоним", "летим"]], "the query first");
    let start = ["session", "--catalog", "tools.jsonl"];
    let call = json!({"op": "call", "name": "search_tools", "arguments": {"queries": [query, "weather"]}});
    folder.run_with_input(&[&start[..], &flags].concat(), format!("{call}\n").as_bytes());
    assert_eq!(endpoint.requests()[4..], [[query, "weather"], ["летим", "звоним"]]);
}

#[test]
fn only_the_vector_of_the_whole_query_is_missed() {
    let (folder, endpoint) = (Folder::new("embeddings-missed"), endpoint(EndpointLimits::default()));
    folder.file("tools.jsonl", TOOLS);
    let flags = ["--embeddings", &endpoint.url(), "--embeddings-model", "test-model", "--state", "none"];
    let query = "летим, звоним";
    let check = |conduct: Behavior, expected: Option<&str>| {
        endpoint.set_behavior(conduct);
        let start = ["search", query, "--catalog", "tools.jsonl", "--format", "json"];
        let searched = folder.run(&[&start[..], &flags].concat());
        let start = ["session", "--catalog", "tools.jsonl"];
        let call = json!({"op": "call", "name": "search_tools", "arguments": {"query": query}});
        let called = folder.run_with_input(&[&start[..], &flags].concat(), format!("{call}\n").as_bytes());
        for output in [searched, called] {
            match expected {
                Some(text) => assert!(said(&output).contains(text), "{}", said(&output)),
                None => assert_eq!(said(&output), ""),
            }
        }
    };
    // One of its requests is refused as well, the other is not.
    check(Behavior::RefusesWord("звоним", 400), Some("searching without the embedding of the query: "));
    check(Behavior::HangsAt("звоним"), None);
}

#[test]
fn quality_is_measured_with_it() {
    let (folder, endpoint) = (Folder::new("embeddings-eval"), endpoint(EndpointLimits::default()));
    let query = json!({"id": "1", "query": FOREIGN});
    folder.file("tools.jsonl", TOOLS).file("queries.jsonl", query.to_string());
    folder.file("qrels.tsv", "1\ttravel/book_flight\t1\n");
    let url = endpoint.url();
    let flags = ["--embeddings", &url, "--embeddings-model", "test-model", "--state", "none"];
    let recall = |more: &[&str]| {
        json_of(&folder.run(&[&["eval", ".", "--format", "json"][..], more].concat()))["rankers"]["hybrid"]["recall@1"]
            .clone()
    };
    assert_eq!((recall(&[]), recall(&flags)), (json!(0), json!(1)));
}

fn config(url: &str, more: &Value) -> Value {
    let mut embeddings = json!({"url": url, "model": "test-model", "queryTimeout": "60s"});
    for (key, value) in more.as_object().into_iter().flatten() {
        embeddings[key] = value.clone();
    }
    let fixture = crate::gateway::fixture(&["--tools", "40"]);
    json!({"mcpServers": {"one": fixture}, "pegboard": {"dialect": "bridge", "embeddings": embeddings}})
}

/// Waits until the status is as wanted.
async fn wait_for_status(served: &Served, is_it: impl Fn(&Value) -> bool) -> Value {
    let url = served.url.replace("/mcp", "/control/status");
    let wait = async {
        loop {
            let status: Value = serde_json::from_str(&get(&url).await).expect("JSON");
            if is_it(&status["embeddings"]) {
                return status["embeddings"].clone();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("the status that was waited for")
}

async fn get(url: &str) -> String {
    http().get(url).bearer_auth(crate::gateway::CONTROL).send().await.expect("an answer").text().await.expect("a text")
}

#[tokio::test]
async fn a_gateway_embeds_in_the_background_and_survives_the_endpoint() {
    let endpoint = endpoint(EndpointLimits { key: Some("s3cret".into()), ..EndpointLimits::default() });
    endpoint.means(&["зв", "audio"], "audio");
    let config = config(&endpoint.url(), &json!({"key": "${EMBEDDINGS_KEY}", "queryTimeout": "3s"}));
    let served = Served::start_with("embeddings", &config, &[], &[("EMBEDDINGS_KEY", "s3cret")]).await;
    let status = wait_for_status(&served, |status| {
        status["embedded"].as_u64() > Some(40) && status["embedded"] == status["tools"]
    });
    assert_eq!(status.await["problem"], Value::Null);
    let client = served.legacy().await;
    let found = text(&client.call("search_tools", json!({"query": "зв"})).await);
    assert!(found.contains("test_audio_content"), "{found}");

    endpoint.set_behavior(Behavior::Hangs);
    for query in ["image", "error", "audio", "content"] {
        let found = text(&client.call("search_tools", json!({"query": query})).await);
        assert!(found.contains("test_"), "{found}");
    }
    let status = wait_for_status(&served, |status| status["without"] == 4).await;
    assert_eq!(status["problem"], "the endpoint did not respond within 3 s");
    let metrics = get(&served.url.replace("/mcp", "/metrics")).await;
    for line in [
        "pegboard_embedding_queries_total{outcome=\"fetched\"} 1",
        "pegboard_embedding_queries_total{outcome=\"failed\"} 2",
        "pegboard_embedding_queries_total{outcome=\"skipped\"} 2",
    ] {
        assert!(metrics.lines().any(|one| one == line), "no `{line}` in:\n{metrics}");
    }
    served.wait_for_log("embeddings endpoint failed, searching without it").await;
    assert_eq!(served.log().matches("embeddings endpoint failed").count(), 1, "it is said once");
    assert!(!format!("{}{metrics}{status}", served.log()).contains("s3cret"));
}

#[tokio::test]
async fn a_gateway_asks_for_single_requests_too() {
    let endpoint = endpoint(EndpointLimits::default());
    endpoint.means(&["โทรหา", "audio"], "audio");
    endpoint.means(&["วาดรูป", "image"], "image");
    let served = Served::start("embeddings-requests", &config(&endpoint.url(), &json!({}))).await;
    wait_for_status(&served, |status| status["embedded"] == status["tools"] && status["tools"].as_u64() > Some(40))
        .await;
    let client = served.legacy().await;
    let found = text(&client.call("search_tools", json!({"query": "วาดรูป, โทรหา"})).await);
    assert!(found.contains("test_audio_content") && found.contains("test_image_content"), "{found}");
    let mut asked = endpoint.requests();
    assert_eq!(asked.split_off(asked.len() - 2), [vec!["วาดรูป, โทรหา"], vec!["วาดรูป", "โทรหา"]]);
}

#[tokio::test]
async fn vectors_outlive_another_ranker() {
    let endpoint = endpoint(EndpointLimits::default());
    let mut config = config(&endpoint.url(), &json!({}));
    let served = Served::start_with("embeddings-ranker", &config, &["--state", "none"], &[]).await;
    wait_for_status(&served, |status| status["embedded"] == status["tools"] && status["tools"].as_u64() > Some(40))
        .await;
    let client = served.legacy().await;
    client.call("search_tools", json!({"query": FOREIGN})).await;
    let before = endpoint.requests().len();
    config["pegboard"]["ranker"] = json!("hybrid");
    assert!(served.reconfigure(&config.to_string()).await);
    client.call("search_tools", json!({"query": FOREIGN})).await;
    let status = wait_for_status(&served, |status| status["known"] == 1).await;
    assert_eq!((endpoint.requests().len(), &status["embedded"]), (before, &status["tools"]), "{status}");
}

#[tokio::test]
async fn another_endpoint_is_taken_over_while_the_gateway_runs() {
    let (one, two) = (endpoint(EndpointLimits::default()), endpoint(EndpointLimits::default()));
    let served = Served::start("embeddings-reload", &config(&one.url(), &json!({}))).await;
    wait_for_status(&served, |status| status["embedded"] == status["tools"] && status["tools"].as_u64() > Some(40))
        .await;
    assert!(served.reconfigure(&config(&two.url(), &json!({})).to_string()).await);
    let of_two = |status: &Value| status["endpoint"] == format!("{}/embeddings", two.url());
    let is_whole = |status: &Value| status["embedded"].as_u64() > Some(40) && status["embedded"] == status["tools"];
    let all = wait_for_status(&served, |status| of_two(status) && is_whole(status)).await["tools"]
        .as_u64()
        .expect("a number");
    // A tool that is hidden from all callers is not embedded from then on.
    let mut hiding = config(&two.url(), &json!({}));
    hiding["pegboard"]["selection"] = json!({"deny": ["one:test_audio_content"]});
    assert!(served.reconfigure(&hiding.to_string()).await);
    wait_for_status(&served, |status| status["tools"] == all - 1 && status["embedded"] == all - 1).await;
    assert!(served.reconfigure(&json!({"mcpServers": {}}).to_string()).await);
    wait_for_status(&served, Value::is_null).await;
}

#[test]
fn the_doctor_asks_the_endpoint() {
    let (folder, endpoint) = (Folder::new("embeddings-doctor"), endpoint(EndpointLimits::default()));
    let examined = |url: &str, model: &str, more: &[&str]| {
        let embeddings = json!({"url": url, "model": model});
        let config = json!({"mcpServers": {}, "pegboard": {"listen": "127.0.0.1:0", "embeddings": embeddings}});
        folder.file("pegboard.json", config.to_string());
        let report = json_of(
            &folder.run(&[&["doctor", "pegboard.json", "--format", "json", "--state", "none"][..], more].concat()),
        );
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        findings.into_iter().find(|finding| finding["check"] == "embeddings")
    };
    assert_eq!(examined(&endpoint.url(), "test-model", &[]), None);
    let finding = examined(&endpoint.url(), "other", &[]).expect("a finding");
    assert_eq!(finding["severity"], "warning");
    assert!(finding["message"].as_str().is_some_and(|text| text.contains("the model \"other\" does not exist")));
    assert_eq!(examined("http://127.0.0.1:1/v1", "m", &["--offline"]), None);
}
