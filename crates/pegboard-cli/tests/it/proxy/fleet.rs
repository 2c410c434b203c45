//! What is left of the definitions of a fleet: 2,529 tools, as many as in the fleet of real servers that
//! `cargo xtask bench-proxy` measures.

use pegboard_testkit::provider::{Part, Provider, Recorded, Script, ScriptedTurn, Wire};
use serde_json::{Map, Value, json};

use super::{
    RunningProxy,
    conversation::{Conversation, arguments, query, tool_name},
};

const TOOLS: usize = 2529;

/// As many questions as make twenty turns of the model.
const QUESTIONS: usize = 10;

/// The least share of definition tokens that must be saved.
const SAVED: f64 = 0.97;

/// The systems of the fleet; each has the same tools.
const SYSTEMS: [&str; 13] = [
    "crm",
    "erp",
    "billing",
    "wiki",
    "calendar",
    "mailbox",
    "warehouse",
    "payroll",
    "helpdesk",
    "archive",
    "intranet",
    "shop",
    "library",
];

/// Further parameters of every tool.
const PARAMETERS: [&str; 9] =
    ["account", "owner", "reference", "due_date", "language", "region", "labels", "priority", "approver"];

fn fleet_name(number: usize) -> String {
    format!("{}_{}", SYSTEMS[number / 200], tool_name(number % 200))
}

fn fleet_query(number: usize) -> String {
    format!("{} in the {}", query(number % 200), SYSTEMS[number / 200])
}

/// Returns a tool whose definition is about as long as those of real servers are on average, 350 tokens.
fn fleet_tool(wire: Wire, number: usize) -> Value {
    let (name, system) = (fleet_name(number), SYSTEMS[number / 200]);
    let describe = |parameter: &str| {
        let text = format!("The {parameter} of what is meant, as the {system} shows it to those who may change it");
        (parameter.to_owned(), json!({"type": "string", "description": text.replace('_', " ")}))
    };
    let properties: Map<String, Value> =
        ["id"].iter().chain(&PARAMETERS).map(|parameter| describe(parameter)).collect();
    let schema = json!({"type": "object", "properties": properties, "required": ["id"], "additionalProperties": false});
    let description = format!("To {}, with everything that belongs to it.", fleet_query(number));
    match wire {
        Wire::Messages => json!({"name": name, "description": description, "input_schema": schema}),
        _ => json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}}),
    }
}

/// Returns the tokens that the provider has counted for all requests of answers: of whatever the model reads.
fn counted(usages: &[Value]) -> u64 {
    let keys = ["prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    usages.iter().flat_map(|usage| keys.iter().filter_map(|key| usage[*key].as_u64())).sum()
}

/// Plays `questions` questions with the first `count` tools of the fleet, and returns the usage of each answer.
fn usages(mut conversation: Conversation, count: usize, questions: usize) -> Vec<Value> {
    let tools: Vec<Value> = (0..count).map(|number| fleet_tool(conversation.wire, number)).collect();
    conversation.body["tools"] = tools.into();
    let mut usages = Vec::new();
    for question in 0..questions {
        conversation.say(&format!("Question {question}"));
        loop {
            let answer = conversation.send();
            let calls = conversation.take(&answer).calls;
            usages.push(answer.json()["usage"].take());
            if calls.is_empty() {
                break;
            }
            conversation.answer_calls();
        }
    }
    usages
}

/// Returns the tokens of the definitions of the whole fleet, by the count of the provider.
fn all_tokens(wire: Wire) -> u64 {
    let say = || ScriptedTurn::say([Part::text("ok")]);
    let provider = Provider::start(Script::new([say(), say()]));
    let ask = |count| counted(&usages(Conversation::direct(wire, provider.url(), 0, false), count, 1));
    let tokens = ask(TOOLS) - ask(0);
    provider.assert_clean();
    tokens
}

/// Returns how many tools of a request the provider shows to the model before it searches.
fn eager(recorded: &Recorded) -> usize {
    let tools = recorded.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter(|tool| tool["defer_loading"] != true).count()
}

// Counted is what the provider counts as read by the model, in hidden rounds too. Where found tools are declared as deferred
// ones (references, on Messages), their definitions are in later requests, and count once the conversation refers to them.
// Elsewhere (a constant list), they count as the text of search results. The messages count as well, which is the stricter way.
#[test]
fn at_least_97_percent_of_the_definitions_of_a_fleet_are_not_read() {
    for wire in [Wire::Chat, Wire::Messages] {
        let all = all_tokens(wire);
        assert!((750_000..1_100_000).contains(&all), "{wire:?}: a fleet of {all} tokens is not like a real one");
        let turn = |question: usize| {
            let number = question * 251 % TOOLS;
            let reach = ScriptedTurn::reach(fleet_query(number), [Part::call(fleet_name(number), arguments(number))]);
            [reach, ScriptedTurn::say([Part::text(format!("Done with {question}."))])]
        };
        let provider = Provider::start(Script::new((0..QUESTIONS).flat_map(turn)).stable_prefix());
        let proxy = RunningProxy::start("fleet", &provider);
        let usages = usages(Conversation::new(wire, &proxy.url, 0, false), TOOLS, QUESTIONS);
        provider.assert_clean();
        assert_eq!(usages.len(), 2 * QUESTIONS, "{wire:?}");
        let requests = provider.requests();
        assert!(requests.len() >= 3 * QUESTIONS, "{wire:?}: every tool is searched for");
        let expected = if wire == Wire::Messages { 1 } else { 2 };
        assert!(requests.iter().all(|recorded| eager(recorded) == expected), "{wire:?}: the search, and `call_tool`");

        let read = counted(&usages);
        let saved = 1.0 - read as f64 / (all * usages.len() as u64) as f64;
        assert!(saved >= SAVED, "{wire:?}: {read} tokens in {} turns of {all} each: {saved:.4}", usages.len());
    }
}
