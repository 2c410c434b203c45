//! The requests of the console.

use std::sync::{Arc, LazyLock};

use axum::http::Method;
use pegboard_core::{
    Annotations, Catalog, Hit, Query, QueryError, Ranker, Ranking, Reason, Secret, Selection, Tool, VectorSource,
    Vectors,
    vectors::{BoxFuture, QueryTexts, VectorSourceStatus},
};
use pegboard_discovery::{DialectName, Exposure};
use pegboard_engine::{Hinted, Keyword};
use pegboard_gateway::{
    ActivitySettings, ConsoleSettings, ContentsPlace, GatewaySettings, Prices, Profile,
    control::{
        ControlAccess, LlmProxyStatus, Options, ProxyRouteStatus,
        host::{Host, LlmProxies, NamedRankers},
    },
};
use pegboard_upstream::config::{Pinning, ToolOverride};
use serde_json::{Value, json};

use super::{
    tokens::{ADMIN, GUEST, token, tokens},
    world::{Events, Folder, Server, World, names as world_names, plain, read, settings, text, tool, until, whole},
};

/// Every path that can be read.
const READABLE: [&str; 9] =
    ["status", "tools", "logs", "activity", "sessions", "savings", "approvals", "cases", "llm-proxies"];

/// A console of a gateway.
struct Console {
    world: World,
    holder: Option<usize>,
    credential: Option<String>,
}

impl Console {
    fn new(world: &World, options: Options) -> Self {
        Self { world: world.at(world.gateway.control_router(options)), holder: None, credential: None }
    }

    fn of(world: &World, holder: usize) -> Self {
        Self { holder: Some(holder), ..Self::new(world, Options { host: host(), ..Options::default() }) }
    }

    async fn ask(&self, method: Method, path: &str, more: &[(&str, &str)], body: &Value) -> (u16, Value) {
        let verb = method.clone();
        let credential = self.credential.as_ref().map(|credential| format!("Bearer {credential}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(credential.as_deref().map(|credential| ("authorization", credential)));
        headers.extend(more);
        let response =
            self.world.http(method, &format!("/control/{path}"), self.holder, &headers, &body.to_string()).await;
        let (status, _, mut documents) = read(response).await;
        let document = documents.pop().unwrap_or_default();
        check_described(verb.as_str(), path, status, &document);
        (status, document)
    }

    async fn get(&self, path: &str) -> Value {
        let (status, document) = self.ask(Method::GET, path, &[], &Value::Null).await;
        assert_eq!(status, 200, "{path}: {document}");
        document
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, &[], &body).await
    }

    async fn search(&self, body: Value) -> Value {
        let (status, found) = self.post("search", body).await;
        assert_eq!(status, 200, "{found}");
        found
    }

    async fn events(&self) -> Events {
        let credential = self.credential.as_ref().map(|credential| format!("Bearer {credential}"));
        let headers: Vec<(&str, &str)> = credential.iter().map(|text| ("authorization", text.as_str())).collect();
        let response = self.world.http(Method::GET, "/control/events", self.holder, &headers, "").await;
        assert_eq!(response.status().as_u16(), 200);
        Events::new(response)
    }

    /// Waits until the activity has so many entries of a kind.
    async fn entries(&self, kind: &str, count: usize) -> Vec<Value> {
        let path = format!("activity?kind={kind}");
        let list = async || self.get(&path).await["entries"].as_array().cloned().unwrap_or_default();
        until("entries are kept", async || list().await.len() >= count).await;
        list().await
    }
}

/// Checks that a response is what the description of the control API says.
fn check_described(method: &str, path: &str, status: u16, document: &Value) {
    static DESCRIPTION: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("../../../pegboard-console/openapi.json")).expect("JSON"));
    let path = format!("/control/{}", path.split('?').next().unwrap_or_default());
    let fits = |template: &&String| {
        let (parts, given): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
        parts.len() == given.len() && parts.iter().zip(given).all(|(part, one)| *part == one || part.starts_with('{'))
    };
    let paths = DESCRIPTION["paths"].as_object().expect("paths");
    // Where a name and a parameter fit, the name is meant.
    let Some(template) = paths.keys().filter(fits).min_by_key(|template| template.contains('{')) else {
        assert_eq!(status, 404, "{method} {path} is not described");
        return;
    };
    let response = &DESCRIPTION["paths"][template][method.to_lowercase()]["responses"][status.to_string()];
    let response = match response["$ref"].as_str() {
        Some(reference) => DESCRIPTION.pointer(reference.trim_start_matches('#')).expect("a response"),
        None => response,
    };
    let schema = &response["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {template} has no described response {status}: {document}");
    let schema = json!({"allOf": [schema], "components": DESCRIPTION["components"]});
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let problems: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(problems.is_empty(), "{method} {template} {status}: {problems:#?}\n{document}");
}

/// Two rankers by name.
#[derive(Debug, Default)]
struct TwoRankers {
    keyword: Arc<Keyword>,
    hinted: Arc<Hinted>,
}

impl NamedRankers for TwoRankers {
    fn names(&self) -> Vec<&'static str> {
        vec!["keyword", "hinted"]
    }

    fn ranker(&self, name: &str) -> Option<Arc<dyn Ranker>> {
        match name {
            "keyword" => Some(self.keyword.clone()),
            "hinted" => Some(self.hinted.clone()),
            _ => None,
        }
    }

    fn missing_words(&self, query: &str, matched: &[Reason]) -> Vec<String> {
        let is_missing = |word: &&str| !matched.iter().any(|reason| reason.term.contains(*word));
        query.split_whitespace().filter(is_missing).map(str::to_owned).collect()
    }
}

/// One proxy.
#[derive(Debug)]
struct OneProxy;

impl LlmProxies for OneProxy {
    fn list(&self) -> Vec<LlmProxyStatus> {
        let routes = [("openai".to_owned(), ProxyRouteStatus { requests: 3, ..ProxyRouteStatus::default() })];
        vec![LlmProxyStatus { pid: 7, endpoint: "http://127.0.0.1:8090".to_owned(), routes: routes.into() }]
    }
}

fn host() -> Host {
    Host { rankers: Some(Arc::new(TwoRankers::default())), llm_proxies: Some(Arc::new(OneProxy)), ..Host::default() }
}

fn hosted() -> Options {
    Options { host: host(), ..Options::default() }
}

fn names(hits: &Value) -> Vec<&str> {
    hits.as_array().expect("hits").iter().map(|hit| hit["name"].as_str().expect("a name")).collect()
}

fn bank() -> Vec<Value> {
    vec![
        tool("create_issue", "Open an issue in a repository."),
        tool("list_issues", "List the issues of a repository."),
        tool("pay", "Send money."),
    ]
}

async fn bridge(tools: Vec<Value>) -> World {
    World::new(vec![Server::with(tools).config("one")], settings(Profile::Dialect(DialectName::Bridge))).await
}

#[tokio::test]
async fn without_tokens_requests_need_the_credential_of_this_start() {
    let world = World::new(vec![Server::new(&["echo"]).config("one")], plain()).await;
    let access = Arc::new(ControlAccess::new().expect("randomness"));
    let options = Options {
        access: Some(Arc::clone(&access)),
        console: Some("http://127.0.0.1:1/console/".to_owned()),
        ..Options::default()
    };
    let mut console = Console::new(&world, options);
    for path in READABLE.into_iter().chain(["events"]) {
        let (status, refused) = console.ask(Method::GET, path, &[], &Value::Null).await;
        assert_eq!(status, 401, "{path}");
        assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("pegboard console")), "{refused}");
    }
    for path in ["search", "call", "reload", "servers/one/stop", "console/url", "console/logout", "approvals/approve"] {
        assert_eq!(console.post(path, json!({})).await.0, 401, "{path}");
    }
    let who = console.get("console").await;
    assert_eq!((&who["access"], &who["signedIn"], who.get("may")), (&json!("code"), &json!(false), None));

    console.credential = Some("guessed".to_owned());
    assert_eq!(console.ask(Method::GET, "status", &[], &Value::Null).await.0, 401);
    console.credential = Some(access.secret().expose().to_owned());
    let (_, made) = console.post("console/url", json!({})).await;
    let url = made["url"].as_str().expect("a URL");
    let code = url.strip_prefix("http://127.0.0.1:1/console/#code=").expect("a code").to_owned();
    console.credential = None;
    let host = ("host", "127.0.0.1:1");
    let login = |origin: &'static str, code: &str| {
        let body = json!({"code": code});
        let console = &console;
        async move { console.ask(Method::POST, "console/login", &[host, ("origin", origin)], &body).await }
    };
    assert_eq!(login("http://127.0.0.1:9", &code).await.0, 403, "a page of another program");
    assert_eq!(login("http://127.0.0.1:1", "wrong").await.0, 401);
    let (status, given) = login("http://127.0.0.1:1", &code).await;
    assert_eq!(status, 200, "{given}");
    assert_eq!(login("http://127.0.0.1:1", &code).await.0, 401, "a code is valid once");

    console.credential = given["credential"].as_str().map(str::to_owned);
    assert_eq!(console.get("console").await["signedIn"], true);
    assert_eq!(console.get("status").await["servers"][0]["name"], "one");
    let mut stream = console.events().await;
    assert_eq!(stream.message().await["kind"], "hello");
    assert_eq!(console.post("console/url", json!({})).await.0, 403, "only the owner can let others in");
    let no_json = console.world.http(Method::POST, "/control/search", None, &[], "{}").await;
    assert_eq!(no_json.status().as_u16(), 401);
    assert_eq!(console.post("console/logout", json!({})).await.0, 200);
    assert_eq!(console.ask(Method::GET, "status", &[], &Value::Null).await.0, 401);
    // Clients are not concerned.
    assert_eq!(world.legacy().await.names().await, ["echo"]);
    let seen = stream.until_end().await;
    assert!(seen.iter().all(|event| event["kind"] != "activity"), "signed out, but sees {seen:?}");
}

#[tokio::test]
async fn with_tokens_a_token_is_the_credential() {
    let servers = vec![Server::new(&["echo", "secret"]).config("one"), Server::new(&["echo"]).config("two")];
    let world = World::new(servers, GatewaySettings { tokens: tokens(), ..plain() }).await;
    let access = Some(Arc::new(ControlAccess::new().expect("randomness")));
    let nobody = Console::new(&world, Options { access, ..hosted() });
    for path in READABLE {
        assert_eq!(nobody.ask(Method::GET, path, &[], &Value::Null).await.0, 401, "{path}");
    }
    assert_eq!(nobody.get("console").await["access"], "token");
    assert_eq!(nobody.post("console/login", json!({"code": "x"})).await.0, 404);
    let (admin, guest) = (Console::of(&world, ADMIN), Console::of(&world, GUEST));
    let who = admin.get("console").await;
    assert_eq!(
        (&who["name"], &who["restricted"], &who["tokens"]),
        (&json!("admin"), &json!(false), &json!(["admin", "guest"]))
    );
    let who = guest.get("console").await;
    assert_eq!(
        (&who["restricted"], &who["tokens"], &who["may"]["searchAs"]),
        (&json!(true), &json!([]), &json!(false))
    );
    let proxies = admin.get("llm-proxies").await;
    assert_eq!(
        (&proxies["proxies"][0]["pid"], &proxies["proxies"][0]["routes"]["openai"]["requests"]),
        (&json!(7), &json!(3))
    );
    for path in ["savings", "approvals", "cases", "logs", "llm-proxies"] {
        assert_eq!(guest.ask(Method::GET, path, &[], &Value::Null).await.0, 403, "{path}");
    }
    for path in ["servers/two/restart", "servers/one/stop", "servers/one/start"] {
        assert_eq!(guest.post(path, json!({})).await.0, 404, "{path}");
    }
    assert_eq!(guest.post("search", json!({"query": "x", "token": "admin"})).await.0, 403);
    let seen = guest.get("status").await;
    let server = &seen["servers"][0];
    assert_eq!((&server["target"], &server["stderr"], &server["actions"]), (&Value::Null, &json!([]), &json!([])));
}

#[tokio::test]
async fn a_search_shows_what_a_client_gets() {
    let world = bridge(bank()).await;
    let console = Console::new(&world, hosted());
    let found = console.search(json!({"query": "open an issue zzz", "explain": true, "whyNot": "pay"})).await;
    let session = world.legacy().await;
    let reply = session.call("search_tools", r#"{"query":"open an issue zzz"}"#).await;
    assert_eq!(found["reply"]["text"], reply);
    assert_eq!(found["reply"]["tool"], "search_tools");
    assert!(found["reply"]["tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    assert_eq!(names(&found["hits"])[0], "create_issue");
    let hit = &found["hits"][0];
    assert!(hit["why"].as_array().is_some_and(|why| !why.is_empty()) && hit["isInReply"] == true, "{hit}");
    assert_eq!(
        (&found["ranker"], &found["dialect"], &found["tools"]),
        (&json!("keyword"), &json!("bridge"), &json!(3))
    );
    assert_eq!((&found["whyNot"]["name"], &found["whyNot"]["rank"]), (&json!("pay"), &Value::Null));
    assert!(found["whyNot"]["reason"].as_str().is_some_and(|reason| reason.contains("not ranked")));
    let typed = console.search(json!({"query": "open an issue", "whyNot": "create_issu"})).await;
    assert_eq!(
        (typed["hits"][0]["name"].is_string(), &typed["whyNot"]["reason"]),
        (true, &json!("no tool `create_issu`; similar: `create_issue`"))
    );

    let other = console.search(json!({"query": "issue", "ranker": "hinted", "dialect": "select", "limit": 1})).await;
    assert_eq!(
        (&other["ranker"], &other["dialect"], names(&other["hits"]).len()),
        (&json!("hinted"), &json!("select"), 1)
    );
    assert!(other["reply"]["loads"].as_array().is_some_and(|loads| !loads.is_empty()), "{other}");
    assert_eq!(console.search(json!({"query": " "})).await["hits"], json!([]), "nothing is typed yet");
    for wrong in [
        json!({"query": "x", "ranker": "none"}),
        json!({"query": "x", "dialect": "none"}),
        json!({"query": "x", "token": "none"}),
    ] {
        assert_eq!(console.post("search", wrong.clone()).await.0, 404, "{wrong}");
    }
    assert_eq!(console.post("search", json!({"query": "x".repeat(20_000)})).await.0, 400);
    assert_eq!(console.post("search", json!({})).await.0, 400);
    assert_eq!(console.get("activity?kind=search").await["entries"].as_array().map(Vec::len), Some(1), "the client's");
}

#[tokio::test]
async fn every_dialect_answers_a_search() {
    let world = bridge(bank()).await;
    let console = Console::new(&world, hosted());
    for dialect in DialectName::NAMES {
        let found = console.search(json!({"query": "issue", "dialect": dialect})).await;
        assert!(found["reply"]["text"].as_str().is_some_and(|text| text.contains("issue")), "{dialect}: {found}");
        assert_eq!(found["reply"]["isError"], false, "{dialect}: {found}");
    }
}

#[tokio::test]
async fn a_token_searches_its_own_part() {
    let servers = vec![Server::new(&["echo", "secret"]).config("one"), Server::new(&["echo"]).config("two")];
    let settings = GatewaySettings { tokens: tokens(), exposure: Exposure::Always, ..GatewaySettings::default() };
    let world = World::new(servers, settings).await;
    let (admin, guest) = (Console::of(&world, ADMIN), Console::of(&world, GUEST));
    assert_eq!(admin.search(json!({"query": "secret echo"})).await["tools"], 3);
    let as_guest = admin.search(json!({"query": "secret echo", "token": "guest"})).await;
    let own = guest.search(json!({"query": "secret echo"})).await;
    assert_eq!(names(&as_guest["hits"]), ["one___echo"]);
    assert_eq!((&as_guest["reply"], &as_guest["hits"]), (&own["reply"], &own["hits"]));
    let hidden = guest.search(json!({"query": "x", "whyNot": "one___secret"})).await;
    assert_eq!(
        (&hidden["whyNot"]["id"], &hidden["whyNot"]["reason"]),
        (&Value::Null, &json!("no tool `one___secret`")),
        "the answer is that for a tool that does not exist"
    );
}

#[tokio::test]
async fn activity_links_calls_to_searches_and_keeps_contents_in_memory() {
    let world = bridge(vec![tool("echo", "Repeats a text."), tool("fail", "Fails.")]).await;
    let console = Console::new(&world, hosted());
    let session = world.legacy().await;
    session.call("search_tools", r#"{"query":"repeat a text"}"#).await;
    session.call("call_tool", r#"{"name":"echo","arguments":{"word":"private"}}"#).await;
    session.call("call_tool", r#"{"name":"fail","arguments":{}}"#).await;
    session.call("nothing_like_it", "{}").await;
    let calls = console.entries("call", 3).await;
    let search = &console.entries("search", 1).await[0];
    let outcome = |entry: &Value| format!("{} {}", entry["tool"].as_str().unwrap_or_default(), entry["outcome"]);
    let found: Vec<String> = calls.iter().map(outcome).collect();
    assert_eq!(found, ["nothing_like_it \"rejected\"", "fail \"error\"", "echo \"ok\""]);
    let echo = &calls[2];
    assert_eq!((&echo["search"], &echo["rank"]), (&search["seq"], &json!(1)));
    assert_eq!((&search["query"], &search["client"]), (&json!("repeat a text"), &json!("test")));
    assert_eq!(search["session"], echo["session"]);
    assert!(!search.to_string().contains(session.id()), "ids of sessions are secrets");

    let detail = console.get(&format!("activity/{}", echo["seq"])).await;
    assert!(detail["arguments"].as_str().is_some_and(|text| text.contains("private")), "{detail}");
    assert!(detail["result"].as_str().is_some_and(|text| text.contains("done")), "{detail}");
    assert_eq!(
        console.get(&format!("activity/{}", search["seq"])).await["calls"],
        json!([echo["seq"], calls[1]["seq"]])
    );
    assert_eq!(console.ask(Method::GET, "activity/999", &[], &Value::Null).await.0, 404);
    let page = console.get("activity?limit=1&outcome=ok&q=ECHO&kind=call").await;
    assert_eq!((page["entries"].as_array().map(Vec::len), &page["next"]), (Some(1), &Value::Null));
    let first = console.get("activity?limit=2").await;
    let rest = console.get(&format!("activity?limit=100&before={}", first["next"])).await;
    assert_eq!(rest["entries"].as_array().map(Vec::len), first["total"].as_u64().map(|all| all as usize - 2));

    let export = console.world.get("/control/activity/export?format=eval", None).await.1;
    let lines: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    assert!(lines[0]["begin"]["format"] == 1 && !export.contains("private"), "{export}");
    let offered = &lines.iter().find_map(|line| line.get("search")).expect("a search")["offered"];
    assert!(offered.as_array().is_some_and(|ids| ids.contains(&json!("one/echo"))), "{offered}");
    assert!(lines.iter().any(|line| line["call"]["tool"] == "one/echo"), "{export}");
    assert_eq!(console.ask(Method::GET, "activity/export?format=csv", &[], &Value::Null).await.0, 400);
}

#[tokio::test]
async fn no_part_of_a_secret_is_kept_where_arguments_are_cut() {
    let mut config = Server::new(&["echo"]).config("one");
    config.secrets.push(Secret::new("hunter2-hunter2-hunter2"));
    let world = World::new(vec![config], plain()).await;
    let console = Console::new(&world, hosted());
    let session = world.legacy().await;
    // The limit is in the middle of the secret.
    let word = format!("{}hunter2-hunter2-hunter2", "x".repeat((16 << 10) - 20));
    session.call("echo", &json!({"word": word}).to_string()).await;
    let call = &console.entries("call", 1).await[0];
    let detail = console.get(&format!("activity/{}", call["seq"])).await;
    let kept = detail["arguments"].as_str().expect("arguments");
    assert!(kept.ends_with("xxx ") || kept.ends_with("xxx \"}"), "{}", &kept[kept.len() - 40..]);
    assert!(!kept.contains("hunter"));
}

#[tokio::test]
async fn activity_survives_a_restart_without_contents() {
    let folder = Folder::new("console-activity");
    let with = |entries, contents| GatewaySettings {
        console: ConsoleSettings {
            folder: Some(folder.path().to_owned()),
            activity: ActivitySettings { entries, contents, ..ActivitySettings::default() },
            ..ConsoleSettings::default()
        },
        ..settings(Profile::Dialect(DialectName::Bridge))
    };
    let first = World::new(vec![Server::new(&["echo"]).config("one")], with(100, ContentsPlace::Memory)).await;
    first.legacy().await.call("call_tool", r#"{"name":"echo","arguments":{"word":"private"}}"#).await;
    let before = Console::new(&first, hosted()).entries("call", 1).await;
    first.gateway.finish_writing().await;
    let kept = std::fs::read_to_string(folder.path().join("activity.jsonl")).expect("a file");
    assert!(kept.contains("echo") && !kept.contains("private"), "{kept}");
    drop(first);
    let second = World::new(vec![Server::new(&["echo"]).config("one")], with(100, ContentsPlace::Memory)).await;
    let console = Console::new(&second, hosted());
    let after = console.entries("call", 1).await;
    assert_eq!((&after[0]["seq"], &after[0]["hasContents"]), (&before[0]["seq"], &json!(false)));
    second.legacy().await.call("call_tool", r#"{"name":"echo","arguments":{}}"#).await;
    let both = console.entries("call", 2).await;
    assert!(both[0]["seq"].as_u64() > both[1]["seq"].as_u64(), "numbers go on");

    let off = World::new(vec![Server::new(&["echo"]).config("one")], with(0, ContentsPlace::Memory)).await;
    off.legacy().await.call("call_tool", r#"{"name":"echo","arguments":{}}"#).await;
    assert_eq!(Console::new(&off, hosted()).get("activity").await["total"], 0);
}

#[tokio::test]
async fn a_token_sees_its_own_activity_and_sessions() {
    let servers = vec![Server::new(&["echo"]).config("one"), Server::new(&["echo"]).config("two")];
    let world = World::new(servers, GatewaySettings { tokens: tokens(), ..plain() }).await;
    let (admin, guest) = (Console::of(&world, ADMIN), Console::of(&world, GUEST));
    let mut stream = guest.events().await;
    assert_eq!(stream.message().await["kind"], "hello");
    let (of_admin, of_guest) = (world.legacy_as(ADMIN).await, world.legacy_as(GUEST).await);
    of_admin.call("two___echo", "{}").await;
    of_guest.call("one___echo", "{}").await;
    admin.entries("call", 2).await;
    let own = guest.entries("call", 1).await;
    assert_eq!((own.len(), &own[0]["tool"]), (1, &json!("one___echo")));
    let hidden = admin.entries("call", 2).await.into_iter().find(|entry| entry["token"] == "admin").expect("an entry");
    assert_eq!(guest.ask(Method::GET, &format!("activity/{}", hidden["seq"]), &[], &Value::Null).await.0, 404);
    let event = stream.until(|event| event["kind"] == "activity" && event["entry"]["kind"] == "call").await;
    assert_eq!(event["entry"]["token"], "guest", "the admin's call came first");
    assert_eq!(
        (admin.get("sessions").await["total"].as_u64(), guest.get("sessions").await["total"].as_u64()),
        (Some(2), Some(1))
    );
}

#[tokio::test]
async fn a_stream_shows_what_its_token_may_see_now() {
    // The same servers each time: a changed one would start anew, and its tools would be unknown until then.
    let (one, two) = (Server::new(&["echo", "secret"]), Server::new(&["echo"]));
    let servers = || vec![one.config("one"), two.config("two")];
    let world = World::new(servers(), GatewaySettings { tokens: tokens(), ..plain() }).await;
    let admin = Console::of(&world, ADMIN);
    let mut stream = admin.events().await;
    assert_eq!(stream.message().await["kind"], "hello");
    let only_two = Selection::everything().allow_tools(["two:echo"]);
    let restricted = |selection| vec![token("admin", selection), tokens().remove(GUEST)];
    let change = async |tokens| {
        let settings = GatewaySettings { tokens, ..plain() };
        assert!(world.gateway.reconfigure(servers(), settings, None).await.has_settings);
    };
    change(restricted(only_two)).await;
    world.legacy_as(GUEST).await.call("one___echo", "{}").await;
    world.legacy_as(ADMIN).await.call("two___echo", "{}").await;
    Console::of(&world, GUEST).entries("call", 1).await;
    let call = stream.until(|event| event["entry"]["kind"] == "call").await;
    assert_eq!(call["entry"]["tool"], "two___echo", "the guest's call came first");
    assert_eq!(admin.get("tools").await["servers"][0]["tools"][0]["calls"], 1);
    change(vec![tokens().remove(GUEST)]).await;
    world.legacy_as(GUEST).await.call("one___echo", "{}").await;
    assert!(stream.until_end().await.iter().all(|event| event["kind"] != "activity"), "its token was removed");
}

#[tokio::test]
async fn a_list_of_several_pages_is_one_entry() {
    let server = Server::new(&["echo", "wait", "progress"]);
    let world = World::new(vec![server.config("one")], GatewaySettings { page_size: 2, ..plain() }).await;
    let (console, session) = (Console::new(&world, hosted()), world.legacy().await);
    let first = session.request("tools/list", json!({})).await;
    let second = session.request("tools/list", json!({"cursor": first["result"]["nextCursor"]})).await;
    assert_eq!((world_names(&first).len(), world_names(&second).len()), (2, 1));
    session.call("echo", "{}").await;
    console.entries("call", 1).await;
    let lists = console.entries("list", 1).await;
    assert_eq!((lists.len(), &lists[0]["matches"]), (1, &json!(3)));
    let tools = console.get("tools").await["servers"][0]["tools"].as_array().cloned().unwrap_or_default();
    let tokens: u64 = tools.iter().filter_map(|tool| tool["tokens"].as_u64()).sum();
    assert_eq!(lists[0]["tokens"], tokens, "the model reads all definitions");
    assert_eq!(console.get("status").await["totals"]["lists"], 1);
}

#[tokio::test]
async fn a_token_for_a_tool_hears_of_its_server_and_counts_its_own_calls() {
    let one = Server::new(&["echo"]);
    let servers = vec![one.config("one"), Server::new(&["echo"]).config("two")];
    let only_one = token("guest", Selection::everything().allow_tools(["one:echo"]));
    let tokens = vec![token("admin", Selection::everything()), only_one];
    let world = World::new(servers, GatewaySettings { tokens, ..plain() }).await;
    let (admin, guest) = (Console::of(&world, ADMIN), Console::of(&world, GUEST));
    for _ in 0..3 {
        world.legacy_as(ADMIN).await.call("one___echo", "{}").await;
    }
    world.legacy_as(GUEST).await.call("one___echo", "{}").await;
    admin.entries("call", 4).await;
    let calls = async |console: &Console| console.get("tools").await["servers"][0]["tools"][0]["calls"].clone();
    assert_eq!((calls(&admin).await, calls(&guest).await), (json!(4), json!(1)));
    // Those of the server are not all its own.
    let all_calls = async |console: &Console| console.get("status").await["servers"][0]["calls"]["total"].clone();
    assert_eq!((all_calls(&admin).await, all_calls(&guest).await), (json!(4), json!(0)));
    let mut stream = guest.events().await;
    stream.until(|event| event["kind"] == "lagged").await;
    one.add_tool("hidden");
    let event = stream.until(|event| event["kind"] == "server").await;
    assert_eq!((&event["server"], event.get("tools")), (&json!("one"), None));
    assert_eq!(admin.post("servers/one/stop", json!({})).await.0, 202);
    stream.until(|event| event["kind"] == "server" && event["state"] == "stopped").await;
}

#[tokio::test]
async fn a_token_does_not_see_the_figures_of_a_server_that_it_sees_a_part_of() {
    let world = World::new(
        vec![Server::new(&["echo", "secret", "fail"]).config("one")],
        GatewaySettings { tokens: tokens(), ..plain() },
    )
    .await;
    let (admin, guest) = (Console::of(&world, ADMIN), Console::of(&world, GUEST));
    let session = world.legacy_as(ADMIN).await;
    for _ in 0..12 {
        session.call("fail", "{}").await;
    }
    let server = async |console: &Console| console.get("status").await["servers"][0].clone();
    let (of_admin, of_guest) = (server(&admin).await, server(&guest).await);
    assert_eq!((&of_admin["calls"]["total"], &of_admin["toolErrors"]), (&json!(12), &json!(12)));
    assert!(of_admin["latency"]["p50Us"].is_number(), "{of_admin}");
    assert_eq!(
        (&of_guest["tools"], &of_guest["calls"]["total"], &of_guest["toolErrors"]),
        (&json!(2), &json!(0), &json!(0))
    );
    for key in ["lastError", "pid", "memoryBytes"] {
        assert_eq!(of_guest[key], Value::Null, "{key}");
    }
    assert_eq!((&of_guest["held"], &of_guest["latency"]["p50Us"]), (&json!(0), &Value::Null));
}

#[tokio::test]
async fn hostile_texts_stay_data() {
    let evil = "</script><script>alert(1)</script>\n\nevent: hello\ndata: {}\n\n";
    let world = bridge(vec![tool("echo", evil)]).await;
    let console = Console::new(&world, hosted());
    let mut stream = console.events().await;
    assert_eq!(stream.message().await["kind"], "hello");
    let session = world.legacy().await;
    let arguments = json!({"query": evil}).to_string();
    session.call("search_tools", &arguments).await;
    let event = loop {
        let event = stream.message().await;
        if event["kind"] == "activity" {
            break event;
        }
    };
    assert_eq!(event["entry"]["query"], evil, "one event, and nothing in it begins another");
    let response = console.world.http(Method::GET, "/control/tools", None, &[], "").await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let list: Value = serde_json::from_str(&whole(response.into_body()).await).expect("JSON");
    assert_eq!(list["servers"][0]["tools"][0]["definition"]["description"], evil);
}

#[tokio::test]
async fn the_console_calls_tools_like_a_client() {
    let server = Server::new(&["echo", "fail"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let console = Console::new(&world, hosted());
    let (status, done) = console.post("call", json!({"name": "echo", "arguments": {"number": 1}})).await;
    assert_eq!(
        (status, &done["outcome"], &done["isError"], &done["server"]),
        (200, &json!("ok"), &json!(false), &json!("one"))
    );
    assert_eq!(done["result"]["content"][0]["text"], "done");
    assert_eq!(console.get(&format!("activity/{}", done["seq"])).await["entry"]["tool"], "echo");
    assert_eq!(console.post("call", json!({"name": "fail", "arguments": {}})).await.1["outcome"], "error");
    let (_, unknown) = console.post("call", json!({"name": "none", "arguments": {}})).await;
    assert_eq!((&unknown["isError"], &unknown["outcome"]), (&json!(true), &json!("rejected")));
    assert_eq!(console.post("call", json!({"name": "echo", "arguments": [1]})).await.0, 400);
    assert_eq!(console.post("call", json!({"name": "echo"})).await.0, 400);
    let entries = console.entries("call", 3).await;
    assert!(entries.iter().all(|entry| entry["source"] == "console"), "{entries:?}");
    assert_eq!(server.called(), ["echo", "fail"]);
}

#[tokio::test]
async fn a_call_of_a_hidden_tool_looks_like_that_of_a_missing_one() {
    let servers = vec![Server::new(&["echo", "secret"]).config("one"), Server::new(&["echo"]).config("two")];
    let world = World::new(servers, GatewaySettings { tokens: tokens(), ..plain() }).await;
    let (admin, guest) = (Console::of(&world, ADMIN), Console::of(&world, GUEST));
    let server_of = async |console: &Console, name: &str| {
        console.post("call", json!({"name": name, "arguments": {}})).await.1["server"].clone()
    };
    for name in ["one___secret", "two___echo", "two___none"] {
        assert_eq!(server_of(&guest, name).await, Value::Null, "{name}");
    }
    assert_eq!(server_of(&guest, "one___echo").await, "one");
    assert_eq!(server_of(&admin, "two___echo").await, "two");
}

#[tokio::test]
async fn tools_name_the_keys_that_the_configuration_sets() {
    let mut config = Server::new(&["echo"]).config("one");
    let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
    let changes = ToolOverride { title: Some("Echo".to_owned()), annotations, ..ToolOverride::default() };
    config.overrides.insert("echo".to_owned(), changes);
    let world = World::new(vec![config], plain()).await;
    let tool = Console::new(&world, hosted()).get("tools").await["servers"][0]["tools"][0].clone();
    assert_eq!(tool["override"]["keys"], json!(["title", "annotations"]));
}

#[tokio::test]
async fn servers_are_stopped_and_started() {
    let world =
        World::new(vec![Server::new(&["echo"]).config("one"), Server::new(&["other"]).config("two")], plain()).await;
    let console = Console::new(&world, hosted());
    let state = async || console.get("status").await["servers"][0].clone();
    assert_eq!(state().await["actions"], json!(["stop", "restart"]));
    let (status, done) = console.post("servers/one/stop", json!({})).await;
    assert_eq!((status, &done["action"]), (202, &json!("stop")));
    until("it is stopped", async || state().await["state"] == "stopped").await;
    until("its tools are gone", async || console.get("tools").await["servers"].as_array().map(Vec::len) == Some(1))
        .await;
    assert_eq!(state().await["actions"], json!(["start"]));
    assert_eq!(console.post("servers/one/stop", json!({})).await.0, 409);
    until("it may be started", async || console.post("servers/one/start", json!({})).await.0 == 202).await;
    until("it is ready", async || state().await["state"] == "ready").await;
    for (path, expected) in [
        ("servers/one/burn", 404),
        ("servers/none/stop", 404),
        ("servers/one/disable", 404),
        ("servers/one/login", 404),
    ] {
        assert_eq!(console.post(path, json!({})).await.0, expected, "{path}");
    }
}

#[tokio::test]
async fn loaded_tools_are_kept_and_put_away() {
    let world =
        World::new(vec![Server::with(bank()).config("one")], settings(Profile::Dialect(DialectName::Select))).await;
    let console = Console::new(&world, hosted());
    let session = world.legacy().await;
    let mut stream = session.stream().await;
    session.call("tool_search", r#"{"query":"issue"}"#).await;
    let list = console.get("sessions").await;
    let one = &list["sessions"][0];
    assert!(!list.to_string().contains(session.id()), "ids of sessions are secrets");
    let handle = one["handle"].as_str().expect("a handle");
    let loaded: Vec<&str> =
        one["loaded"].as_array().expect("a list").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(loaded.contains(&"create_issue"), "{one}");
    assert!(one["tokensOfAll"].as_u64() > Some(0) && one["canUnload"] == true, "{one}");
    let tools = json!({"tools": ["create_issue"]});
    let mut changes = console.events().await;
    changes.until(|event| event["kind"] == "lagged").await;
    let (status, kept) = console.post(&format!("sessions/{handle}/keep"), tools.clone()).await;
    assert_eq!(status, 200, "{kept}");
    changes.until(|event| event["kind"] == "session" && event["handle"] == handle && event["change"] == "tools").await;
    assert!(kept["loaded"].as_array().is_some_and(|all| all.iter().any(|tool| tool["isKept"] == true)), "{kept}");
    let (_, put_away) = console.post(&format!("sessions/{handle}/unload"), tools.clone()).await;
    assert!(!put_away["loaded"].to_string().contains("create_issue"), "{put_away}");
    stream.wait_for("notifications/tools/list_changed").await;
    assert!(!session.names().await.contains(&"create_issue".to_owned()));
    assert_eq!(console.post(&format!("sessions/{handle}/keep"), tools.clone()).await.0, 409);
    assert_eq!(console.post("sessions/s999/unload", tools).await.0, 404);
}

#[tokio::test]
async fn savings_follow_the_formula() {
    let long = "Does something that takes many words to say, and so costs a context. ".repeat(20);
    let tools = (0..20).map(|at| tool(&format!("tool_{at}"), &long)).collect();
    let prices = Prices { currency: "EUR".to_owned(), per_million_tokens: 2.0, clients: Vec::new() };
    let settings = GatewaySettings {
        console: ConsoleSettings { prices: Some(prices), ..ConsoleSettings::default() },
        ..settings(Profile::Dialect(DialectName::Bridge))
    };
    let world = World::new(vec![Server::with(tools).config("one")], settings).await;
    let console = Console::new(&world, hosted());
    let session = world.legacy().await;
    session.names().await;
    session.call("search_tools", r#"{"query":"tool_3"}"#).await;
    console.entries("search", 1).await;
    let savings = console.get("savings?days=1").await;
    let total = &savings["total"];
    let number = |key: &str| total[key].as_i64().expect("a number");
    assert_eq!(number("saved"), number("tokensOfAll") - number("tokensShown") - number("tokensOfReplies"));
    assert!(number("saved") > 0 && number("tokensOfReplies") > 0 && number("lists") == 1, "{total}");
    assert_eq!(total["money"].as_f64(), Some((number("saved") * 2) as f64 / 1e6));
    assert_eq!((&savings["clients"][0]["key"], &savings["servers"][0]["key"]), (&json!("test"), &json!("one")));
    assert_eq!(savings["prices"]["currency"], "EUR");
}

#[tokio::test]
async fn held_tools_are_approved_in_the_form_that_was_shown() {
    let folder = Folder::new("console-approvals");
    let server = Server::with(vec![tool("pay", "Pays.")]);
    let mut config = server.config("bank");
    config.pinning = Some(Pinning::Hold);
    let world = World::new(vec![config], GatewaySettings { pins: Some(folder.path().to_owned()), ..plain() }).await;
    let console = Console::new(&world, hosted());
    assert_eq!(console.get("approvals").await["approvals"], json!([]));
    server.set_tools(vec![tool("pay", "Pays, and sends the key along.")]);
    let waiting = async || console.get("approvals").await["approvals"].clone();
    until("it waits for approval", async || waiting().await.as_array().is_some_and(|all| !all.is_empty())).await;
    let one = waiting().await[0].clone();
    assert_eq!(
        (&one["kind"], &one["isHeld"], &one["old"]["description"]),
        (&json!("changed"), &json!(true), &json!("Pays."))
    );
    assert_eq!(one["new"]["description"], "Pays, and sends the key along.");
    assert_eq!(console.post("approvals/approve", json!({"ids": ["0123"]})).await.0, 409);
    assert_eq!(console.post("approvals/reject", json!({"ids": [one["id"]]})).await.0, 404, "there is no file to edit");
    let (status, done) = console.post("approvals/approve", json!({"ids": [one["id"]]})).await;
    assert_eq!((status, &done["changed"]), (200, &json!([{"server": "bank", "tool": "pay"}])));
    assert_eq!(console.post("approvals/approve", json!({"ids": [one["id"]]})).await.0, 409);
    until("it is offered again", async || world.gateway.pins().is_empty()).await;
    let called = async || text(&world.modern("tools/call", json!({"name": "pay", "arguments": {}})).await) == "done";
    until("it can be called", called).await;
}

#[tokio::test]
async fn without_a_state_folder_there_are_no_cases() {
    let world = bridge(bank()).await;
    let console = Console::new(&world, hosted());
    assert_eq!(console.get("console").await["may"]["cases"], false);
    assert_eq!(console.post("cases", json!({"query": "open an issue", "expected": ["create_issue"]})).await.0, 409);
}

#[tokio::test]
async fn cases_measure_the_rankers() {
    let folder = Folder::new("console-cases");
    let settings = GatewaySettings {
        console: ConsoleSettings { folder: Some(folder.path().to_owned()), ..ConsoleSettings::default() },
        ..settings(Profile::Dialect(DialectName::Bridge))
    };
    let world = World::new(vec![Server::with(bank()).config("one")], settings).await;
    let console = Console::new(&world, hosted());
    assert_eq!(console.get("console").await["may"]["cases"], true);
    assert_eq!(console.get("cases").await["cases"], json!([]));
    let (status, saved) = console.post("cases", json!({"query": "open an issue", "expected": ["create_issue"]})).await;
    assert_eq!(status, 200, "{saved}");
    console.post("cases", json!({"query": "zzz", "expected": ["gone", "pay"]})).await;
    let several = json!({"query": "repository", "expected": ["create_issue", "list_issues", "pay", "gone"]});
    let (_, several) = console.post("cases", several).await;
    let recall = console.get("cases").await["scores"][0].clone();
    // All of the first case, nothing of the second, half of the third.
    assert_eq!((&recall["recallAt1"], &recall["recallAt10"]), (&json!(0.4167), &json!(0.5)));
    let path = format!("cases/{}", several["id"].as_str().expect("an id"));
    assert_eq!(console.ask(Method::DELETE, &path, &[], &Value::Null).await.0, 200);
    let cases = console.get("cases").await;
    let scores = cases["scores"].as_array().expect("scores");
    assert_eq!((&scores[0]["ranker"], &scores[0]["recallAt1"]), (&json!("keyword"), &json!(0.5)));
    assert_eq!((scores.len(), &cases["results"][1]["missing"]), (2, &json!(["gone"])));
    let id = saved["id"].as_str().expect("an id");
    let renamed = json!({"id": id, "query": "new issue", "expected": ["create_issue"]});
    assert_eq!(console.post("cases", renamed).await.1["id"], id);
    assert_eq!(console.get("cases").await["cases"].as_array().map(Vec::len), Some(2));
    for wrong in [
        json!({"query": " ", "expected": ["x"]}),
        json!({"query": "x", "expected": []}),
        json!({"query": "x".repeat(9000), "expected": ["x"]}),
    ] {
        assert_eq!(console.post("cases", wrong).await.0, 400);
    }
    assert_eq!(console.ask(Method::DELETE, &format!("cases/{id}"), &[], &Value::Null).await.0, 200);
    assert_eq!(console.ask(Method::DELETE, &format!("cases/{id}"), &[], &Value::Null).await.0, 404);
}

/// Finds all tools if it gets the vector of the query.
#[derive(Debug)]
struct ByVector;

impl Ranker for ByVector {
    fn name(&self) -> &'static str {
        "by-vector"
    }

    fn rank(&self, query: &Query<'_>, catalog: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        let hit = |tool: &Arc<Tool>| Hit { tool: Arc::clone(tool), score: 1.0, why: Vec::new() };
        let hits = if query.vector().is_some() { catalog.iter().map(hit).collect() } else { Vec::new() };
        Ok(Ranking { total: hits.len(), passing: hits.len(), hits, ..Ranking::default() })
    }

    fn vector_source(&self) -> Option<Arc<dyn VectorSource>> {
        Some(Arc::new(FewVectors))
    }
}

/// A source that takes only few queries at a time, like the endpoints of models.
#[derive(Debug)]
struct FewVectors;

impl VectorSource for FewVectors {
    fn ask(&self, queries: Vec<QueryTexts>) -> BoxFuture<Vectors> {
        let vector = |query: QueryTexts| (query.whole, Arc::from([1.0]));
        Box::pin(std::future::ready(queries.into_iter().take(16).map(vector).collect()))
    }

    fn status(&self) -> VectorSourceStatus {
        VectorSourceStatus::default()
    }
}

#[tokio::test]
async fn cases_are_measured_with_the_vectors_of_their_queries() {
    let folder = Folder::new("console-cases-vectors");
    let settings = GatewaySettings {
        console: ConsoleSettings { folder: Some(folder.path().to_owned()), ..ConsoleSettings::default() },
        ..settings(Profile::Dialect(DialectName::Bridge))
    };
    let world = World::ranked(vec![Server::with(bank()).config("one")], settings, Arc::new(ByVector)).await;
    let console = Console::new(&world, Options::default());
    for number in 0..20 {
        let case = json!({"query": format!("issue {number}"), "expected": ["create_issue"]});
        assert_eq!(console.post("cases", case).await.0, 200);
    }
    let cases = console.get("cases").await;
    assert_eq!((&cases["scores"][0]["ranker"], &cases["scores"][0]["recallAt10"]), (&json!("by-vector"), &json!(1.0)));
}

#[tokio::test]
async fn a_stream_tells_of_servers_and_sessions() {
    let server = Server::new(&["echo"]);
    let world = World::new(vec![server.config("one")], plain()).await;
    let console = Console::new(&world, hosted());
    let mut stream = console.events().await;
    let hello = stream.message().await;
    assert_eq!((&hello["kind"], &hello["newest"]), (&json!("hello"), &json!(0)));
    let mut until_kind = async |kind: &str| stream.until(|event| event["kind"] == kind).await;
    // From then on changes are known.
    until_kind("lagged").await;
    server.add_tool("more");
    assert_eq!(until_kind("server").await["state"], "ready");
    let session = world.legacy().await;
    assert_eq!(until_kind("session").await["change"], "begun");
    assert_eq!(session.end().await / 100, 2);
    assert_eq!(until_kind("session").await["change"], "ended");
}
