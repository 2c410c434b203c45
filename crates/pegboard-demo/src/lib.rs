//! The demo of Pegboard: the servers of `pegboard serve --demo`, with tools that work on a small world in memory.
//!
//! The objects and the behaviour of most tools are data: `data/*.json` declares for each server its
//! collections of objects, which arguments refer to them, and what its tools do where the name
//! alone does not tell. `verbs` does the common things, `special` holds the few lines that
//! remain for tools which compute something. All servers share one `World`, so that a mail's
//! attachment can be saved to the drive and loaded into a table.
//!
//! Nothing here reads a clock, a file or random numbers: the same calls give the same answers.

mod arguments;
mod clock;
mod documents;
mod filter;
mod plan;
mod special;
mod verbs;
mod world;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    future::ready,
    sync::{Arc, Mutex, PoisonError},
};

use pegboard_core::{
    Catalog, LoadLimits, Tool,
    load::{self, LoadError},
    tool::Annotations,
};
use pegboard_mcp::{
    era::MODERN_VERSION,
    json::{Raw, raw},
    rpc::RpcError,
};
use pegboard_upstream::{
    AnswerFuture, LocalServer,
    config::{ServerConfig, TransportConfig},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::{
    arguments::Arguments,
    documents::Prompt,
    plan::{Plan, qualified},
    special::Special,
    verbs::Call,
    world::{Collection, Collections, Outcome, World},
};

/// How long a client may cache lists, which never change.
const LIST_TTL_MS: u64 = 3_600_000;

/// The declarations of each server.
const DATA: [(&str, &str); 15] = [
    ("github", include_str!("data/github.json")),
    ("slack", include_str!("data/slack.json")),
    ("mail", include_str!("data/mail.json")),
    ("calendar", include_str!("data/calendar.json")),
    ("files", include_str!("data/files.json")),
    ("postgres", include_str!("data/postgres.json")),
    ("cloud", include_str!("data/cloud.json")),
    ("payments", include_str!("data/payments.json")),
    ("maps", include_str!("data/maps.json")),
    ("media", include_str!("data/media.json")),
    ("crm", include_str!("data/crm.json")),
    ("monitoring", include_str!("data/monitoring.json")),
    ("browser", include_str!("data/browser.json")),
    ("sheets", include_str!("data/sheets.json")),
    ("home", include_str!("data/home.json")),
];

/// The tools: 15 servers, several languages and naming styles.
const CATALOG: &[u8] = include_bytes!("../catalog/tools.jsonl");

/// An error in the data of the demo, which are part of the program, so tests find it first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The catalog cannot be read.
    #[error("invalid demo catalog")]
    Catalog(#[source] LoadError),
    /// The data of a server cannot be read.
    #[error("invalid demo data for `{server}`")]
    Data {
        /// The server.
        server: &'static str,
        /// The reason.
        source: serde_json::Error,
    },
}

/// Returns the demo catalog.
///
/// # Errors
/// When the data in the program are damaged.
pub fn catalog() -> Result<Catalog, DemoError> {
    let loaded = load::parse("the demo catalog", CATALOG, &LoadLimits::default()).map_err(DemoError::Catalog)?;
    Ok(Catalog::from_tools(loaded.tools).0)
}

/// Returns the servers of the demo catalog in its order, with a world of their own.
///
/// # Errors
/// When the data in the program are damaged.
pub fn servers() -> Result<Vec<ServerConfig>, DemoError> {
    let config = |server: DemoServer| {
        let (name, description) = (server.name.clone(), server.description.clone());
        let config = ServerConfig::new(name, TransportConfig::Local(Arc::new(server)));
        ServerConfig { description: Some(description), ..config }
    };
    Ok(demo_servers()?.into_iter().map(config).collect())
}

/// The declarations of one server.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerData {
    instructions: String,
    collections: BTreeMap<String, Collection>,
    /// Arguments that name objects, and the collection that these are in.
    refs: BTreeMap<String, String>,
    tools: BTreeMap<String, Plan>,
    prompts: BTreeMap<String, Prompt>,
}

/// Returns the declarations of all servers, and their collections separately, because every server
/// may use them.
fn declared() -> Result<(BTreeMap<&'static str, ServerData>, Collections), DemoError> {
    let mut collections = Collections::new();
    let mut data = BTreeMap::new();
    for (server, text) in DATA {
        let mut of_server: ServerData =
            serde_json::from_str(text).map_err(|source| DemoError::Data { server, source })?;
        let declared = std::mem::take(&mut of_server.collections);
        for (name, collection) in declared {
            collections.insert(qualified(server, &name), collection.called(&name));
        }
        of_server.refs.values_mut().for_each(|collection| *collection = qualified(server, collection));
        data.insert(server, of_server);
    }
    Ok((data, collections))
}

fn demo_servers() -> Result<Vec<DemoServer>, DemoError> {
    let catalog = catalog()?;
    let (mut data, collections) = declared()?;
    let servers = catalog.servers();
    let tools_of = |name: &str| catalog.iter().filter(|tool| tool.server_name() == Some(name)).collect::<Vec<_>>();
    let world = Arc::new(Mutex::new(World::new(collections.clone())));
    let server = |server: &&Arc<pegboard_core::Server>| {
        let mut data = data.remove(server.name.as_str()).unwrap_or_default();
        let mut tool = |tool: &Arc<Tool>| {
            let plan = data.tools.remove(tool.name()).unwrap_or_default();
            let mut plan = plan.complete(&server.name, tool.name(), &collections);
            plan.refs.extend(data.refs.clone());
            DemoTool::new(tool, plan)
        };
        let prefix = format!("{}/", server.name);
        let own = collections.iter().filter_map(|(name, collection)| Some((name.strip_prefix(&prefix)?, collection)));
        let own: Vec<(&str, &Collection)> = own.collect();
        DemoServer {
            resources: documents::resources(&server.name, &own),
            templates: documents::templates(&server.name, &own),
            name: server.name.clone(),
            description: server.description.clone(),
            tools: tools_of(&server.name).into_iter().map(&mut tool).collect(),
            data,
            world: Arc::clone(&world),
        }
    };
    Ok(servers.iter().map(server).collect())
}

/// A tool: its definition and its plan.
#[derive(Debug)]
struct DemoTool {
    name: String,
    listed: Value,
    plan: Plan,
    special: Option<Special>,
}

impl DemoTool {
    fn new(tool: &Tool, plan: Plan) -> Self {
        let schema = tool.input_schema().and_then(|schema| serde_json::from_str(schema).ok());
        let mut listed = json!({"name": tool.name()});
        if let Some(title) = tool.title() {
            listed["title"] = title.into();
        }
        listed["description"] = tool.description().into();
        listed["inputSchema"] = schema.unwrap_or_else(|| json!({"type": "object"}));
        listed["annotations"] = annotations(&tool.annotations());
        if let Some(hint) = tool.search_hint() {
            listed["_meta"] = json!({"anthropic/searchHint": hint});
        }
        let special = special::of(tool.server_name().unwrap_or_default(), tool.name());
        Self { name: tool.name().to_owned(), listed, plan, special }
    }
}

fn annotations(hints: &Annotations) -> Value {
    let hints = [
        ("readOnlyHint", hints.read_only),
        ("destructiveHint", hints.destructive),
        ("idempotentHint", hints.idempotent),
        ("openWorldHint", hints.open_world),
    ];
    hints.into_iter().filter_map(|(name, hint)| Some((name.to_owned(), hint?.into()))).collect::<Map<_, _>>().into()
}

/// One server of the demo.
struct DemoServer {
    name: String,
    description: String,
    tools: Vec<DemoTool>,
    resources: Vec<Value>,
    templates: Vec<Value>,
    data: ServerData,
    world: Arc<Mutex<World>>,
}

impl fmt::Debug for DemoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DemoServer").field("name", &self.name).field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

impl LocalServer for DemoServer {
    fn answer<'a>(&'a self, method: &'a str, params: Option<Raw>) -> AnswerFuture<'a> {
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        Box::pin(ready(self.handle(method, params).map(|result| raw(&result))))
    }
}

impl DemoServer {
    fn handle(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut result = match method {
            "server/discover" => self.discover(),
            "tools/list" => json!({"tools": self.tools.iter().map(|tool| &tool.listed).collect::<Vec<_>>()}),
            "prompts/list" => json!({"prompts": self.prompts()}),
            "resources/list" => json!({"resources": self.resources}),
            "resources/templates/list" => json!({"resourceTemplates": self.templates}),
            "tools/call" => return self.call(params).map(complete),
            "prompts/get" => return self.prompt(&params).map(complete),
            "resources/read" => return self.read(&params).map(complete),
            _ => return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("unknown method `{method}`"))),
        };
        result["ttlMs"] = LIST_TTL_MS.into();
        result["cacheScope"] = "public".into();
        Ok(complete(result))
    }

    fn discover(&self) -> Value {
        let mut capabilities = json!({"tools": {}, "resources": {}});
        if !self.data.prompts.is_empty() {
            capabilities["prompts"] = json!({});
        }
        let info = json!({"name": self.name, "version": env!("CARGO_PKG_VERSION")});
        let instructions = format!(
            "{} This is a demo with in-memory data: nothing is sent anywhere. {}",
            self.description, self.data.instructions
        );
        json!({
            "supportedVersions": [MODERN_VERSION],
            "capabilities": capabilities,
            "instructions": instructions.trim_end(),
            "_meta": {"io.modelcontextprotocol/serverInfo": info},
        })
    }

    fn call(&self, mut params: Value) -> Result<Value, RpcError> {
        let name = params["name"].as_str().unwrap_or_default();
        let unknown = || RpcError::new(RpcError::INVALID_PARAMS, format!("unknown tool: `{}`", world::shorten(name)));
        let tool = self.tools.iter().find(|tool| tool.name == name).ok_or_else(unknown)?;
        let arguments = match params["arguments"].take() {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            _ => return Err(RpcError::new(RpcError::INVALID_PARAMS, "`arguments` must be an object")),
        };
        Ok(match self.run(tool, arguments) {
            Ok(reply) => json!({"content": [{"type": "text", "text": reply.to_string()}], "structuredContent": reply}),
            Err(refusal) => {
                let reply = json!({"error": refusal.0});
                let content = json!([{"type": "text", "text": reply.to_string()}]);
                json!({"content": content, "structuredContent": reply, "isError": true})
            }
        })
    }

    fn run(&self, tool: &DemoTool, arguments: Map<String, Value>) -> Outcome {
        let schema = &tool.listed["inputSchema"];
        let arguments = Arguments::check(schema, arguments)?;
        let mut call = Call { plan: &tool.plan, schema, arguments, found: BTreeMap::new() };
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        verbs::resolve(&world, &mut call)?;
        match tool.special {
            Some(special) => special(&mut world, &mut call),
            None => verbs::run(&mut world, &call),
        }
    }
}

fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result
}
