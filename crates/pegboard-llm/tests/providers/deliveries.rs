//! What a model learns of a search, whatever the delivery.

use super::*;

/// A search of the model, as the delivery has it.
fn search(dialect: DialectName, delivery: Delivery, query: &str) -> Part {
    let arguments = json!({"query": query});
    match (dialect, delivery) {
        (_, Delivery::ClientNative) => {
            Part::Search(Search { client: true, arguments: Some(arguments), ..Search::default() })
        }
        (DialectName::Schema, _) => Part::call("ToolSearch", arguments),
        (DialectName::Explicit, _) => Part::call(
            "add_tool",
            json!({"tool_names": query.strip_prefix("select:").map(|names| names.split(','))
                .map(Iterator::collect::<Vec<_>>)}),
        ),
        _ => Part::call("tool_search", arguments),
    }
}

/// What the model reads after each of these searches: the messages that are new.
async fn answers(model: &str, dialect: DialectName, delivery: Delivery, queries: &[&str]) -> Vec<String> {
    let turns = queries.iter().map(|query| provider::ScriptedTurn::say([search(dialect, delivery, query)]));
    let turns: Vec<provider::ScriptedTurn> =
        turns.chain([provider::ScriptedTurn::say([Part::text("Done.")])]).collect();
    let provider = provider::Provider::start(Script::new(turns).stable_prefix());
    let model = Model::parse(model).expect("a model");
    let client = client(&model, provider.url());
    let mut conversation = Conversation::new(model, session(dialect), Some(delivery)).expect("a conversation");
    conversation.say("hi");
    converse(&mut conversation, &client, false).await;
    provider.assert_clean();
    let key = if conversation.wire() == Wire::Responses { "input" } else { "messages" };
    let messages = |request: &provider::Recorded| request.body[key].as_array().cloned().unwrap_or_default();
    let requests = provider.requests();
    let new = |pair: &[provider::Recorded]| {
        let after = messages(&pair[1]);
        // Behind what the model has said.
        after[messages(&pair[0]).len() + 1..].iter().map(Value::to_string).collect()
    };
    requests.windows(2).map(new).collect()
}

#[tokio::test]
async fn hits_errors_and_missing_names_reach_the_model() {
    use Delivery::{ClientNative, Reference};
    use DialectName::{Explicit, Schema, Select};
    let check = async |model: &str, dialect: DialectName, delivery: Delivery, queries: &[(&str, &[&str])]| {
        let asked: Vec<&str> = queries.iter().map(|(query, _)| *query).collect();
        let answers = answers(model, dialect, delivery, &asked).await;
        for (answer, (query, expected)) in answers.iter().zip(queries) {
            for word in *expected {
                assert!(answer.contains(word), "{model} {dialect:?} {delivery} `{query}`: no `{word}` in {answer}");
            }
        }
    };
    for (model, delivery) in [("anthropic/claude-opus-4-8", Reference), ("openai-responses/gpt-5.4", ClientNative)] {
        let select: &[(&str, &[&str])] = &[
            ("weather", &["get_weather"]),
            // Loaded already, and found again.
            ("weather", &["get_weather"]),
            ("select:get_weather,send_mail", &["get_weather", "send_mail"]),
            ("", &["query is required"]),
            ("select:nobody", &["matches", "[]"]),
        ];
        check(model, Select, delivery, select).await;
        let schema: &[(&str, &[&str])] = &[
            ("select:get_weather,nobody", &["get_weather", "missing", "nobody"]),
            ("select:get_weather,send_mail", &["get_weather", "send_mail"]),
            ("", &["`query` cannot be empty"]),
        ];
        check(model, Schema, delivery, schema).await;
    }
    let explicit: &[(&str, &[&str])] = &[("select:get_weather,nobody", &["get_weather", "Not found: nobody"])];
    check("anthropic/claude-opus-4-8", Explicit, Reference, explicit).await;
}

/// Definitions travel once, and what references say is not said again.
#[tokio::test]
async fn nothing_is_said_twice() {
    let (model, schema) = ("anthropic/claude-opus-4-8", DialectName::Schema);
    let answers = answers(model, schema, Delivery::Reference, &["weather", "select:get_weather,send_mail"]).await;
    assert!(answers[0].contains("tool_reference") && !answers[0].contains("matches"), "{}", answers[0]);
    assert!(answers[1].contains("matches") && !answers[1].contains("parameters"), "{}", answers[1]);
}
