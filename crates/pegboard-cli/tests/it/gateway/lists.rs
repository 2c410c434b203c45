//! Pages, completions and templates of real servers, for clients of both eras.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::{
    Legacy, PATIENCE, Reply, Served, names,
    real::{peer_file, peers, tools},
};

/// Entries on a page for clients.
const PAGE: usize = 3;

/// A client of one of the eras.
enum Client<'a> {
    Legacy(Legacy),
    Modern(&'a Served),
}

impl Client<'_> {
    async fn request(&self, method: &str, params: Value) -> Reply {
        match self {
            Self::Legacy(client) => client.request(method, params).await,
            Self::Modern(served) => served.modern(method, params).await,
        }
    }

    /// Returns the keys of a list, read page by page.
    async fn list(&self, method: &str, field: &str, key: &str) -> BTreeSet<String> {
        let (mut all, mut cursor) = (BTreeSet::new(), None);
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
            let reply = self.request(method, params).await;
            let page = reply.result()[field].as_array().expect("a list").clone();
            let is_last = reply.result().get("nextCursor").is_none();
            assert!(page.len() == PAGE || (is_last && page.len() < PAGE), "{method}: {} entries", page.len());
            for entry in page {
                let is_new = all.insert(entry[key].as_str().expect("a key").to_owned());
                assert!(is_new, "{method}: twice {entry}");
            }
            if is_last {
                break;
            }
            cursor = Some(reply.result()["nextCursor"].clone());
        }
        let (code, message) = self.request(method, json!({"cursor": "no cursor"})).await.error();
        assert_eq!(code, -32602, "{message}");
        all
    }

    /// Returns the values that complete an argument.
    async fn complete(&self, reference: Value, argument: (&str, &str), context: Value) -> Value {
        let params = json!({
            "ref": reference,
            "argument": {"name": argument.0, "value": argument.1},
            "context": {"arguments": context}
        });
        self.request("completion/complete", params).await.result()["completion"]["values"].clone()
    }

    /// Returns the text of a resource, which has the URI that was asked for.
    async fn read(&self, uri: &str) -> String {
        let reply = self.request("resources/read", json!({"uri": uri})).await;
        let content = &reply.result()["contents"][0];
        assert_eq!(content["uri"], uri);
        content["text"].as_str().expect("a text").to_owned()
    }
}

#[tokio::test]
async fn lists_completions_and_templates_of_real_servers() {
    let Some(tools) = tools() else { return };
    let (python, script) = (tools.join("python/bin/python"), peers().join("lists.py"));
    let server = |package: &str| json!({"command": python, "args": [script, package]});
    let config = json!({
        "mcpServers": {
            "everything": peer_file("servers.json", &tools)["mcpServers"]["everything"],
            "fast": server("fastmcp"),
            "plain": server("mcp")
        },
        "pegboard": {"exposure": "never", "startupWait": 60, "pageSize": PAGE}
    });
    let served = Served::start("real-lists", &config).await;
    let legacy = Client::Legacy(served.legacy().await);
    let modern = Client::Modern(&served);
    let mut seen = Vec::new();
    for client in [&legacy, &modern] {
        seen.push(check_lists(client).await);
        check_completions(client).await;
        check_templates(client).await;
    }
    assert_eq!(seen[0], seen[1], "both eras see the same");
}

async fn check_lists(client: &Client<'_>) -> [BTreeSet<String>; 4] {
    let lists = [
        client.list("tools/list", "tools", "name").await,
        client.list("prompts/list", "prompts", "name").await,
        client.list("resources/list", "resources", "uri").await,
        client.list("resources/templates/list", "resourceTemplates", "uriTemplate").await,
    ];
    for server in ["fast", "plain"] {
        for number in 0..5 {
            assert!(lists[0].contains(&format!("{server}___tool_{number}")), "{:?}", lists[0]);
            assert!(lists[1].contains(&format!("{server}___prompt_{number}")), "{:?}", lists[1]);
            assert!(lists[2].contains(&format!("{server}+page://{number}")), "{:?}", lists[2]);
        }
        for template in ["note://{name}", "memo://{year}/{name}", "card://{name}"] {
            assert!(lists[3].contains(&format!("{server}+{template}")), "{:?}", lists[3]);
        }
    }
    assert!(lists[1].contains("everything___completable-prompt"), "{:?}", lists[1]);
    lists
}

async fn check_completions(client: &Client<'_>) {
    let prompt = |name: &str| json!({"type": "ref/prompt", "name": name});
    let resource = |uri: &str| json!({"type": "ref/resource", "uri": uri});
    let team = || prompt("everything___completable-prompt");
    assert_eq!(client.complete(team(), ("department", "S"), json!({})).await, json!(["Sales", "Support"]));
    // The arguments that are known already narrow the others.
    let sales = json!({"department": "Sales"});
    assert_eq!(client.complete(team(), ("name", ""), sales).await, json!(["David", "Eve", "Frank"]));
    let text = resource("everything+demo://resource/dynamic/text/{resourceId}");
    assert_eq!(client.complete(text, ("resourceId", "7"), json!({})).await, json!(["7"]));
    for server in ["fast", "plain"] {
        let themes = client.complete(prompt(&format!("{server}___poem")), ("theme", "na"), json!({})).await;
        assert_eq!(themes, json!(["nature", "navigation"]), "{server}");
        let memo = resource(&format!("{server}+memo://{{year}}/{{name}}"));
        let names = client.complete(memo, ("name", "mi"), json!({"year": "1999"})).await;
        assert_eq!(names, json!(["milk1999", "mint1999"]), "{server}");
    }
    let unknown = json!({"ref": prompt("fast___nothing"), "argument": {"name": "theme", "value": ""}});
    assert_eq!(client.request("completion/complete", unknown).await.error().0, -32602);
}

async fn check_templates(client: &Client<'_>) {
    // Two servers have the same templates.
    for (server, package) in [("fast", "fastmcp"), ("plain", "mcp")] {
        assert_eq!(client.read(&format!("{server}+note://milk")).await, format!("milk of {package}"));
        assert_eq!(client.read(&format!("{server}+memo://1999/salt")).await, format!("salt of 1999 of {package}"));
    }
    let dynamic = client.read("everything+demo://resource/dynamic/text/7").await;
    assert!(dynamic.contains("Resource 7"), "{dynamic}");
}

/// Waits until a tool is listed.
async fn wait_until_listed(client: &Legacy, tool: &str) {
    let is_listed = async {
        while !names(&client.request("tools/list", json!({})).await, "tools").iter().any(|name| name == tool) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_listed).await.expect("the tool is listed");
}

#[tokio::test]
async fn a_real_server_lists_only_tools_that_a_client_can_use() {
    let Some(tools) = tools() else { return };
    let everything = &peer_file("servers.json", &tools)["mcpServers"]["everything"];
    let config = json!({
        "mcpServers": {"everything": everything},
        "pegboard": {"exposure": "never", "startupWait": 60}
    });
    let served = Served::start("real-capabilities", &config).await;
    let of_clients = ["get-roots-list", "trigger-sampling-request", "trigger-elicitation-request"];
    let plain = Legacy::begin(&served.url, "plain", json!({})).await;
    let listed = names(&plain.request("tools/list", json!({})).await, "tools");
    assert!(listed.iter().any(|name| name == "echo"), "{listed:?}");
    assert!(!listed.iter().any(|name| of_clients.contains(&name.as_str())), "no client can be asked: {listed:?}");
    let able = Legacy::begin(&served.url, "able", json!({"roots": {}, "sampling": {}, "elicitation": {}})).await;
    for tool in of_clients {
        wait_until_listed(&able, tool).await;
    }
    // Of this client, and through a connection of its own.
    let roots = json!({"roots": [{"uri": "file:///of-this-client", "name": "one"}]});
    let call = json!({"name": "get-roots-list", "arguments": {}});
    let answer = able.request_answering("tools/call", call, |_| roots.clone()).await;
    assert_ne!(answer.result()["isError"], true, "{answer:?}");
}
