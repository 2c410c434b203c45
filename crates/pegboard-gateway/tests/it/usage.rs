//! Learning from use: each caller has its own habits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pegboard_core::{Ranker, Selection};
use pegboard_discovery::{DialectName, Holder, Learner, usage::UsageStep};
use pegboard_engine::{
    Hybrid,
    usage::{Boost, BoostSource, HabitSettings, Habits, Lesson, UsageRanker},
};
use pegboard_gateway::{GatewaySettings, Profile};
use serde_json::{Value, json};

use super::{
    tokens::token,
    world::{Legacy, Server, World, settings, text, tool, until},
};

/// What is searched for; words alone find `create_issue` first.
const QUERY: &str = "open an issue";

const ISSUE: &str = "create_issue";

const TICKET: &str = "create_ticket";

const ANN: usize = 0;
const BOB: usize = 1;

/// When everything is learned and asked for.
const NOW: u64 = 1_000_000;

/// How often [`practise`] searches and calls.
const TIMES: usize = 8;

/// Keeps habits in memory, by the names of their holders.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Learned>>);

#[derive(Debug, Default)]
struct Learned {
    steps: Vec<String>,
    habits: BTreeMap<String, Habits>,
}

/// The habits of one holder.
#[derive(Debug)]
struct Own(Memory, String);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Learned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was learned so far: holder, query and tool.
    fn steps(&self) -> Vec<String> {
        self.lock().steps.clone()
    }
}

impl Learner for Memory {
    fn ranker(&self, holder: Holder<'_>, ranker: Arc<dyn Ranker>) -> Arc<dyn Ranker> {
        Arc::new(UsageRanker::new(ranker, Arc::new(Own(self.clone(), holder.name().to_owned()))))
    }

    fn learn(&self, holder: Holder<'_>, step: &UsageStep) {
        let mut learned = self.lock();
        learned.steps.push(format!("{}: {}: {}", holder.name(), step.query, step.tool));
        let habits = learned.habits.entry(holder.name().to_owned());
        let habits = habits.or_insert_with(|| Habits::new(HabitSettings::default()));
        habits.learn(Lesson::new(&step.query, &step.tool, step.share, NOW).expect("a lesson"));
    }

    fn finish(&self) {}
}

impl BoostSource for Own {
    fn boosts(&self, query: &str, is_visible: &dyn Fn(&str) -> bool) -> Vec<Boost> {
        let learned = self.0.lock();
        learned.habits.get(&self.1).map(|habits| habits.boosts(query, NOW, is_visible)).unwrap_or_default()
    }
}

fn server() -> Arc<Server> {
    Server::with(vec![
        tool(ISSUE, "Open an issue in a repository"),
        tool(TICKET, "Open a ticket about an issue with a customer"),
        tool("list_issues", "List the issues of a repository"),
        tool("send_mail", "Send a mail to a customer"),
        tool("fail", "Sends a fax"),
    ])
}

fn with_learner(memory: Option<&Memory>) -> GatewaySettings {
    GatewaySettings {
        tokens: ["ann", "bob"].map(|name| token(name, Selection::everything())).to_vec(),
        learner: memory.map(|memory| Arc::new(memory.clone()) as Arc<dyn Learner>),
        ..settings(Profile::Dialect(DialectName::Bridge))
    }
}

async fn world(memory: Option<&Memory>) -> World {
    World::ranked(vec![server().config("desk")], with_learner(memory), Arc::new(Hybrid::default())).await
}

/// The tools that a search shows, in their order.
async fn search(session: &Legacy, query: &str) -> Vec<&'static str> {
    order(&session.call("search_tools", &json!({"query": query}).to_string()).await)
}

fn order(found: &str) -> Vec<&'static str> {
    let mut places: Vec<(usize, &str)> = [ISSUE, TICKET, "list_issues", "send_mail"]
        .into_iter()
        .filter_map(|name| found.find(&format!("{name}(")).map(|at| (at, name)))
        .collect();
    places.sort_unstable();
    places.into_iter().map(|(_, name)| name).collect()
}

async fn call(session: &Legacy, tool: &str) -> String {
    session.call("call_tool", &json!({"name": tool, "arguments": {}}).to_string()).await
}

/// Searches and calls, several times.
async fn practise(session: &Legacy, query: &str, tool: &str) {
    for _ in 0..TIMES {
        search(session, query).await;
        assert_eq!(call(session, tool).await, "done");
    }
}

#[tokio::test]
async fn habits_belong_to_their_token() {
    let memory = Memory::default();
    let world = world(Some(&memory)).await;
    let (ann, bob) = (world.legacy_as(ANN).await, world.legacy_as(BOB).await);
    let before = search(&bob, QUERY).await;
    assert_eq!(before[..2], [ISSUE, TICKET]);
    practise(&ann, QUERY, TICKET).await;
    practise(&ann, "create issue", TICKET).await;
    assert_eq!(search(&ann, QUERY).await[0], TICKET, "her own session");
    assert_eq!(search(&world.legacy_as(ANN).await, "opening issues").await[0], TICKET, "her next session");
    assert_eq!(search(&bob, QUERY).await, before);
    assert_eq!(search(&world.legacy_as(BOB).await, QUERY).await, before);
    // A name is found first, whatever the habits.
    for named in ["create_issue", "create issue", "desk/create_issue", "please use `create_issue`"] {
        assert_eq!(search(&ann, named).await[0], ISSUE, "{named}");
    }
    let practised = |query: &str| vec![format!("ann: {query}: desk/{TICKET}"); TIMES];
    assert_eq!(memory.steps(), [practised(QUERY), practised("create issue")].concat());
}

#[tokio::test]
async fn calls_that_failed_or_were_not_searched_for_teach_nothing() {
    let memory = Memory::default();
    let world = world(Some(&memory)).await;
    let ann = world.legacy_as(ANN).await;
    call(&ann, TICKET).await;
    search(&ann, "send a mail").await;
    call(&ann, "list_issues").await;
    search(&ann, "send a fax").await;
    assert_eq!(call(&ann, "fail").await, "it failed");
    search(&ann, QUERY).await;
    assert!(call(&ann, "create_tickets_x").await.contains("no tool"));
    assert_eq!(memory.steps(), Vec::<String>::new());
    practise(&ann, "send a mail", "send_mail").await;
    assert_eq!(memory.steps(), vec!["ann: send a mail: desk/send_mail"; TIMES]);
}

#[tokio::test]
async fn requests_without_sessions_have_the_habits_of_their_token() {
    let memory = Memory::default();
    let world = world(Some(&memory)).await;
    let modern = async |holder: usize, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let mut messages = world.modern_messages(Some(holder), "tools/call", params, &[]).await.2;
        text(&messages.pop().expect("a response"))
    };
    let first_of = async |holder: usize| order(&modern(holder, "search_tools", json!({"query": QUERY})).await)[0];
    for _ in 0..TIMES {
        // Bob searches for the same, and calls nothing.
        assert_eq!(first_of(BOB).await, ISSUE);
        first_of(ANN).await;
        assert_eq!(modern(ANN, "call_tool", json!({"name": TICKET, "arguments": {}})).await, "done");
    }
    assert_eq!((first_of(ANN).await, first_of(BOB).await), (TICKET, ISSUE));
    assert_eq!(memory.steps(), vec![format!("ann: {QUERY}: desk/{TICKET}"); TIMES]);
}

#[tokio::test]
async fn secrets_in_queries_are_not_learned() {
    let memory = Memory::default();
    let world = world(Some(&memory)).await;
    let ann = world.legacy_as(ANN).await;
    search(&ann, "open an issue. open issue with secret-token-of-bob").await;
    assert_eq!(call(&ann, TICKET).await, "done");
    let steps = memory.steps();
    assert!(steps.len() == 1 && steps[0].starts_with("ann: open an issue. open issue with "), "{steps:?}");
    assert!(!steps[0].contains("secret-token"), "{steps:?}");
}

#[tokio::test]
async fn habits_end_when_learning_is_switched_off() {
    let memory = Memory::default();
    let world = world(Some(&memory)).await;
    let ann = world.legacy_as(ANN).await;
    practise(&ann, QUERY, TICKET).await;
    assert_eq!(search(&ann, QUERY).await[0], TICKET);
    let servers = world.gateway.servers().iter().map(|server| server.config().clone()).collect();
    assert!(world.gateway.reconfigure(servers, with_learner(None), None).await.has_settings);
    until("the session has no habits", async || search(&ann, QUERY).await[0] == ISSUE).await;
    let learned = memory.steps().len();
    practise(&ann, QUERY, TICKET).await;
    assert_eq!(search(&ann, QUERY).await[0], ISSUE);
    assert_eq!(memory.steps().len(), learned);
}
